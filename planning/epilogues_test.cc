// SPDX-License-Identifier: Apache-2.0

#include "planning/epilogues.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "planning/overwrite.h"
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

// Returns the schedule of the program's method, all of whose ops have passed CheckOp().
Schedule Placed(ProgramBuilder& program) {
  const std::shared_ptr<const Program> loaded = program.Load();
  const Method& method = loaded->method(0);
  absl::StatusOr<Schedule> schedule = MakeSchedule(loaded->artifact(), method, {});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_TRUE(PlaceEpilogues(method, {}, *schedule).ok());
  for (const ScheduledStep& step : schedule->steps) {
    const std::vector<TensorSpec> inputs = SpecsOf(step.inputs);
    const std::vector<TensorSpec> outputs = SpecsOf(step.outputs);
    const absl::Status status =
        CheckOp({.op = OpOf(method, step), .inputs = inputs, .outputs = outputs, .symbols = {}});
    EXPECT_TRUE(status.ok()) << status;
  }
  return *std::move(schedule);
}

// Returns what the steps are: "m" for a matmul, "M" for one with an epilogue, "e" for an expression, "c" for a copy.
std::string Kinds(const Schedule& schedule) {
  std::string kinds;
  for (const ScheduledStep& step : schedule.steps) {
    const Op* op = step.part.get();
    kinds += op == nullptr ? '-' : op->has_expr() ? 'e' : op->matmul().has_epilogue() ? 'M' : 'm';
  }
  return kinds;
}

uint32_t MatmulOf(MethodBuilder& m, const std::vector<uint32_t>& inputs, const Sizes& sizes, DType dtype = kF32) {
  const uint32_t output = m.AddValue(dtype, sizes);
  Op op;
  op.mutable_matmul();
  m.AddOp(op, inputs, {output});
  return output;
}

int Relu(ExprBuilder& b) { return b.Apply(FN_RELU, {0}); }

TEST(EpiloguesTest, ABiasAndAnActivationBecomeAnEpilogue) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", kF32, {"6", "5"});
  const uint32_t w = m.Input("w", kF32, {"5", "4"});
  const uint32_t bias = m.Input("bias", kF32, {"4"});
  m.Output("y", m.Pointwise({"6", "4"}, {MatmulOf(m, {x, w, bias}, {"6", "4"})}, Relu));
  const Schedule schedule = Placed(program);
  ASSERT_EQ(Kinds(schedule), "M");
  EXPECT_EQ(schedule.steps[0].inputs.size(), 3u);
  const Expr& epilogue = schedule.steps[0].part->matmul().epilogue();
  ASSERT_EQ(epilogue.instructions_size(), 4);
  EXPECT_EQ(epilogue.instructions(2).fn(), FN_ADD);
  EXPECT_EQ(epilogue.instructions(3).fn(), FN_RELU);
}

TEST(EpiloguesTest, AViewOfRowsIsPassedOnToTheOperand) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", kF32, {"6", "5"});
  const uint32_t w = m.Input("w", kF32, {"5", "4"});
  const uint32_t c = m.Input("c", kF32, {"6", "4"});
  const uint32_t scale = m.Input("scale", kF32, {"2", "1", "4"});
  const uint32_t product = m.View(MatmulOf(m, {x, w, c}, {"6", "4"}), {"2", "3", "4"});
  m.Output("y", m.Pointwise({"2", "3", "4"}, {scale, product}, [](ExprBuilder& b) { return b.Sub(0, 1); }));
  const Schedule schedule = Placed(program);
  ASSERT_EQ(Kinds(schedule), "M");
  const ScheduledStep& step = schedule.steps[0];
  ASSERT_EQ(step.inputs.size(), 4u);
  EXPECT_THAT(step.inputs[0].geometry.layout.sizes, ElementsAre(2, 3, 5));
  EXPECT_THAT(step.inputs[0].geometry.layout.strides, ElementsAre(15, 5, 1));
  EXPECT_THAT(step.inputs[1].geometry.layout.sizes, ElementsAre(5, 4));
  EXPECT_THAT(step.inputs[2].geometry.layout.strides, ElementsAre(12, 4, 1));
  EXPECT_THAT(step.inputs[3].geometry.layout.sizes, ElementsAre(2, 1, 4));
}

TEST(EpiloguesTest, AProductThatIsReadTwiceStays) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", kF32, {"4", "4"});
  const uint32_t product = MatmulOf(m, {x, x}, {"4", "4"});
  const uint32_t y = m.Pointwise({"4", "4"}, {product}, Relu);
  m.Output("y", y);
  m.Output("z", MatmulOf(m, {product, y}, {"4", "4"}));
  EXPECT_EQ(Kinds(Placed(program)), "---");
}

TEST(EpiloguesTest, AProductThatIsAResultStays) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", kF32, {"4", "4"});
  const uint32_t product = MatmulOf(m, {x, x}, {"4", "4"});
  m.Output("product", product);
  m.Output("y", m.Pointwise({"4", "4"}, {product}, Relu));
  EXPECT_EQ(Kinds(Placed(program)), "--");
}

TEST(EpiloguesTest, AProductWhoseOperandIsWrittenBeforeItIsReadStays) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("s", State::BUFFER, {"2", "2"}, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t old = m.Read(state, kF32, {"2", "2"});
  const uint32_t product = MatmulOf(m, {old, old}, {"2", "2"});
  const uint32_t next = m.Pointwise({"2", "2"}, {old}, [](ExprBuilder& b) { return b.Add(0, 0); });
  m.Update(state, next);
  m.Output("y", m.Pointwise({"2", "2"}, {product, next}, [](ExprBuilder& b) { return b.Sub(0, 1); }));
  EXPECT_EQ(Kinds(Placed(program)), "---");
}

