// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/expr.h"

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::reference {
namespace {

using namespace serialization;  // NOLINT
using cotan::testing::ExprBuilder;
using cotan::testing::HostTensor;
using cotan::testing::RunOp;

constexpr DType kF32 = DType::kFloat32;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ReferenceExprTest, AddsWithBroadcast) {
  ExprBuilder b({2, 3});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  HostTensor x(kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor y(kF32, {3}, {10, 20, 30});
  HostTensor out(kF32, {2, 3});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&x, &y}, {&out}).ok());
  EXPECT_EQ(out.Values(), (std::vector<double>{11, 22, 33, 14, 25, 36}));
}

TEST(ReferenceExprTest, SoftmaxOfEachColumn) {
  ExprBuilder b({2, 2}, {0});
  const int x = b.Input(0, kF32);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Div(e, b.Sum(e)));
  HostTensor in(kF32, {2, 2}, {0, 1, std::log(3.0), 1});
  HostTensor out(kF32, {2, 2});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&out}).ok());
  const std::vector<double> values = out.Values();
  EXPECT_NEAR(values[0], 0.25, 1e-6);
  EXPECT_NEAR(values[2], 0.75, 1e-6);
  EXPECT_EQ(values[1], 0.5);
}

TEST(ReferenceExprTest, ReductionsOfNothingAreNeutral) {
  ExprBuilder b({0, 2}, {0});
  const int x = b.Input(0, kF32);
  for (const ScalarFn fn : {FN_REDUCE_SUM, FN_REDUCE_PROD, FN_REDUCE_MAX, FN_REDUCE_MIN}) b.Output(b.Apply(fn, {x}));
  HostTensor in(kF32, {0, 2});
  HostTensor sum(kF32, {1, 2}), prod(kF32, {1, 2}), max(kF32, {1, 2}), min(kF32, {1, 2});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&sum, &prod, &max, &min}).ok());
  EXPECT_EQ(sum.Values(), (std::vector<double>{0, 0}));
  EXPECT_EQ(prod.Values(), (std::vector<double>{1, 1}));
  EXPECT_EQ(max.Values(), (std::vector<double>{-kInfinity, -kInfinity}));
  EXPECT_EQ(min.Values(), (std::vector<double>{kInfinity, kInfinity}));
}

TEST(ReferenceExprTest, ReductionOfAReducedValueCountsItOncePerElement) {
  ExprBuilder b({2, 3}, {1});
  b.Output(b.Sum(b.Input(0, kF32)));
  HostTensor in(kF32, {2, 1}, {1, 5});
  HostTensor out(kF32, {2, 1});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&out}).ok());
  EXPECT_EQ(out.Values(), (std::vector<double>{3, 15}));
}

TEST(ReferenceExprTest, DrawsArePhiloxOfTheRowMajorIndex) {
  ExprBuilder b({2, 3});
  b.Output(b.Random(0, "(s0 * 2)"));
  HostTensor state(DType::kInt64, {2}, {7, 100});
  HostTensor out(kF32, StridedLayout{{2, 3}, {1, 2}});
  const int64_t symbols[] = {5};
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&state}, {&out}, 1, symbols).ok());
  const std::vector<double> values = out.Values();
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(values[i], UniformFloat(Philox(7, 100 + 10 + i / 4).lane[i % 4]));
}

TEST(ReferenceExprTest, IntegerDivisionsAndRemaindersFollowPython) {
  ExprBuilder b({6});
  const int x = b.Input(0, DType::kInt32);
  const int y = b.Input(1, DType::kInt32);
  for (const ScalarFn fn : {FN_FLOOR_DIV, FN_TRUNC_DIV, FN_REMAINDER, FN_FMOD}) b.Output(b.Apply(fn, {x, y}));
  HostTensor a(DType::kInt32, {6}, {7, -7, 7, -7, 5, -2147483648.0});
  HostTensor d(DType::kInt32, {6}, {2, 2, -2, -2, 0, -1});
  HostTensor floor(DType::kInt32, {6}), trunc(DType::kInt32, {6}), rem(DType::kInt32, {6}), mod(DType::kInt32, {6});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&a, &d}, {&floor, &trunc, &rem, &mod}).ok());
  EXPECT_EQ(floor.Values(), (std::vector<double>{3, -4, -4, 3, 0, -2147483648.0}));
  EXPECT_EQ(trunc.Values(), (std::vector<double>{3, -3, -3, 3, 0, -2147483648.0}));
  EXPECT_EQ(rem.Values(), (std::vector<double>{1, 1, -1, -1, 0, 0}));
  EXPECT_EQ(mod.Values(), (std::vector<double>{1, -1, 1, -1, 0, 0}));
}

TEST(ReferenceExprTest, NanPassesThroughMaximumButNotFmax) {
  ExprBuilder b({2});
  const int x = b.Input(0, kF32);
  const int y = b.Input(1, kF32);
  b.Output(b.Apply(FN_MAXIMUM, {x, y}));
  b.Output(b.Apply(FN_FMAX, {x, y}));
  b.Output(b.Apply(FN_RELU, {x}));
  HostTensor a(kF32, {2}, {kNan, 1}), c(kF32, {2}, {1, kNan});
  HostTensor maximum(kF32, {2}), fmax(kF32, {2}), relu(kF32, {2});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&a, &c}, {&maximum, &fmax, &relu}).ok());
  EXPECT_TRUE(std::isnan(maximum.Values()[0]) && std::isnan(maximum.Values()[1]));
  EXPECT_EQ(fmax.Values(), (std::vector<double>{1, 1}));
  EXPECT_TRUE(std::isnan(relu.Values()[0]));
}

TEST(ReferenceExprTest, InverseErrorFunctionAndDigammaKnownValues) {
  ExprBuilder b({4});
  const int x = b.Input(0, DType::kFloat64);
  b.Output(b.Apply(FN_ERFINV, {x}));
  b.Output(b.Apply(FN_DIGAMMA, {x}));
  HostTensor in(DType::kFloat64, {4}, {0.5, -0.5, 1.0, 0.999});
  HostTensor erfinv(DType::kFloat64, {4}), digamma(DType::kFloat64, {4});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&erfinv, &digamma}).ok());
  EXPECT_NEAR(erfinv.Values()[0], 0.47693627620446987, 1e-15);
  EXPECT_NEAR(erfinv.Values()[1], -0.47693627620446987, 1e-15);
  EXPECT_EQ(erfinv.Values()[2], kInfinity);
  EXPECT_NEAR(erfinv.Values()[3], 2.326753765513525, 1e-14);
  EXPECT_NEAR(digamma.Values()[0], -1.9635100260214235, 1e-14);
  EXPECT_NEAR(digamma.Values()[1], 0.03648997397857652, 1e-14);
  EXPECT_NEAR(digamma.Values()[2], -0.5772156649015329, 1e-14);
}

TEST(ReferenceExprTest, RejectsAnInputThatDoesNotBroadcast) {
  ExprBuilder b({2, 3});
  b.Output(b.Input(0, kF32));
  HostTensor x(kF32, {2}, {1, 2});
  HostTensor out(kF32, {2, 3});
  const absl::Status status = RunOp(MakeExpr, b.Build(), {&x}, {&out});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("input 0 has sizes [2]"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace cotan::reference
