// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr_compile.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/layout.h"
#include "base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/op_request.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cuda {
namespace {

using ::cotan::testing::ExprBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TensorSpec Spec(DType dtype, const DimVector& sizes) {
  return {dtype, StridedLayout{.sizes = sizes, .strides = ContiguousStrides(sizes)}};
}

// Compiles and evaluates on the host. Returns the values of the only output.
template <typename T = float>
std::vector<T> Evaluate(const OpRequest& request, const std::vector<const void*>& inputs) {
  absl::StatusOr<DeviceExpr> expr = CompileExpr(request.For(nullptr));
  EXPECT_TRUE(expr.ok()) << expr.status();
  if (!expr.ok()) return {};
  std::vector<T> result(expr->num_elements);
  ExprPointers pointers = {};
  for (size_t i = 0; i < inputs.size(); ++i) pointers.inputs[i] = inputs[i];
  pointers.outputs[0] = result.data();
  for (int64_t i = 0; i < expr->num_elements; ++i) EvaluateExpr<int64_t>(*expr, pointers, i);
  return result;
}

TEST(CompileExpr, BroadcastsInputsToTheDomain) {
  ExprBuilder b({2, 3});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  const OpRequest request{
      .op = b.Build(), .inputs = {Spec(kF32, {2, 3}), Spec(kF32, {3})}, .outputs = {Spec(kF32, {2, 3})}};
  const float x[] = {1, 2, 3, 4, 5, 6}, row[] = {10, 20, 30};
  EXPECT_THAT(Evaluate(request, {x, row}), ElementsAre(11, 22, 33, 14, 25, 36));
}

TEST(CompileExpr, ReadsTransposedInputs) {
  ExprBuilder b({2, 3});
  b.Output(b.Apply(serialization::FN_NEG, {b.Input(0, kF32)}));
  const TensorSpec transposed{kF32, StridedLayout{.sizes = {2, 3}, .strides = {1, 2}}};
  const OpRequest request{.op = b.Build(), .inputs = {transposed}, .outputs = {Spec(kF32, {2, 3})}};
  const float x[] = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(Evaluate(request, {x}), ElementsAre(-1, -3, -5, -2, -4, -6));
}

TEST(CompileExpr, MergesDimensionsOfContiguousOperands) {
  ExprBuilder b({2, 1, 3, 4});
  b.Output(b.Mul(b.Input(0, kF32), b.Input(1, kF32)));
  const TensorSpec full = Spec(kF32, {2, 1, 3, 4});
  const OpRequest request{.op = b.Build(), .inputs = {full, Spec(kF32, {})}, .outputs = {full}};
  absl::StatusOr<DeviceExpr> expr = CompileExpr(request.For(nullptr));
  ASSERT_TRUE(expr.ok()) << expr.status();
  EXPECT_EQ(expr->rank, 1);
  EXPECT_EQ(expr->sizes[0], 24);
  EXPECT_EQ(expr->inputs[0].strides[0], 1);
  EXPECT_EQ(expr->inputs[1].strides[0], 0);
}

TEST(CompileExpr, SelectsByComparison) {
  ExprBuilder b({4});
  const int x = b.Input(0, kF32), zero = b.Constant(kF32, 0);
  const int positive = b.Apply(serialization::FN_GT, {x, zero});
  b.Output(b.Apply(serialization::FN_SELECT, {positive, b.Apply(serialization::FN_SQRT, {x}), zero}));
  const OpRequest request{.op = b.Build(), .inputs = {Spec(kF32, {4})}, .outputs = {Spec(kF32, {4})}};
  const float values[] = {-1, 4, 9, kNan};
  EXPECT_THAT(Evaluate(request, {values}), ElementsAre(0, 2, 3, 0));
}

TEST(CompileExpr, StoresBool) {
  ExprBuilder b({3});
  b.Output(b.Cast(b.Input(0, kF32), DType::kBool));
  const OpRequest request{.op = b.Build(), .inputs = {Spec(kF32, {3})}, .outputs = {Spec(DType::kBool, {3})}};
  const float values[] = {0, 0.25f, kNan};
  EXPECT_THAT(Evaluate<uint8_t>(request, {values}), ElementsAre(0, 1, 1));
}

// Applies a function of two operands to two vectors.
std::vector<float> Apply(serialization::ScalarFn fn, const std::vector<float>& x, const std::vector<float>& y) {
  ExprBuilder b({static_cast<int64_t>(x.size())});
  b.Output(b.Apply(fn, {b.Input(0, kF32), b.Input(1, kF32)}));
  const TensorSpec spec = Spec(kF32, {static_cast<int64_t>(x.size())});
  return Evaluate(OpRequest{.op = b.Build(), .inputs = {spec, spec}, .outputs = {spec}}, {x.data(), y.data()});
}

TEST(CompileExpr, MaximumKeepsNanAndFmaxDropsIt) {
  for (float value : Apply(serialization::FN_MAXIMUM, {kNan, 1}, {2, kNan})) EXPECT_TRUE(std::isnan(value));
  EXPECT_THAT(Apply(serialization::FN_FMAX, {kNan, 1}, {2, kNan}), ElementsAre(2, 1));
}

TEST(CompileExpr, FloorDivisionAndRemainderFollowTheDivisorsSign) {
  const std::vector<float> x = {7, -7, 7, -7}, y = {2, 2, -2, -2};
  EXPECT_THAT(Apply(serialization::FN_FLOOR_DIV, x, y), ElementsAre(3, -4, -4, 3));
  EXPECT_THAT(Apply(serialization::FN_REMAINDER, x, y), ElementsAre(1, 1, -1, -1));
}

TEST(CompileExpr, IotaCountsAlongItsDimension) {
  ExprBuilder b({2, 3});
  b.Output(b.Iota(kF32, 1));
  const OpRequest request{.op = b.Build(), .inputs = {}, .outputs = {Spec(kF32, {2, 3})}};
  EXPECT_THAT(Evaluate(request, {}), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(CompileExpr, RandomNumbersAreThePhiloxStreamOfTheElement) {
  ExprBuilder b({2, 3});
  b.Output(b.Random(0, "5"));
  const OpRequest request{.op = b.Build(), .inputs = {Spec(DType::kInt64, {2})}, .outputs = {Spec(kF32, {2, 3})}};
  const int64_t state[] = {1234, 100};
  const std::vector<float> drawn = Evaluate(request, {state});
  ASSERT_EQ(drawn.size(), 6u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(drawn[i], UniformFloat(Philox(1234, 105 + i / 4).lane[i % 4]));
}

TEST(CompileExpr, SizesAreTakenFromTheSymbols) {
  ExprBuilder b({2});
  b.Output(b.Div(b.Input(0, kF32), b.Size(kF32, "(s0 * 2)")));
  const OpRequest request{.op = b.Build(), .inputs = {Spec(kF32, {2})}, .outputs = {Spec(kF32, {2})}, .symbols = {4}};
  const float values[] = {8, 16};
  EXPECT_THAT(Evaluate(request, {values}), ElementsAre(1, 2));
}

// The error of compiling an expression that the GPU cannot evaluate yet.
std::string Refusal(const OpRequest& request) {
  const absl::Status status = CompileExpr(request.For(nullptr)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  return std::string(status.message());
}

TEST(CompileExpr, RejectsReductions) {
  ExprBuilder b({2, 3}, {1});
  b.Output(b.Sum(b.Input(0, kF32)));
  EXPECT_THAT(Refusal({.op = b.Build(), .inputs = {Spec(kF32, {2, 3})}, .outputs = {Spec(kF32, {2, 1})}}),
              HasSubstr("no reductions"));
}

TEST(CompileExpr, RejectsOtherDTypesByName) {
  ExprBuilder b({2});
  b.Output(b.Input(0, DType::kFloat64));
  const TensorSpec spec = Spec(DType::kFloat64, {2});
  EXPECT_THAT(Refusal({.op = b.Build(), .inputs = {spec}, .outputs = {spec}}), HasSubstr("no f64"));
}

TEST(CompileExpr, RejectsFunctionsItLacks) {
  ExprBuilder b({2});
  b.Output(b.Apply(serialization::FN_DIGAMMA, {b.Input(0, kF32)}));
  EXPECT_THAT(Refusal({.op = b.Build(), .inputs = {Spec(kF32, {2})}, .outputs = {Spec(kF32, {2})}}),
              HasSubstr("no digamma"));
}

TEST(CompileExpr, RejectsMoreInstructionsThanItHolds) {
  ExprBuilder b({2});
  int x = b.Input(0, kF32);
  for (int i = 0; i < kMaxExprInstructions; ++i) x = b.Apply(serialization::FN_NEG, {x});
  b.Output(x);
  EXPECT_THAT(Refusal({.op = b.Build(), .inputs = {Spec(kF32, {2})}, .outputs = {Spec(kF32, {2})}}),
              HasSubstr("fuse less"));
}

}  // namespace
}  // namespace cotan::cuda
