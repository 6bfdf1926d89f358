// SPDX-License-Identifier: Apache-2.0

#include "planning/computed_operands.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/step_requests.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many
using ::testing::ElementsAre;
using testing::ExprBuilder;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::Sizes;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kI8 = DType::kInt8;

bool TakesAll(const ComputedOperandRequest& /*request*/) { return true; }
bool TakesNone(const ComputedOperandRequest& /*request*/) { return false; }

struct Scheduled {
  std::shared_ptr<const Program> program;
  Schedule schedule;

  const Method& method() const { return program->method(0); }
};

Scheduled ScheduleOf(ProgramBuilder& builder, bool (*takes)(const ComputedOperandRequest&) = TakesAll) {
  Scheduled result = {.program = builder.Load(), .schedule = {}};
  const ComputedOperandKernels kernels = {.takes = takes};
  absl::StatusOr<Schedule> schedule =
      MakeSchedule(result.program->artifact(), result.method(), {}, {.computed_operands = &kernels});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  result.schedule = *std::move(schedule);
  return result;
}

// Returns what the steps are: "e" for an expression, "m" for a matmul, "P" for a pair, "c" for another op.
std::string Kinds(const Scheduled& scheduled) {
  std::string kinds;
  for (const ScheduledStep& step : scheduled.schedule.steps) {
    const Op& op = OpOf(scheduled.method(), step);
    kinds += step.computed != nullptr ? 'P' : op.has_expr() ? 'e' : op.has_matmul() ? 'm' : 'c';
  }
  return kinds;
}

uint32_t MatmulOf(MethodBuilder& m, const std::vector<uint32_t>& inputs, const Sizes& sizes) {
  const uint32_t output = m.AddValue(kF32, sizes);
  Op op;
  op.mutable_matmul();
  m.AddOp(op, inputs, {output});
  return output;
}

// A weight [6, 4] of integers, dequantized.
uint32_t WeightOf(MethodBuilder& m, uint32_t data, uint32_t scale) {
  return m.Pointwise({"6", "4"}, {data, scale}, [](ExprBuilder& b) { return b.Mul(b.Cast(0, kF32), 1); });
}

// A method that reads a quantized weight and x [3, 4].
struct Layer {
  ProgramBuilder program;
  MethodBuilder m;
  uint32_t x, data, scale;

  Layer() : m(program.AddMethod("run")) {
    const uint32_t integers = program.AddState("data", State::BUFFER, kI8, {"6", "4"}, 1);
    const uint32_t factors = program.AddState("scale", State::BUFFER, kF32, {"6", "1"}, 1);
    x = m.Input("x", kF32, {"3", "4"});
    data = m.Read(integers, kI8, {"6", "4"});
    scale = m.Read(factors, kF32, {"6", "1"});
  }
};

TEST(ComputedOperandsTest, AWeightAndItsProductAreOneStep) {
  Layer l;
  const uint32_t bias = l.m.Input("bias", kF32, {"6"});
  const uint32_t weight = WeightOf(l.m, l.data, l.scale);
  l.m.Output("y", MatmulOf(l.m, {l.x, l.m.Permute(weight, {1, 0}), bias}, {"3", "6"}));
  const Scheduled scheduled = ScheduleOf(l.program);
  ASSERT_EQ(Kinds(scheduled), "P");
  const ScheduledStep& step = scheduled.schedule.steps[0];
  EXPECT_EQ(step.inputs.size(), 4u);  // x, bias, integers, factors
  EXPECT_EQ(step.computed->num_inputs, 2);
  EXPECT_THAT(step.computed->operand.layout.strides, ElementsAre(1, 4));
  EXPECT_THAT(step.computed->value.layout.sizes, ElementsAre(6, 4));
  StepRequests requests(scheduled.method(), scheduled.schedule, step, {});
  ASSERT_EQ(requests.requests().size(), 2u);
  const KernelRequest& product = requests.requests()[0];
  const KernelRequest& expression = requests.requests()[1];
  EXPECT_TRUE(product.op.has_matmul());
  ASSERT_EQ(product.inputs.size(), 3u);
  EXPECT_THAT(product.inputs[1].layout.sizes, ElementsAre(4, 6));
  EXPECT_THAT(product.inputs[2].layout.sizes, ElementsAre(6));
  EXPECT_TRUE(expression.op.has_expr());
  ASSERT_EQ(expression.inputs.size(), 2u);
  EXPECT_EQ(expression.inputs[0].dtype, kI8);
  EXPECT_THAT(expression.outputs[0].layout.sizes, ElementsAre(6, 4));
}