TEST(EpiloguesTest, AnAddendOfAHalfIsRoundedWithTheProduct) {
  for (const bool has_addend : {false, true}) {
    ProgramBuilder program;
    MethodBuilder m = program.AddMethod("run");
    const DType dtype = DType::kBFloat16;
    const uint32_t x = m.Input("x", dtype, {"4", "4"});
    const std::vector<uint32_t> inputs = has_addend ? std::vector{x, x, x} : std::vector{x, x};
    m.Output("y", m.Pointwise({"4", "4"}, {MatmulOf(m, inputs, {"4", "4"}, dtype)}, Relu));
    EXPECT_EQ(Kinds(Placed(program)), has_addend ? "--" : "M");
  }
}

// Adds a matmul of [size, size] with relu as its epilogue, after which `reads` reads the result.
std::string KindsWithEpilogue(const std::string& size, bool is_read) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", kF32, {size, size});
  const uint32_t y = m.AddValue(kF32, {size, size});
  ExprBuilder epilogue({});
  epilogue.Output(epilogue.Apply(FN_RELU, {epilogue.Input(0, kF32)}));
  for (int d = 0; d < 2; ++d) epilogue.expr().add_domain_sizes(size);
  Op op;
  *op.mutable_matmul()->mutable_epilogue() = epilogue.expr();
  m.AddOp(op, {x, x}, {y});
  m.Output("y", y);
  if (is_read) m.Output("z", m.Sum(y, 0));
  const std::string kinds = Kinds(Placed(program));
  return is_read ? kinds.substr(0, kinds.size() - 1) : kinds;
}

TEST(EpiloguesTest, EpiloguesOfLargeProductsAreSplitOff) {
  EXPECT_EQ(KindsWithEpilogue("430", true), "-");
  EXPECT_EQ(KindsWithEpilogue("512", true), "me");
  // Without a reader, an epilogue spares no launch: it would join a group.
  EXPECT_EQ(KindsWithEpilogue("410", false), "-");
  EXPECT_EQ(KindsWithEpilogue("430", false), "me");
}

// A product, of which an expression computes y = relu(product) and adds sums of columns of `summed` to a state.
std::string KindsWithSum(bool sums_product, bool reads_y, bool reads_state) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("s", State::BUFFER, {"1", "3"}, {1, 2, 3});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", kF32, {"3", "3"});
  const uint32_t old = m.Read(state, kF32, {"1", "3"});
  const uint32_t product = MatmulOf(m, {x, x}, {"3", "3"});
  const int reduce[] = {0};
  ExprBuilder b({3, 3}, reduce);
  const int loaded = b.Input(0, kF32);
  const int y = b.Apply(FN_RELU, {loaded});
  b.Output(b.Add(b.Input(1, kF32), b.Sum(sums_product ? loaded : y)));
  b.Output(y);
  const uint32_t next = m.AddValue(kF32, {"1", "3"});
  const uint32_t result = m.AddValue(kF32, {"3", "3"});
  m.AddOp(b.Build(), {product, old}, {next, result});
  m.Update(state, next);
  if (reads_y) m.Output("z", MatmulOf(m, {result, x}, {"3", "3"}));
  if (reads_state) m.Output("w", MatmulOf(m, {next, x}, {"1", "3"}));
  return Kinds(Placed(program));
}

TEST(EpiloguesTest, AnUpdateIsCutOffTheGradientThatTheBackwardGoesOnWith) {
  EXPECT_EQ(KindsWithSum(/*sums_product=*/false, /*reads_y=*/true, /*reads_state=*/false), "Me-");
  EXPECT_EQ(KindsWithSum(/*sums_product=*/true, /*reads_y=*/true, /*reads_state=*/false), "---");
  EXPECT_EQ(KindsWithSum(/*sums_product=*/false, /*reads_y=*/false, /*reads_state=*/false), "--");
  EXPECT_EQ(KindsWithSum(/*sums_product=*/false, /*reads_y=*/true, /*reads_state=*/true), "----");
}

TEST(EpiloguesTest, AnExpressionOfTheProductsTransposeStays) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", kF32, {"4", "4"});
  const uint32_t transposed = m.Permute(MatmulOf(m, {x, x}, {"4", "4"}), {1, 0});
  m.Output("y", m.Pointwise({"4", "4"}, {transposed}, Relu));
  EXPECT_EQ(Kinds(Placed(program)), "--");
}

TEST(EpiloguesTest, TheFirstOutputHasTheProductsDtype) {
  for (const bool stores_value : {false, true}) {
    ProgramBuilder program;
    MethodBuilder m = program.AddMethod("run");
    const uint32_t x = m.Input("x", kF32, {"4", "4"});
    const uint32_t product = MatmulOf(m, {x, x}, {"4", "4"});
    ExprBuilder b({4, 4});
    const int relu = b.Apply(FN_RELU, {b.Input(0, kF32)});
    b.Output(b.Apply(FN_LE, {relu, b.Constant(kF32, 0)}));
    if (stores_value) b.Output(relu);
    const uint32_t mask = m.AddValue(DType::kBool, {"4", "4"});
    const uint32_t y = m.AddValue(kF32, {"4", "4"});
    m.AddOp(b.Build(), {product}, stores_value ? std::vector{mask, y} : std::vector{mask});
    m.Output("mask", mask);
    if (stores_value) m.Output("y", y);
    const Schedule schedule = Placed(program);
    EXPECT_EQ(Kinds(schedule), stores_value ? "M" : "--");
    if (!stores_value) continue;
    EXPECT_EQ(schedule.steps[0].outputs[1].geometry.dtype, DType::kBool);
  }
}

}  // namespace
}  // namespace cotan
