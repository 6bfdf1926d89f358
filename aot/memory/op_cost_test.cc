// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/op_cost.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

Operand Of(const DimVector& sizes) {
  Operand operand;
  operand.geometry.dtype = DType::kFloat32;
  operand.geometry.layout = {sizes, ContiguousStrides(sizes)};
  return operand;
}

TEST(OpCostTest, AViewCostsNothing) {
  serialization::Op view;
  view.mutable_view();
  EXPECT_EQ(OpCost(view, {}), 0);
}

TEST(OpCostTest, AProductCostsMoreThanASumOfTheSameSize) {
  serialization::Op matmul;
  matmul.mutable_matmul();
  serialization::Op sum;
  sum.mutable_expr()->add_instructions();
  const ScheduledStep step{.op = 0, .inputs = {Of({256, 256}), Of({256, 256})}, .outputs = {Of({256, 256})}};
  EXPECT_GT(OpCost(matmul, step), 2 * OpCost(sum, step));
}

TEST(OpCostTest, LargerConvolutionsCostMore) {
  serialization::Op convolution;
  convolution.mutable_convolution();
  const auto cost = [&](int64_t channels) {
    return OpCost(
        convolution,
        {.op = 0, .inputs = {Of({8, channels, 32, 32}), Of({16, channels, 3, 3})}, .outputs = {Of({8, 16, 32, 32})}});
  };
  EXPECT_GT(cost(64), 3 * cost(16));
}

TEST(OpCostTest, AnEigendecompositionCostsMoreThanASolve) {
  serialization::Op eigh, solve;
  eigh.mutable_linear_algebra()->set_function(serialization::LinearAlgebra::EIGH);
  solve.mutable_linear_algebra()->set_function(serialization::LinearAlgebra::TRIANGULAR_SOLVE);
  const Operand matrix = Of({64, 64}), column = Of({64, 1});
  EXPECT_GT(OpCost(eigh, {.op = 0, .inputs = {matrix}, .outputs = {Of({64}), matrix}}),
            5 * OpCost(solve, {.op = 0, .inputs = {matrix, column}, .outputs = {column}}));
}

TEST(OpCostTest, LargerWindowsOfAPoolCostMore) {
  const auto cost = [](int64_t side) {
    serialization::Op pool;
    for (int d = 0; d < 2; ++d) pool.mutable_max_pool()->add_kernel(side);
    return OpCost(pool, {.op = 0, .inputs = {Of({8, 16, 32, 32})}, .outputs = {Of({8, 16, 32, 32})}});
  };
  EXPECT_GT(cost(5), 3 * cost(2));
}

}  // namespace
}  // namespace cotan::aot