TEST(ComputedOperandsTest, ABackendMayNotTakeThePair) {
  Layer l;
  l.m.Output("y", MatmulOf(l.m, {l.x, l.m.Permute(WeightOf(l.m, l.data, l.scale), {1, 0})}, {"3", "6"}));
  EXPECT_EQ(Kinds(ScheduleOf(l.program, TakesNone)), "em");
}

TEST(ComputedOperandsTest, AWeightThatIsReadTwiceStays) {
  Layer l;
  const uint32_t weight = WeightOf(l.m, l.data, l.scale);
  const uint32_t y = MatmulOf(l.m, {l.x, l.m.Permute(weight, {1, 0})}, {"3", "6"});
  l.m.Output("z", MatmulOf(l.m, {y, weight}, {"3", "4"}));
  EXPECT_EQ(Kinds(ScheduleOf(l.program)), "emm");
}

TEST(ComputedOperandsTest, AWeightThatIsAResultStays) {
  Layer l;
  const uint32_t weight = WeightOf(l.m, l.data, l.scale);
  l.m.Output("weight", weight);
  l.m.Output("y", MatmulOf(l.m, {l.x, l.m.Permute(weight, {1, 0})}, {"3", "6"}));
  EXPECT_EQ(Kinds(ScheduleOf(l.program)), "em");
}

TEST(ComputedOperandsTest, APartOfAValueAndALeftOperandStay) {
  Layer l;
  const uint32_t weight = WeightOf(l.m, l.data, l.scale);
  l.m.Output("y", MatmulOf(l.m, {weight, l.m.Permute(l.x, {1, 0})}, {"6", "3"}));
  EXPECT_EQ(Kinds(ScheduleOf(l.program)), "em");
  Layer sum;
  const uint32_t square = sum.m.Pointwise({"4", "4"}, {}, [](ExprBuilder& b) { return b.Constant(kF32, 2); });
  sum.m.Output("y", MatmulOf(sum.m, {square, square}, {"4", "4"}));
  EXPECT_EQ(Kinds(ScheduleOf(sum.program)), "em");
}

TEST(ComputedOperandsTest, InputsThatTakeAsMuchMemoryAreNotKept) {
  Layer l;
  const uint32_t floats = l.m.Pointwise({"6", "4"}, {l.data}, [](ExprBuilder& b) { return b.Cast(0, kF32); });
  const uint32_t sum = l.m.Sum(floats, 1);
  const uint32_t weight = l.m.Pointwise({"6", "4"}, {floats, sum}, [](ExprBuilder& b) { return b.Div(0, 1); });
  l.m.Output("y", MatmulOf(l.m, {l.x, l.m.Permute(weight, {1, 0})}, {"3", "6"}));
  EXPECT_EQ(Kinds(ScheduleOf(l.program)), "eeem");
}

TEST(ComputedOperandsTest, AnInputThatChangesBeforeTheProductIsReadBefore) {
  Layer l;
  const uint32_t weight = WeightOf(l.m, l.data, l.scale);
  const uint32_t next = l.m.Pointwise({"6", "1"}, {l.scale}, [](ExprBuilder& b) { return b.Add(0, 0); });
  l.m.Update(1, next);
  l.m.Output("y", MatmulOf(l.m, {l.x, l.m.Permute(weight, {1, 0})}, {"3", "6"}));
  EXPECT_EQ(Kinds(ScheduleOf(l.program)), "eem");
}

}  // namespace
}  // namespace cotan
