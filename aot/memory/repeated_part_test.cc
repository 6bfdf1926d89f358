// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/repeated_part.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/schedule.h"
#include "runtime/testing/program_builder.h"

namespace cotan::aot {
namespace {

using cotan::testing::ExprBuilder;
using cotan::testing::MethodBuilder;
using cotan::testing::ProgramBuilder;
using serialization::FN_EXP;
using serialization::Method;
using ::testing::ElementsAre;

constexpr DType kF32 = DType::kFloat32;

// A method of one expression over [4, 8]: its results are x - mean of the row, exp of that, and the mean.
class RepeatedPartTest : public ::testing::Test {
 protected:
  RepeatedPartTest() {
    MethodBuilder m = program_.AddMethod("step");
    x_ = m.Input("x", kF32, {"4", "8"});
    const int reduce[] = {1};
    ExprBuilder b({4, 8}, reduce);
    const int loaded = b.Input(0, kF32);
    const int mean = b.Mul(b.Sum(loaded), b.Constant(kF32, 0.125));
    const int centered = b.Sub(loaded, mean);
    b.Output(centered);
    b.Output(b.Apply(FN_EXP, {centered}));
    b.Output(mean);
    centered_ = m.AddValue(kF32, {"4", "8"});
    exp_ = m.AddValue(kF32, {"4", "8"});
    mean_ = m.AddValue(kF32, {"4", "1"});
    m.AddOp(b.Build(), {x_}, {centered_, exp_, mean_});
    for (const uint32_t value : {centered_, exp_, mean_}) m.Output("result", value);
  }

  const Method& method() { return program_.artifact().methods(0); }

  // Returns the part for `results` if `known` can be read.
  std::optional<RepeatedPart> Part(const std::vector<uint32_t>& results, const std::vector<uint32_t>& known) {
    const absl::StatusOr<Schedule> schedule = MakeSchedule(program_.artifact(), method(), {});
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return PartFor(results, method(), schedule->steps[0],
                   [&](uint32_t value) { return std::find(known.begin(), known.end(), value) != known.end(); });
  }

  ProgramBuilder program_;
  uint32_t x_ = 0, centered_ = 0, exp_ = 0, mean_ = 0;
};

TEST_F(RepeatedPartTest, ReadsTheMeanInsteadOfAddingUpAgain) {
  const auto part = Part({exp_}, {mean_});
  ASSERT_TRUE(part.has_value());
  EXPECT_THAT(part->op.inputs(), ElementsAre(x_, mean_));
  EXPECT_THAT(part->op.outputs(), ElementsAre(exp_));
  EXPECT_EQ(part->op.expr().instructions_size(), 4);  // two inputs, a difference and an exponential
  EXPECT_EQ(part->op.expr().reduce_dims_size(), 0);
  ASSERT_EQ(part->step.inputs.size(), 2u);
  EXPECT_EQ(part->step.inputs[1].geometry.layout.sizes, DimVector({4, 1}));
  EXPECT_EQ(part->step.outputs.size(), 1u);
}

TEST_F(RepeatedPartTest, ReadsOnlyWhatItNeeds) {
  const auto part = Part({exp_}, {mean_, centered_});
  ASSERT_TRUE(part.has_value());
  EXPECT_THAT(part->op.inputs(), ElementsAre(centered_));
  EXPECT_EQ(part->op.expr().instructions_size(), 2);
}

TEST_F(RepeatedPartTest, HasSeveralResults) {
  const auto part = Part({centered_, exp_}, {mean_});
  ASSERT_TRUE(part.has_value());
  EXPECT_THAT(part->op.outputs(), ElementsAre(centered_, exp_));
}

TEST_F(RepeatedPartTest, SumsAreNotDivided) {
  EXPECT_FALSE(Part({exp_}, {}).has_value());
  EXPECT_FALSE(Part({centered_, exp_, mean_}, {}).has_value());
}

TEST_F(RepeatedPartTest, ResultsOfSumsNeedTheWholeOp) { EXPECT_FALSE(Part({mean_}, {centered_}).has_value()); }

TEST_F(RepeatedPartTest, OtherOpsHaveNoParts) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("step");
  const uint32_t a = m.Input("a", kF32, {"4", "4"});
  const uint32_t product = m.Matmul(a, a, {"4", "4"});
  m.Output("product", product);
  const absl::StatusOr<Schedule> schedule = MakeSchedule(program.artifact(), program.artifact().methods(0), {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_FALSE(
      PartFor({product}, program.artifact().methods(0), schedule->steps[0], [](uint32_t) { return true; }).has_value());
}

}  // namespace
}  // namespace cotan::aot
