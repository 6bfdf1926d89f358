// SPDX-License-Identifier: Apache-2.0

#include "planning/op_work.h"

#include <initializer_list>

#include "base/layout.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Op;

Operand Of(const DimVector& sizes, DType dtype = DType::kFloat32) {
  Operand operand;
  operand.geometry.dtype = dtype;
  operand.geometry.layout = {sizes, ContiguousStrides(sizes)};
  return operand;
}

ScheduledStep Step(std::initializer_list<Operand> inputs, std::initializer_list<Operand> outputs) {
  return {.op = 0, .inputs = inputs, .outputs = outputs};
}

TEST(OpWorkTest, AViewHasNone) {
  Op view;
  view.mutable_view();
  const OpWork work = WorkOf(view, Step({Of({4})}, {Of({2, 2})}));
  EXPECT_EQ(work.bytes, 0);
  EXPECT_EQ(work.flops, 0);
}

TEST(OpWorkTest, AProductMultipliesAndAddsOncePerElementOfItsSum) {
  Op matmul;
  matmul.mutable_matmul();
  const OpWork work = WorkOf(matmul, Step({Of({7, 2, 3}), Of({7, 3, 5})}, {Of({7, 2, 5})}));
  EXPECT_EQ(work.flops, 2 * 7 * 2 * 3 * 5);
  EXPECT_EQ(work.bytes, 4 * 7 * (2 * 3 + 3 * 5 + 2 * 5));
}

TEST(OpWorkTest, TheThreeConvolutionsOfATrainingStepHaveTheSameOperations) {
  const Operand input = Of({8, 6, 16, 16}), weight = Of({10, 3, 3, 3}), output = Of({8, 10, 14, 14});
  Op forward, backward_input, backward_weight;
  forward.mutable_convolution()->set_groups(2);
  backward_input.mutable_convolution_backward_input();
  backward_weight.mutable_convolution_backward_weight();
  const int64_t flops = int64_t{2} * 8 * 10 * 14 * 14 * 3 * 3 * 3;
  EXPECT_EQ(WorkOf(forward, Step({input, weight}, {output})).flops, flops);
  EXPECT_EQ(WorkOf(backward_input, Step({output, weight}, {input})).flops, flops);
  EXPECT_EQ(WorkOf(backward_weight, Step({output, input}, {weight})).flops, flops);
}

TEST(OpWorkTest, BytesAreThoseOfTheDTypeAndExpandedDimensionsCountOnce) {
  Op sum;
  sum.mutable_expr();
  Operand expanded = Of({1, 3}, DType::kFloat64);
  expanded.geometry.layout = {{100, 3}, {0, 1}};
  const OpWork work = WorkOf(sum, Step({Of({100, 3}, DType::kBFloat16), expanded}, {Of({100, 3}, DType::kBool)}));
  EXPECT_EQ(work.bytes, 100 * 3 * 2 + 3 * 8 + 100 * 3);
  EXPECT_EQ(work.flops, 0);
}

}  // namespace
}  // namespace cotan
