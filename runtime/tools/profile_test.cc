// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/profile.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

TEST(ProfileTextTest, WithoutBoundsTheMostExpensiveStepsComeFirst) {
  const std::vector<ProfiledStep> steps = {{"cheap", 1}, {"expensive", 3}, {"middle", 2}};
  const std::vector<std::string> lines = Lines(ProfileText(steps, 2));
  EXPECT_THAT(lines,
              ElementsAre(HasSubstr("100.0 %  all 3 steps"), HasSubstr(" 50.0 %  expensive"), HasSubstr("middle")));
  EXPECT_THAT(lines[0], Not(HasSubstr("bound")));
}

TEST(ProfileTextTest, TheTenFarthestAboveTheirBoundsComeFirst) {
  std::vector<ProfiledStep> steps = {{"near its bound", 100, "matmul", 99}, {"also near", 200, "matmul", 199}};
  for (int i = 0; i < 10; ++i) steps.push_back({absl::StrCat("far ", i), 20.0 + i, "expr", 10});
  const std::vector<std::string> lines = Lines(ProfileText(steps, 12));
  ASSERT_THAT(lines, SizeIs(1 + 2 + 1 + 10 + 1 + 2));
  EXPECT_THAT(lines[0], HasSubstr("bound      398.0 us   1.37 x  100.0 %  all 12 steps"));
  EXPECT_THAT(lines[1], HasSubstr("bound      100.0 us   2.45 x   45.0 %  all 10 steps of kind expr"));
  EXPECT_THAT(lines[2], HasSubstr("all 2 steps of kind matmul"));
  EXPECT_THAT(lines[4], HasSubstr("far 9"));
  EXPECT_THAT(lines[15], HasSubstr("also near"));
  EXPECT_THAT(lines[16], HasSubstr("near its bound"));
}

TEST(AddBoundsTest, PlansWithOtherStepsChangeNothing) {
  std::vector<ProfiledStep> steps = {{"a", 1}};
  AddBounds(PlannedMethod(), MachineRates(), absl::MakeSpan(steps));
  EXPECT_EQ(steps[0].kind, "");
  PlannedMethod planned;
  planned.steps.push_back({.op = 0, .name = "copy", .source = {}, .work = {}});
  AddBounds(planned, MachineRates(), absl::MakeSpan(steps));
  EXPECT_EQ(steps[0].kind, "copy");
}

}  // namespace
}  // namespace cotan::tools
