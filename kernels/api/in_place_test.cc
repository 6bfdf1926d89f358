// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/in_place.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"

namespace cotan {
namespace {

using namespace serialization;  // NOLINT
using testing::ExprBuilder;

constexpr DType kF32 = DType::kFloat32;

TensorSpec Spec(DimVector sizes) {
  DimVector strides = ContiguousStrides(sizes);
  return {kF32, {std::move(sizes), std::move(strides)}};
}

bool Safe(const ExprBuilder& b, const std::vector<TensorSpec>& in, const std::vector<TensorSpec>& out, int input,
          int output) {
  const Op op = b.Build();
  return InPlaceSafe({op, in, out, {}}, input, output);
}

TEST(InPlaceTest, PointwiseIsSafeForTheSameLayoutOnly) {
  ExprBuilder b({2, 3});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  EXPECT_TRUE(Safe(b, {Spec({2, 3}), Spec({3})}, {Spec({2, 3})}, 0, 0));
  EXPECT_FALSE(Safe(b, {Spec({2, 3}), Spec({3})}, {Spec({2, 3})}, 1, 0));
  TensorSpec transposed = Spec({2, 3});
  transposed.layout.strides = {1, 2};
  EXPECT_FALSE(Safe(b, {Spec({2, 3}), Spec({3})}, {transposed}, 0, 0));
}

TEST(InPlaceTest, SoftmaxIsSafe) {
  const int reduce[] = {1};
  ExprBuilder b({2, 3}, reduce);
  const int x = b.Input(0, kF32);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Div(e, b.Sum(e)));
  EXPECT_TRUE(Safe(b, {Spec({2, 3})}, {Spec({2, 3})}, 0, 0));
}

TEST(InPlaceTest, AnInputThatALaterPhaseReadsIsNotSafe) {
  const int reduce[] = {1};
  ExprBuilder b({2, 3}, reduce);
  const int x = b.Input(0, kF32);
  b.Output(b.Mul(x, x));                // stored in the first visit
  b.Output(b.Sum(b.Sub(x, b.Max(x))));  // reads x again in the second
  EXPECT_FALSE(Safe(b, {Spec({2, 3})}, {Spec({2, 3}), Spec({2, 1})}, 0, 0));
}

TEST(InPlaceTest, ReducedValuesAreUpdatedInPlace) {
  const int reduce[] = {0};
  ExprBuilder b({5, 3}, reduce);
  const int mean = b.Mul(b.Sum(b.Input(0, kF32)), b.Constant(kF32, 0.2));
  b.Output(b.Add(b.Mul(b.Input(1, kF32), b.Constant(kF32, 0.9)), b.Mul(mean, b.Constant(kF32, 0.1))));
  EXPECT_TRUE(Safe(b, {Spec({5, 3}), Spec({1, 3})}, {Spec({1, 3})}, 1, 0));
}

TEST(InPlaceTest, AnInputThatAnotherOutputCopiesIsNotSafe) {
  ExprBuilder b({3});
  const int x = b.Input(0, kF32);
  b.Output(b.Mul(x, x));
  b.Output(x);
  EXPECT_FALSE(Safe(b, {Spec({3})}, {Spec({3}), Spec({3})}, 0, 0));
  EXPECT_TRUE(Safe(b, {Spec({3})}, {Spec({3}), Spec({3})}, 0, 1));
}

TEST(InPlaceTest, AnInputThatAnotherOutputStoresUnchangedIsNotSafe) {
  ExprBuilder b({3});
  const int x = b.Input(0, DType::kBool);
  b.Output(b.Apply(FN_LOGICAL_NOT, {x}));
  b.Output(b.Apply(FN_SIGN, {x}));  // the input itself
  TensorSpec spec = Spec({3});
  spec.dtype = DType::kBool;
  EXPECT_FALSE(Safe(b, {spec}, {spec, spec}, 0, 0));
  EXPECT_TRUE(Safe(b, {spec}, {spec, spec}, 0, 1));
}

TEST(InPlaceTest, OtherOps) {
  Op copy, scatter, matmul;
  copy.mutable_copy();
  scatter.mutable_scatter_add();
  matmul.mutable_matmul();
  const std::vector<TensorSpec> in = {Spec({3, 3}), Spec({3, 3}), Spec({3, 3})}, out = {Spec({3, 3})};
  EXPECT_TRUE(InPlaceSafe({copy, in, out, {}}, 0, 0));
  EXPECT_TRUE(InPlaceSafe({scatter, in, out, {}}, 2, 0));
  EXPECT_FALSE(InPlaceSafe({scatter, in, out, {}}, 0, 0));
  EXPECT_FALSE(InPlaceSafe({matmul, in, out, {}}, 0, 0));
  Op recurrent;
  recurrent.mutable_recurrent_backward()->set_cell(Recurrent::LSTM);
  const TensorSpec steps = Spec({5, 2, 3}), gates = Spec({5, 2, 12}), state = Spec({2, 3});
  const std::vector<TensorSpec> layer = {steps, steps, Spec({12, 3}), state, gates, steps, state, state};
  const std::vector<TensorSpec> gradients = {gates, state, state};
  EXPECT_TRUE(InPlaceSafe({recurrent, layer, gradients, {}}, 4, 0));
  EXPECT_FALSE(InPlaceSafe({recurrent, layer, gradients, {}}, 3, 1));
}

}  // namespace
}  // namespace cotan
