// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT
using cotan::testing::ExprBuilder;

constexpr DType kF32 = DType::kFloat32;

TensorSpec Spec(DimVector sizes) {
  DimVector strides = ContiguousStrides(sizes);
  return {kF32, {std::move(sizes), std::move(strides)}};
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

// Returns the operations of the chains in `steps`.
std::vector<ChainFn> Chained(const Plan& plan, const std::vector<Step>& steps) {
  std::vector<ChainFn> fns;
  for (const Step& step : steps) {
    for (int k = 0; k < step.count; ++k) fns.push_back(plan.chain_ops[static_cast<size_t>(step.index + k)].fn);
  }
  return fns;
}

TEST(PlanTest, ValuesOfChainsAreStoredIfLaterStepsReadThem) {
  ExprBuilder b({5000});
  const int x = b.Input(0, kF32);
  const int y = b.Apply(FN_EXP, {b.Mul(x, b.Constant(kF32, 2))});
  const int flag = b.Apply(FN_LT, {y, x});
  b.Output(b.Apply(FN_SELECT, {flag, b.Sub(x, y), b.Apply(FN_NEG, {y})}));
  const Plan plan = Compile(b, {Spec({5000})}, {Spec({5000})});
  ASSERT_EQ(plan.phases[0].steps.size(), 1u);
  // x is saved until the difference needs it, then the difference, because -y replaces it; y is stored.
  EXPECT_EQ(Chained(plan, plan.phases[0].steps),
            (std::vector<ChainFn>{ChainFn::kLoad, ChainFn::kSave, ChainFn::kMul, ChainFn::kExp, ChainFn::kStore,
                                  ChainFn::kLt, ChainFn::kSubFrom, ChainFn::kSave, ChainFn::kLoad, ChainFn::kNeg,
                                  ChainFn::kElse, ChainFn::kStore}));
}

TEST(PlanTest, ChainsConvertBFloat16) {
  const auto half = [](TensorSpec spec) {
    spec.dtype = DType::kBFloat16;
    return spec;
  };
  ExprBuilder b({5000});
  const int x = b.Cast(b.Input(0, DType::kBFloat16), kF32);
  b.Output(b.Cast(b.Apply(FN_EXP, {b.Mul(x, b.Input(1, kF32))}), DType::kBFloat16));
  const Plan plan = Compile(b, {half(Spec({5000})), Spec({5000})}, {half(Spec({5000}))});
  ASSERT_EQ(plan.phases[0].steps.size(), 1u);
  EXPECT_EQ(Chained(plan, plan.phases[0].steps),
            (std::vector<ChainFn>{ChainFn::kLoad, ChainFn::kMul, ChainFn::kExp, ChainFn::kRoundToBFloat16,
                                  ChainFn::kStoreBFloat16}));
  EXPECT_EQ(plan.chain_ops[0].source, ChainSource::kBFloat16);
}

TEST(PlanTest, BFloat16ThatIsAlsoStoredIsReadFirst) {
  const TensorSpec half = {DType::kBFloat16, Spec({5000}).layout};
  ExprBuilder b({5000});
  const int x = b.Input(0, DType::kBFloat16);
  b.Output(b.Apply(FN_EXP, {x}));
  b.Output(x);
  const Plan plan = Compile(b, {half}, {half, half});
  EXPECT_EQ(
      Chained(plan, plan.phases[0].steps),
      (std::vector<ChainFn>{ChainFn::kLoad, ChainFn::kStore, ChainFn::kSave, ChainFn::kExp, ChainFn::kRoundToBFloat16,
                            ChainFn::kStoreBFloat16, ChainFn::kLoad, ChainFn::kStoreBFloat16}));
}

TEST(PlanTest, ChainsPrefetchOperandsThatDoNotFitInTheCaches) {
  for (const int64_t size : {int64_t{5000}, int64_t{8} << 20}) {
    ExprBuilder b({size});
    b.Output(b.Apply(FN_EXP, {b.Mul(b.Input(0, kF32), b.Constant(kF32, 2))}));
    const Plan plan = Compile(b, {Spec({size})}, {Spec({size})});
    ASSERT_FALSE(plan.chain_ops.empty());
    EXPECT_EQ(plan.chain_ops[0].prefetch, size > 5000);
  }
}

TEST(PlanTest, FewSumsAndProductsAreNotChained) {
  ExprBuilder b({5000});
  b.Output(b.Mul(b.Sub(b.Input(0, kF32), b.Input(1, kF32)), b.Input(2, kF32)));
  const Plan plan = Compile(b, {Spec({5000}), Spec({5000}), Spec({5000})}, {Spec({5000})});
  EXPECT_EQ(Count(plan.phases[0].steps, Step::Kind::kCompute), 2);
  EXPECT_TRUE(plan.chain_ops.empty());
}

TEST(PlanTest, DenseOperandsAreReadAndWrittenInPlace) {
  ExprBuilder b({5000});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  const Plan plan = Compile(b, {Spec({5000}), Spec({5000})}, {Spec({5000})});
  ASSERT_EQ(plan.phases.size(), 1u);
  EXPECT_EQ(plan.phases[0].steps.size(), 1u);
  EXPECT_EQ(plan.register_bytes, 0);
}

TEST(PlanTest, SharedValuesAreComputedOnce) {
  ExprBuilder b({5000});
  const int rate = b.Apply(FN_SQRT, {b.Input(1, kF32)});
  b.Output(b.Mul(b.Input(0, kF32), rate));
  const Plan plan = Compile(b, {Spec({5000}), Spec({})}, {Spec({5000})});
  EXPECT_EQ(plan.shared_uniform.size(), 1u);
  EXPECT_EQ(plan.shared_tile.size(), 0u);
  EXPECT_EQ(plan.phases[0].steps.size(), 1u);
}

TEST(PlanTest, SoftmaxOfShortRowsComputesExpOnce) {
  const int reduce[] = {1};
  ExprBuilder b({500, 64}, reduce);
  const int x = b.Input(0, kF32);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Div(e, b.Sum(e)));
  const Plan plan = Compile(b, {Spec({500, 64})}, {Spec({500, 64})});
  ASSERT_EQ(plan.phases.size(), 3u);
  EXPECT_EQ(Count(plan.phases[0].steps, Step::Kind::kCompute), 0);
  EXPECT_EQ(Chained(plan, plan.phases[1].steps),
            (std::vector<ChainFn>{ChainFn::kLoad, ChainFn::kSub, ChainFn::kExp, ChainFn::kStore}));
  EXPECT_EQ(Count(plan.phases[2].steps, Step::Kind::kCompute), 1);  // div
}

