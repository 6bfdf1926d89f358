// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/matmul_epilogue.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "kernels/testing/expr_builder.h"

namespace cotan {
namespace {

using serialization::Op;
using ::testing::ElementsAre;
using testing::ExprBuilder;
using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32;

TensorSpec Spec(DimVector sizes) {
  DimVector strides = ContiguousStrides(sizes);
  return {kF32, {std::move(sizes), std::move(strides)}};
}

// product + input 2.
Op AddOp(absl::Span<const int64_t> sizes) {
  ExprBuilder b(sizes);
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  Op op;
  *op.mutable_matmul()->mutable_epilogue() = b.expr();
  return op;
}

TEST(MatmulEpilogueTest, IsAProductAndAnExpressionThatReadsIt) {
  const Op op = AddOp({4, 3});
  const std::vector<TensorSpec> inputs = {Spec({4, 2}), Spec({2, 3}), Spec({3})};
  const std::vector<TensorSpec> outputs = {Spec({4, 3})};
  const std::vector<int64_t> symbols = {7};
  const KernelRequest request = {.op = op,
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .symbols = symbols,
                                 .threads = 2,
                                 .guarded_outputs = true,
                                 .name = "op 3"};
  const absl::StatusOr<MatmulParts> parts = TakeApartMatmul(request);
  ASSERT_TRUE(parts.ok()) << parts.status();

  const KernelRequest product = parts->Product(request);
  EXPECT_TRUE(CheckOp(product).ok()) << CheckOp(product);
  EXPECT_FALSE(product.op.matmul().has_epilogue());
  EXPECT_EQ(product.inputs.size(), 2u);
  EXPECT_THAT(product.outputs[0].layout.sizes, ElementsAre(4, 3));
  EXPECT_EQ(product.threads, 2);
  EXPECT_FALSE(product.guarded_outputs);

  const KernelRequest epilogue = parts->Epilogue(request);
  EXPECT_TRUE(CheckOp(epilogue).ok()) << CheckOp(epilogue);
  ASSERT_EQ(epilogue.inputs.size(), 2u);
  EXPECT_EQ(epilogue.inputs[0].layout, product.outputs[0].layout);
  EXPECT_THAT(epilogue.inputs[1].layout.sizes, ElementsAre(3));
  EXPECT_EQ(epilogue.outputs.data(), outputs.data());
  EXPECT_EQ(epilogue.symbols, absl::MakeConstSpan(symbols));
  EXPECT_EQ(epilogue.threads, 2);
  EXPECT_TRUE(epilogue.guarded_outputs);
  EXPECT_EQ(epilogue.name, "op 3");
}

TEST(MatmulEpilogueTest, TheProductIsRowMajorWhateverTheOperandsAre) {
  TensorSpec transposed = Spec({4, 2});
  transposed.layout.strides = {1, 4};
  const Op op = AddOp({4, 3});
  const std::vector<TensorSpec> inputs = {transposed, Spec({2, 3}), Spec({3})};
  const std::vector<TensorSpec> outputs = {Spec({4, 3})};
  const absl::StatusOr<MatmulParts> parts = TakeApartMatmul({op, inputs, outputs, {}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_TRUE(IsContiguous(parts->expr_inputs[0].layout));
}

TEST(MatmulEpilogueTest, BatchesStretch) {
  const Op op = AddOp({5, 6, 4, 3});
  const std::vector<TensorSpec> inputs = {Spec({5, 1, 4, 2}), Spec({6, 2, 3}), Spec({3})};
  const std::vector<TensorSpec> outputs = {Spec({5, 6, 4, 3})};
  const KernelRequest request = {op, inputs, outputs, {}};
  const absl::StatusOr<MatmulParts> parts = TakeApartMatmul(request);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT(parts->expr_inputs[0].layout.sizes, ElementsAre(5, 6, 4, 3));
  EXPECT_TRUE(CheckOp(parts->Product(request)).ok());
}

TEST(MatmulEpilogueTest, WhatIsNoProductIsRejected) {
  const Op op = AddOp({4, 3});
  const std::vector<TensorSpec> outputs = {Spec({4, 3})};
  const std::vector<TensorSpec> one = {Spec({4, 2})};
  EXPECT_THAT(std::string(TakeApartMatmul({op, one, outputs, {}}).status().message()), HasSubstr("has 1 inputs"));
  const std::vector<TensorSpec> vector = {Spec({4, 2}), Spec({2})};
  EXPECT_THAT(std::string(TakeApartMatmul({op, vector, outputs, {}}).status().message()), HasSubstr("not a matrix"));
}

TEST(MatmulEpilogueTest, SmallProductsAreThoseThatCostLessThanTheSparedLaunches) {
  const auto is_small = [](DType dtype, int64_t m, int64_t k, int64_t n, double spared) {
    TensorSpec a = Spec({m, k});
    TensorSpec product = Spec({m, n});
    a.dtype = product.dtype = dtype;
    return IsSmallProduct(a, product, spared);
  };
  EXPECT_TRUE(is_small(kF32, 700, 100, 1000, 0));
  EXPECT_FALSE(is_small(kF32, 700, 100, 1001, 0));
  EXPECT_TRUE(is_small(kF32, 860, 100, 1000, 1));
  EXPECT_FALSE(is_small(kF32, 860, 100, 1001, 1));
  EXPECT_TRUE(is_small(DType::kBFloat16, 230, 100, 1000, 1));
  EXPECT_FALSE(is_small(DType::kBFloat16, 230, 100, 1001, 1));
  EXPECT_TRUE(is_small(kF32, 1, 2560, 1, 1));
  EXPECT_FALSE(is_small(kF32, 1, 2561, 1, 1));
  EXPECT_TRUE(is_small(DType::kInt64, 5000, 5000, 5000, 1));
}

}  // namespace
}  // namespace cotan
