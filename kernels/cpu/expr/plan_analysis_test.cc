// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan_analysis.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT
using cotan::testing::ExprBuilder;

constexpr DType kF32 = DType::kFloat32;

TensorSpec Spec(DimVector sizes, DType dtype = kF32) {
  DimVector strides = ContiguousStrides(sizes);
  return {dtype, {std::move(sizes), std::move(strides)}};
}

PlanAnalysis Analyze(const ExprBuilder& b, const std::vector<TensorSpec>& in, const std::vector<TensorSpec>& out) {
  const Op op = b.Build();
  const KernelRequest request = {op, in, out, {}};
  const auto program = ResolveExpr(request);
  EXPECT_TRUE(program.ok()) << program.status();
  return AnalyzePlan(*program, request);
}

const NodeInfo& InfoOf(const PlanAnalysis& analysis, int node) { return analysis.info[static_cast<size_t>(node)]; }

TEST(PlanAnalysisTest, ValuesHaveTheirHomesByHowOftenTheyChange) {
  const int reduce[] = {1};
  ExprBuilder b({500, 64}, reduce);
  const int x = b.Input(0, kF32);
  const int row = b.Input(1, kF32);
  const int rate = b.Input(2, kF32);
  const int scaled = b.Mul(x, row);
  const int sum = b.Sum(scaled);
  b.Output(b.Add(scaled, b.Mul(sum, rate)));
  const PlanAnalysis a = Analyze(b, {Spec({500, 64}), Spec({64}), Spec({})}, {Spec({500, 64})});
  EXPECT_EQ(InfoOf(a, x).home, Home::kTile);
  EXPECT_EQ(InfoOf(a, row).home, Home::kHoisted);
  EXPECT_EQ(InfoOf(a, rate).home, Home::kUniform);
  EXPECT_EQ(InfoOf(a, sum).home, Home::kUnit);
}

TEST(PlanAnalysisTest, EachDependentReductionNeedsAPhase) {
  const int reduce[] = {1};
  ExprBuilder b({500, 64}, reduce);
  const int x = b.Input(0, kF32);
  const int max = b.Max(x);
  const int e = b.Apply(FN_EXP, {b.Sub(x, max)});
  const int sum = b.Sum(e);
  b.Output(b.Div(e, sum));
  const PlanAnalysis a = Analyze(b, {Spec({500, 64})}, {Spec({500, 64})});
  EXPECT_EQ(a.num_phases, 3);
  EXPECT_TRUE(a.IsReduced(max, 0));
  EXPECT_TRUE(a.IsReduced(sum, 1));
  EXPECT_EQ(a.StorePhase(0), 2);
  // exp is expensive: computed once, kept for the division.
  EXPECT_TRUE(a.IsComputed(e, 1));
  EXPECT_FALSE(a.IsComputed(e, 2));
  EXPECT_TRUE(InfoOf(a, e).kept);
}

TEST(PlanAnalysisTest, ComparisonsAndSquaresTakeOneForm) {
  ExprBuilder b({100});
  const int x = b.Input(0, kF32);
  const int y = b.Input(1, kF32);
  const int greater = b.Apply(FN_GT, {x, y});
  const int square = b.Apply(FN_POW, {x, b.Constant(kF32, 2)});
  b.Output(b.Apply(FN_SELECT, {greater, square, y}));
  const PlanAnalysis a = Analyze(b, {Spec({100}), Spec({100})}, {Spec({100})});
  EXPECT_EQ(a.node(greater).fn, FN_LT);
  EXPECT_EQ(a.node(greater).operands[0], y);
  EXPECT_EQ(a.node(square).fn, FN_MUL);
  EXPECT_EQ(a.node(square).operands[1], x);
}

TEST(PlanAnalysisTest, CastsThatChangeNoRegisterAreNotComputed) {
  ExprBuilder b({100});
  const int x = b.Input(0, DType::kBFloat16);
  const int wide = b.Cast(x, kF32);
  b.Output(b.Apply(FN_NEG, {wide}));
  const PlanAnalysis a = Analyze(b, {Spec({100}, DType::kBFloat16)}, {Spec({100})});
  EXPECT_EQ(InfoOf(a, wide).same_as, x);
  EXPECT_FALSE(InfoOf(a, wide).needed);
}

TEST(PlanAnalysisTest, ASumTakesInTheProductThatOnlyItReads) {
  ExprBuilder b({5000});
  const int x = b.Input(0, kF32);
  const int y = b.Input(1, kF32);
  const int product = b.Mul(x, y);
  const int sum = b.Add(product, x);
  b.Output(sum);
  const std::vector<TensorSpec> two = {Spec({5000}), Spec({5000})};
  const PlanAnalysis once = Analyze(b, two, {Spec({5000})});
  EXPECT_EQ(InfoOf(once, sum).contraction, Contraction::kMulAdd);
  EXPECT_FALSE(InfoOf(once, product).needed);
  EXPECT_EQ(once.Arity(sum), 3);

  b.Output(product);
  const PlanAnalysis stored = Analyze(b, two, {Spec({5000}), Spec({5000})});
  EXPECT_TRUE(InfoOf(stored, product).needed);
}

TEST(PlanAnalysisTest, AReductionTakesInTheProductThatOnlyItReads) {
  const int reduce[] = {1};
  ExprBuilder b({500, 64}, reduce);
  const int x = b.Input(0, kF32);
  const int product = b.Mul(x, b.Input(1, kF32));
  const int sum = b.Sum(product);
  const int scaled = b.Mul(x, b.Input(2, kF32));  // the second factor is one value per row
  const int other = b.Sum(scaled);
  b.Output(sum);
  b.Output(other);
  const std::vector<TensorSpec> in = {Spec({500, 64}), Spec({500, 64}), Spec({500, 1})};
  const PlanAnalysis once = Analyze(b, in, {Spec({500, 1}), Spec({500, 1})});
  EXPECT_TRUE(InfoOf(once, sum).sums_products);
  EXPECT_EQ(once.Arity(sum), 2);
  EXPECT_FALSE(InfoOf(once, product).needed);
  EXPECT_FALSE(InfoOf(once, other).sums_products);
  EXPECT_TRUE(InfoOf(once, scaled).needed);

  b.Output(product);
  const PlanAnalysis stored = Analyze(b, in, {Spec({500, 1}), Spec({500, 1}), Spec({500, 64})});
  EXPECT_FALSE(InfoOf(stored, sum).sums_products);
}

TEST(PlanAnalysisTest, FewLongReductionsAreSplit) {
  const int reduce[] = {0};
  const auto splits = [&](int64_t size) {
    ExprBuilder b({size}, reduce);
    b.Output(b.Sum(b.Input(0, kF32)));
    return Analyze(b, {Spec({size})}, {Spec({1})}).splits;
  };
  EXPECT_EQ(splits(1000), 1);
  EXPECT_GT(splits(1 << 20), 1);
}

TEST(PlanAnalysisTest, ColumnsOfAMatrixAreNotDense) {
  ExprBuilder b({64, 64});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  TensorSpec transposed = Spec({64, 64});
  transposed.layout.strides = {1, 64};
  const PlanAnalysis a = Analyze(b, {Spec({64, 64}), transposed}, {Spec({64, 64})});
  EXPECT_TRUE(a.TileIsDense(0));
  EXPECT_FALSE(a.TileIsDense(1));
  EXPECT_TRUE(a.TileIsDense(2));
}

}  // namespace
}  // namespace cotan::cpu::expr