TEST(PlanTest, CheapValuesOfLongReductionsAreComputedAgain) {
  const int reduce[] = {0};
  ExprBuilder b({1 << 20}, reduce);
  const int x = b.Input(0, kF32);
  const int centered = b.Sub(x, b.Sum(x));
  b.Output(b.Sum(b.Mul(centered, centered)));
  b.Output(b.Sum(b.Apply(FN_ABS, {b.Sub(centered, b.Sum(centered))})));
  const Plan plan = Compile(b, {Spec({1 << 20})}, {Spec({1}), Spec({1})});
  EXPECT_GT(plan.splits, 1);
  ASSERT_EQ(plan.phases.size(), 3u);
  EXPECT_EQ(Chained(plan, plan.phases[2].steps),
            (std::vector<ChainFn>{ChainFn::kLoad, ChainFn::kSub, ChainFn::kSub, ChainFn::kAbs, ChainFn::kStore}));
}

TEST(PlanTest, DeadValuesAreLeftOut) {
  ExprBuilder b({100});
  const int x = b.Input(0, kF32);
  b.Apply(FN_EXP, {x});
  b.Output(b.Apply(FN_NEG, {x}));
  EXPECT_EQ(Compile(b, {Spec({100})}, {Spec({100})}).phases[0].steps.size(), 1u);
}

}  // namespace
}  // namespace cotan::cpu::expr
