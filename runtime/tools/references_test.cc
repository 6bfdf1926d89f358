// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/references.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::tools {
namespace {

using ::testing::HasSubstr;
using testing::ProgramBuilder;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Difference Compared(const std::vector<float>& actual, const std::vector<float>& expected) {
  const std::vector<int64_t> sizes = {static_cast<int64_t>(expected.size())};
  return *Compare(*Tensor::From<float>(actual, sizes), *Tensor::From<float>(expected, sizes));
}

TEST(CompareTest, FindsTheLargestErrorAndTheLargestExpectedValue) {
  const Difference difference = Compared({1, -7, 3.5}, {1, -8, 3});
  EXPECT_EQ(difference.largest_error, 1);
  EXPECT_EQ(difference.largest_expected, 8);
}

TEST(CompareTest, NanAndInfinityMatchOnlyThemselves) {
  EXPECT_EQ(Compared({kNan, kInfinity, -kInfinity}, {kNan, kInfinity, -kInfinity}).largest_error, 0);
  EXPECT_EQ(Compared({kNan}, {1}).largest_error, kInfinity);
  EXPECT_EQ(Compared({1}, {kNan}).largest_error, kInfinity);
  EXPECT_EQ(Compared({kInfinity}, {-kInfinity}).largest_error, kInfinity);
  EXPECT_EQ(Compared({3, 2}, {kInfinity, 2}).largest_expected, 2);
}

TEST(CompareTest, SignsOfZeroDoNotDiffer) { EXPECT_EQ(Compared({0.0f}, {-0.0f}).largest_error, 0); }

TEST(CompareTest, TensorsWithoutElementsAreEqual) { EXPECT_EQ(Compared({}, {}).largest_error, 0); }

TEST(CompareTest, PartsOfComplexNumbersCountOneByOne) {
  Tensor a = *Tensor::Empty(DType::kComplex64, {1});
  Tensor b = *Tensor::Empty(DType::kComplex64, {1});
  auto* x = static_cast<float*>(a.address());
  auto* y = static_cast<float*>(b.address());
  x[0] = 1, x[1] = 2;
  y[0] = 1, y[1] = 5;
  EXPECT_EQ(Compare(a, b)->largest_error, 3);
  EXPECT_EQ(Compare(a, b)->largest_expected, 5);
}

TEST(RunningMeanTest, IsComparedOnAScaleOfItsVariance) {
  EXPECT_EQ(RunningVarianceOf("net.bn.running_mean"), "net.bn.running_var");
  EXPECT_EQ(RunningVarianceOf("running_mean"), "running_var");
  EXPECT_EQ(RunningVarianceOf("net.bn.running_var"), "");
  EXPECT_EQ(RunningVarianceOf("running_mean.weight"), "");
  EXPECT_DOUBLE_EQ(RunningMeanScale(4), 0.02);
}

// LinearRegression() with two recorded runs of "eval".
ProgramBuilder RecordedProgram() {
  ProgramBuilder program = testing::LinearRegression();
  for (const float value : {1.0f, 2.0f}) {
    auto& reference = *program.artifact().add_references();
    reference.set_method("eval");
    for (int side = 0; side < 2; ++side) {  // input and output
      const std::vector<float> content(side == 0 ? 3 : 2, value);
      auto& tensor = side == 0 ? *reference.add_inputs() : *reference.add_outputs();
      *tensor.mutable_type() = testing::TypeOf(DType::kFloat32, {"1", side == 0 ? "3" : "2"});
      tensor.set_segment(program.writer().AddSegment(
          std::string(reinterpret_cast<const char*>(content.data()), content.size() * sizeof(float))));
    }
  }
  return program;
}

TEST(ReferencesTest, TheFirstRunOfAMethodIsFoundWithItsArguments) {
  const std::shared_ptr<const Program> loaded = RecordedProgram().Load();
  const auto found = FindReference(*loaded, "eval");
  ASSERT_TRUE(found.ok()) << found.status();
  const auto arguments = LoadArguments(*loaded, **found, HostDevice());
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  ASSERT_EQ(arguments->size(), 1u);
  EXPECT_EQ((*arguments)[0].sizes(), (DimVector{1, 3}));
  EXPECT_EQ((*arguments)[0].data<float>()[2], 1);
  const absl::Status missing = FindReference(*loaded, "train_step").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no recorded run of 'train_step'"));
}

TEST(ReferencesTest, ArgumentsNeedAProgramLoadedWithRecordedRuns) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/recorded.cotan");
  ASSERT_TRUE(WriteFileAtomically(path, {RecordedProgram().Bytes()}).ok());
  const std::shared_ptr<const Program> with = *Program::Load(path, RecordedRuns::kMap);
  EXPECT_EQ((*LoadArguments(*with, **FindReference(*with, "eval"), HostDevice()))[0].data<float>()[2], 1);
  const std::shared_ptr<const Program> without = *Program::Load(path);
  const auto refused = LoadArguments(*without, **FindReference(*without, "eval"), HostDevice());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << refused.status();
}

}  // namespace
}  // namespace cotan::tools
