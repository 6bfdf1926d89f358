// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/cpu/expr/plan.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many
using cotan::testing::ExprBuilder;

constexpr DType kF32 = DType::kFloat32;

class PlanLoopsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (BestTileOps().generate == nullptr) GTEST_SKIP() << "there is no code generator for this processor";
  }
};

TensorSpec Spec(DimVector sizes, DType dtype = kF32) {
  DimVector strides = ContiguousStrides(sizes);
  return {dtype, {std::move(sizes), std::move(strides)}};
}

Plan Compile(const ExprBuilder& b, const std::vector<TensorSpec>& in, const std::vector<TensorSpec>& out) {
  const Op op = b.Build();
  const KernelRequest request = {op, in, out, {}};
  const auto program = ResolveExpr(request);
  EXPECT_TRUE(program.ok()) << program.status();
  auto plan = CompilePlan(*program, request, BestTileOps());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

int Count(const std::vector<Step>& steps, Step::Kind kind) {
  return static_cast<int>(std::count_if(steps.begin(), steps.end(), [&](const Step& s) { return s.kind == kind; }));
}

TEST_F(PlanLoopsTest, WholeTilesHaveCodeForFunctionsAndReductions) {
  ExprBuilder b({100, 64}, {1});
  const int e = b.Apply(FN_EXP, {b.Sub(b.Input(0, kF32), b.Max(b.Input(0, kF32)))});
  b.Output(b.Div(e, b.Sum(e)));
  const Plan plan = Compile(b, {Spec({100, 64})}, {Spec({100, 64})});
  ASSERT_EQ(plan.phases.size(), 3u);
  const std::vector<Step>& steps = plan.phases[1].whole_tile_steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].kind, Step::Kind::kCode);
  EXPECT_EQ(steps[1].kind, Step::Kind::kFinishRows);
  EXPECT_EQ(Count(plan.phases[1].steps, Step::Kind::kCode), 0);  // for a tile of fewer rows
}

TEST_F(PlanLoopsTest, ValuesOfRowsAreNotSpreadForWholeTiles) {
  ExprBuilder b({100, 64}, {1});
  const int e = b.Apply(FN_EXP, {b.Sub(b.Input(0, kF32), b.Max(b.Input(0, kF32)))});
  b.Output(b.Div(e, b.Sum(e)));
  const Plan plan = Compile(b, {Spec({100, 64})}, {Spec({100, 64})});
  EXPECT_EQ(Count(plan.phases[1].start, Step::Kind::kSpread), 1);  // the maximum
  EXPECT_EQ(Count(plan.phases[1].whole_tile_start, Step::Kind::kSpread), 0);
  EXPECT_EQ(plan.phases[2].whole_tile_start.size(), 0u);
}

TEST_F(PlanLoopsTest, ValuesOfRowsAreSpreadWhereStepsWithoutCodeReadThem) {
  ExprBuilder b({100, 64}, {1});
  const int x = b.Input(0, kF32), mean = b.Sum(x);
  b.Output(b.Mul(b.Apply(FN_SIN, {mean}), b.Apply(FN_SIN, {b.Add(x, mean)})));  // one of a row, one of its elements
  b.Output(b.Apply(FN_ATAN2, {mean, x}));
  const Plan plan = Compile(b, {Spec({100, 64})}, {Spec({100, 64}), Spec({100, 64})});
  EXPECT_EQ(Count(plan.phases[1].start, Step::Kind::kSpread), 2);
  EXPECT_EQ(Count(plan.phases[1].whole_tile_start, Step::Kind::kSpread), 1);  // of atan2
}

TEST_F(PlanLoopsTest, ValuesOfRowsAreSpreadIfARowIsLessThanAVector) {
  ExprBuilder b({100, 15}, {1});
  const int x = b.Input(0, kF32);
  b.Output(b.Apply(FN_EXP, {b.Sub(x, b.Max(x))}));
  const Plan plan = Compile(b, {Spec({100, 15})}, {Spec({100, 15})});
  EXPECT_EQ(Count(plan.phases[1].whole_tile_start, Step::Kind::kSpread), 1);
}

TEST_F(PlanLoopsTest, LoadsComeBeforeRunsOfFunctions) {
  ExprBuilder b({40, 64});
  const int x = b.Apply(FN_EXP, {b.Input(0, kF32)});
  b.Output(b.Mul(b.Add(x, b.Input(1, kF32)), b.Input(2, kF32)));  // values of rows, and then of columns
  const Plan plan = Compile(b, {Spec({40, 64}), Spec({40, 1}), Spec({1, 64})}, {Spec({40, 64})});
  const std::vector<Step>& steps = plan.phases[0].whole_tile_steps;
  EXPECT_EQ(Count(steps, Step::Kind::kCode), 1);
  EXPECT_EQ(steps.back().kind, Step::Kind::kCode);
}

TEST_F(PlanLoopsTest, SumsOfColumnsArePartOfTheCode) {
  ExprBuilder b({1000, 64}, {0});
  const int x = b.Input(0, kF32);
  b.Output(b.Sum(b.Mul(x, b.Input(1, kF32))));
  b.Output(b.Sum(x));
  const TensorSpec sum = Spec({1, 64});
  const Plan plan = Compile(b, {Spec({1000, 64}), Spec({1000, 64})}, {sum, sum});
  ASSERT_EQ(plan.phases.size(), 1u);
  EXPECT_EQ(Count(plan.phases[0].whole_tile_steps, Step::Kind::kCode), 1);
  EXPECT_EQ(plan.phases[0].whole_tile_steps.size(), 1u);
}

TEST_F(PlanLoopsTest, FunctionsWithoutCodeDivideARun) {
  ExprBuilder b({5000});
  const int x = b.Apply(FN_SQRT, {b.Apply(FN_EXP, {b.Input(0, kF32)})});
  const int y = b.Apply(FN_SIN, {x});
  b.Output(b.Apply(FN_NEG, {b.Mul(y, x)}));
  const Plan plan = Compile(b, {Spec({5000})}, {Spec({5000})});
  const std::vector<Step>& steps = plan.phases[0].whole_tile_steps;
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].kind, Step::Kind::kCode);
  EXPECT_EQ(steps[1].kind, Step::Kind::kCompute);
  EXPECT_EQ(steps[2].kind, Step::Kind::kCode);
}

TEST_F(PlanLoopsTest, BoolsAndIndexesArePartOfTheCode) {
  ExprBuilder b({4000});
  const int is_label = b.Apply(FN_EQ, {b.Input(0, DType::kInt32), b.Input(1, DType::kInt32)});
  const int mask = b.Apply(FN_AND, {is_label, b.Input(2, DType::kBool)});
  b.Output(mask);
  b.Output(b.Mul(b.Cast(mask, kF32), b.Input(3, kF32)));
  const Plan plan =
      Compile(b, {Spec({4000}, DType::kInt32), Spec({4000}, DType::kInt32), Spec({4000}, DType::kBool), Spec({4000})},
              {Spec({4000}, DType::kBool), Spec({4000})});
  ASSERT_EQ(plan.phases[0].whole_tile_steps.size(), 1u);
  EXPECT_EQ(plan.phases[0].whole_tile_steps[0].kind, Step::Kind::kCode);
}

}  // namespace
}  // namespace cotan::cpu::expr
