// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/function_schedules.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/execution/program.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/function_builder.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using testing::Fresh;
using testing::LeafInput;
using testing::MethodBuilder;
using testing::ProgramBuilder;

// Returns "return", "save", "skip" or "write 0" for each result.
std::vector<std::string> Uses(const ScheduleOptions& options) {
  std::vector<std::string> uses;
  for (const ResultRequest& request : options.results) {
    uses.push_back(request.use == ResultUse::kReturn ? "return"
                   : request.use == ResultUse::kSave ? "save"
                   : request.use == ResultUse::kSkip ? "skip"
                                                     : absl::StrCat("write ", request.input));
  }
  return uses;
}

// Expects the options with which the runtime plans the function "f".
FunctionSchedules ExpectThoseOfTheRuntime(const std::shared_ptr<const Program>& program) {
  const int method = *program->FindMethod("f");
  const absl::StatusOr<FunctionMetadata> function = FunctionMetadata::Create(*program, method);
  EXPECT_TRUE(function.ok()) << function.status();
  const absl::StatusOr<FunctionSchedules> schedules = SchedulesOfFunction(program->method(method));
  EXPECT_TRUE(schedules.ok()) << schedules.status();
  if (!function.ok() || !schedules.ok()) return {};
  EXPECT_EQ(Uses(schedules->recorded_forward), Uses({.results = function->requests, .donated = {}}));
  EXPECT_EQ(schedules->donated_backward.donated, function->backward.donated);
  return *schedules;
}

TEST(FunctionSchedulesTest, SavedValuesAreKeptOrSkipped) {
  const std::shared_ptr<const Program> program = testing::Square().Load();
  const FunctionSchedules schedules = ExpectThoseOfTheRuntime(program);
  EXPECT_THAT(Uses(schedules.recorded_forward), ElementsAre("return", "save"));
  EXPECT_THAT(Uses(schedules.plain_forward), ElementsAre("return", "skip"));
  EXPECT_EQ(SchedulesOf(program->artifact(), program->method(*program->FindMethod("f")))->size(), 3u);
  // The saved value is an argument, which the backward may not overwrite.
  EXPECT_EQ(SchedulesOf(program->artifact(), program->method(*program->FindMethod("b")))->size(), 1u);
}

TEST(FunctionSchedulesTest, NewContentsOfArgumentsAreWrittenInPlace) {
  const std::shared_ptr<const Program> program = testing::MutatesNonLeaf().Load();
  const FunctionSchedules schedules = ExpectThoseOfTheRuntime(program);
  EXPECT_THAT(Uses(schedules.recorded_forward), ElementsAre("write 0", "return"));
  EXPECT_EQ(SchedulesOf(program->artifact(), program->method(*program->FindMethod("f")))->size(), 2u);
}

TEST(FunctionSchedulesTest, BackwardMayOverwriteSavedValuesThatNothingElseReads) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t tripled = Times(f, f.Input("x", DType::kFloat32, {"2"}), 3.0);
  f.proto().add_outputs(Times(f, tripled, tripled));
  f.proto().add_outputs(tripled);
  MethodBuilder b = builder.AddMethod("b");
  const uint32_t saved = b.Input("saved", DType::kFloat32, {"2"});
  b.proto().add_outputs(Times(b, Times(b, saved, 6.0), b.Input("tangent", DType::kFloat32, {"2"})));
  Pair(f, b, 1, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput()};
  facts.output_info = {Fresh(true)};
  facts.saved = SavedForBackward();
  facts.saved->num_tensors = 1;
  facts.saved->donated = {0};
  SetMetadata(f, facts);
  const std::shared_ptr<const Program> program = builder.Load();
  EXPECT_THAT(ExpectThoseOfTheRuntime(program).donated_backward.donated, ElementsAre(0));
  const auto schedules = SchedulesOf(program->artifact(), program->method(*program->FindMethod("b")));
  ASSERT_EQ(schedules->size(), 2u);
  EXPECT_TRUE((*schedules)[0].donated.empty());
  EXPECT_THAT((*schedules)[1].donated, ElementsAre(0));
}

TEST(FunctionSchedulesTest, MethodsWithoutMetadataHaveDefaultOptions) {
  const std::shared_ptr<const Program> program = testing::LinearRegression().Load();
  for (const serialization::Method& method : program->artifact().methods()) {
    const auto schedules = SchedulesOf(program->artifact(), method);
    ASSERT_TRUE(schedules.ok()) << schedules.status();
    ASSERT_EQ(schedules->size(), 1u) << method.name();
    EXPECT_TRUE(schedules->front().results.empty() && schedules->front().donated.empty());
  }
}

}  // namespace
}  // namespace cotan::aot
