// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/op_check.h"

#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Op;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kI64 = DType::kInt64;

TensorSpec Spec(DType dtype, DimVector sizes) {
  DimVector strides = ContiguousStrides(sizes);
  return {dtype, {std::move(sizes), std::move(strides)}};
}

absl::Status Check(const Op& op, const std::vector<TensorSpec>& inputs, const std::vector<TensorSpec>& outputs) {
  return CheckOp({op, inputs, outputs, {}});
}

void ExpectRejected(const absl::Status& status, absl::string_view words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find(words), absl::string_view::npos) << status;
}

Op Conv2d(int64_t stride, int64_t padding, int64_t groups) {
  Op op;
  for (int d = 0; d < 2; ++d) {
    op.mutable_convolution()->add_stride(stride);
    op.mutable_convolution()->add_padding(padding);
    op.mutable_convolution()->add_dilation(1);
  }
  op.mutable_convolution()->set_groups(groups);
  return op;
}

TEST(OpCheckTest, AnOpWithoutKindIsRejected) { ExpectRejected(Check(Op(), {}, {}), "no kind"); }

TEST(OpCheckTest, MatmulChecksTheInnerAndTheBatchDimensions) {
  Op op;
  op.mutable_matmul();
  EXPECT_TRUE(Check(op, {Spec(kF32, {5, 1, 2, 3}), Spec(kF32, {4, 3, 6})}, {Spec(kF32, {5, 4, 2, 6})}).ok());
  ExpectRejected(Check(op, {Spec(kF32, {2, 3}), Spec(kF32, {4, 6})}, {Spec(kF32, {2, 6})}),
                 "input 1 is f32[4,6], expected f32[3,6]");
  ExpectRejected(Check(op, {Spec(kF32, {2, 2, 3}), Spec(kF32, {3, 3, 6})}, {Spec(kF32, {2, 2, 6})}), "batch");
  ExpectRejected(Check(op, {Spec(kF32, {2, 3}), Spec(kF32, {3, 6})}, {Spec(kF32, {2, 5})}), "the output");
  ExpectRejected(Check(op, {Spec(kF32, {2, 3}), Spec(kF32, {3, 6}), Spec(kF32, {5})}, {Spec(kF32, {2, 6})}), "input 2");
  ExpectRejected(Check(op, {Spec(kF32, {3}), Spec(kF32, {3, 6})}, {Spec(kF32, {6})}), "dimensions");
}

TEST(OpCheckTest, ConvolutionChecksSizesGroupsAndAttributes) {
  const std::vector<TensorSpec> in = {Spec(kF32, {2, 4, 8, 8}), Spec(kF32, {6, 2, 3, 3}), Spec(kF32, {6})};
  EXPECT_TRUE(Check(Conv2d(2, 1, 2), in, {Spec(kF32, {2, 6, 4, 4})}).ok());
  ExpectRejected(Check(Conv2d(2, 1, 2), in, {Spec(kF32, {2, 6, 5, 4})}), "the convolution's output");
  ExpectRejected(Check(Conv2d(2, 1, 3), in, {Spec(kF32, {2, 6, 4, 4})}), "groups 3 does not divide 4");
  ExpectRejected(Check(Conv2d(0, 1, 2), in, {Spec(kF32, {2, 6, 4, 4})}), "stride is 0");
  ExpectRejected(Check(Conv2d(2, -1, 2), in, {Spec(kF32, {2, 6, 4, 4})}), "padding is -1");
  ExpectRejected(Check(Conv2d(2, int64_t{1} << 62, 2), in, {Spec(kF32, {2, 6, 4, 4})}), "padding");
  ExpectRejected(Check(Conv2d(2, 1, 0), in, {Spec(kF32, {2, 6, 4, 4})}), "groups is 0");
  Op missing = Conv2d(2, 1, 2);
  missing.mutable_convolution()->clear_dilation();
  ExpectRejected(Check(missing, in, {Spec(kF32, {2, 6, 4, 4})}), "dilation has 0 entries");
}

TEST(OpCheckTest, PoolsCheckPaddingAndIndices) {
  Op op;
  op.mutable_max_pool()->add_kernel(3);
  op.mutable_max_pool()->add_stride(2);
  op.mutable_max_pool()->add_padding(1);
  op.mutable_max_pool()->add_dilation(1);
  EXPECT_TRUE(Check(op, {Spec(kF32, {4, 9})}, {Spec(kF32, {4, 5}), Spec(kI64, {4, 5})}).ok());
  ExpectRejected(Check(op, {Spec(kF32, {4, 9})}, {Spec(kF32, {4, 5}), Spec(kF32, {4, 5})}), "the indices");
  op.mutable_max_pool()->set_padding(0, 2);
  ExpectRejected(Check(op, {Spec(kF32, {4, 9})}, {Spec(kF32, {4, 6})}), "exceeds half of the kernel");
}

TEST(OpCheckTest, GatherScatterAndConcatCheckSizes) {
  Op gather;
  gather.mutable_gather()->set_dim(1);
  EXPECT_TRUE(Check(gather, {Spec(kF32, {2, 5, 3}), Spec(kI64, {4, 6})}, {Spec(kF32, {2, 4, 6, 3})}).ok());
  ExpectRejected(Check(gather, {Spec(kF32, {2, 5, 3}), Spec(kF32, {4})}, {Spec(kF32, {2, 4, 3})}), "i32 or i64");
  gather.mutable_gather()->set_dim(3);
  ExpectRejected(Check(gather, {Spec(kF32, {2, 5, 3}), Spec(kI64, {4})}, {Spec(kF32, {2, 5, 4})}), "dim is 3");
  Op checked;
  checked.mutable_checked_index()->set_size("7");
  EXPECT_TRUE(Check(checked, {Spec(kI64, {2, 5})}, {Spec(kI64, {2, 5})}).ok());
  ExpectRejected(Check(checked, {Spec(kF32, {2})}, {Spec(kF32, {2})}), "i32 or i64");
  ExpectRejected(Check(checked, {Spec(kI64, {2})}, {Spec(kI64, {3})}), "the output is i64[3], expected i64[2]");
  checked.mutable_checked_index()->set_size("-7");
  ExpectRejected(Check(checked, {Spec(kI64, {2})}, {Spec(kI64, {2})}), "size is -7, expected at least 0");
  Op scatter;
  scatter.mutable_scatter_add()->set_dim(0);
  EXPECT_TRUE(Check(scatter, {Spec(kF32, {4, 3}), Spec(kI64, {4})}, {Spec(kF32, {9, 3})}).ok());
  ExpectRejected(Check(scatter, {Spec(kF32, {4, 2}), Spec(kI64, {4})}, {Spec(kF32, {9, 3})}), "input 0");
  Op concat;
  concat.mutable_concat()->set_dim(0);
  EXPECT_TRUE(Check(concat, {Spec(kF32, {4, 3}), Spec(kF32, {0, 3})}, {Spec(kF32, {4, 3})}).ok());
  ExpectRejected(Check(concat, {Spec(kF32, {4, 3})}, {Spec(kF32, {5, 3})}), "have 4 elements");
}

TEST(OpCheckTest, AttentionChecksAllOperands) {
  Op op;
  op.mutable_attention();
  const TensorSpec q = Spec(kF32, {2, 3, 4, 8}), k = Spec(kF32, {2, 3, 5, 8}), v = Spec(kF32, {2, 3, 5, 6});
  const TensorSpec out = Spec(kF32, {2, 3, 4, 6});
  EXPECT_TRUE(Check(op, {q, k, v, Spec(kF32, {4, 5})}, {out, Spec(kF32, {2, 3, 4})}).ok());
  ExpectRejected(Check(op, {q, v, k}, {out}), "k is");
  ExpectRejected(Check(op, {q, k, v, Spec(kF32, {5, 4})}, {out}), "the bias");
}

TEST(OpCheckTest, RecurrentChecksTheOperandsOfItsCell) {
  using serialization::Recurrent;
  Op op;
  op.mutable_recurrent()->set_cell(Recurrent::LSTM);
  const TensorSpec x = Spec(kF32, {5, 2, 12}), weight = Spec(kF32, {12, 3}), state = Spec(kF32, {2, 3});
  const TensorSpec steps = Spec(kF32, {5, 2, 3}), bias = Spec(kF32, {9}), gru_x = Spec(kF32, {5, 2, 9});
  const TensorSpec gru_weight = Spec(kF32, {9, 3});
  EXPECT_TRUE(Check(op, {x, weight, state, state}, {steps, steps}).ok());
  EXPECT_TRUE(Check(op, {x, weight, state, state}, {steps, steps, x}).ok());
  ExpectRejected(Check(op, {x, weight, state}, {steps, steps}), "has 3 inputs");
  ExpectRejected(Check(op, {x, weight, state, state}, {steps}), "1 outputs");
  ExpectRejected(Check(op, {gru_x, weight, state, state}, {steps, steps}), "projected is f32[5,2,9]");
  ExpectRejected(Check(op, {x, gru_weight, state, state}, {steps, steps}), "the weight is f32[9,3]");
  ExpectRejected(Check(op, {x, weight, state, bias}, {steps, steps}), "c0 is");
  ExpectRejected(Check(op, {x, weight, state, state}, {steps, steps, gru_x}), "gates is");
  op.mutable_recurrent()->set_cell(Recurrent::GRU);
  EXPECT_TRUE(Check(op, {gru_x, gru_weight, state, bias}, {steps, x}).ok());
  EXPECT_TRUE(Check(op, {gru_x, gru_weight, state}, {steps}).ok());
  ExpectRejected(Check(op, {gru_x, gru_weight, state, state}, {steps}), "the bias is");
  op.mutable_recurrent()->set_cell(Recurrent::RNN_RELU);
  EXPECT_TRUE(Check(op, {steps, Spec(kF32, {3, 3}), state}, {steps}).ok());
  op.mutable_recurrent()->set_cell(Recurrent::CELL_UNSPECIFIED);
  ExpectRejected(Check(op, {steps, Spec(kF32, {3, 3}), state}, {steps}), "cell 0 is unknown");
}

TEST(OpCheckTest, RecurrentBackwardChecksTheOperandsOfItsCell) {
  using serialization::Recurrent;
  Op op;
  op.mutable_recurrent_backward()->set_cell(Recurrent::LSTM);
  const TensorSpec x = Spec(kF32, {5, 2, 12}), weight = Spec(kF32, {12, 3}), state = Spec(kF32, {2, 3});
  const TensorSpec steps = Spec(kF32, {5, 2, 3}), gru_x = Spec(kF32, {5, 2, 9}), gru_weight = Spec(kF32, {9, 3});
  EXPECT_TRUE(Check(op, {steps, steps, weight, state, x, steps, state, state}, {x, state, state}).ok());
  ExpectRejected(Check(op, {steps, steps, weight, state, x, steps, state}, {x, state, state}), "has 7 inputs");
  ExpectRejected(Check(op, {steps, steps, weight, state, x, steps, state, steps}, {x, state, state}),
                 "the gradient of the last cell");
  ExpectRejected(Check(op, {x, steps, weight, state, x, steps, state, state}, {x, state, state}), "grad_hidden is");
  op.mutable_recurrent_backward()->set_cell(Recurrent::GRU);
  EXPECT_TRUE(Check(op, {steps, steps, gru_weight, state, x}, {x, state}).ok());
  ExpectRejected(Check(op, {steps, steps, gru_weight, state, x}, {gru_x, state}), "gradient of gates");
  op.mutable_recurrent_backward()->set_cell(Recurrent::RNN_TANH);
  EXPECT_TRUE(Check(op, {steps, steps, Spec(kF32, {3, 3}), state}, {steps, state}).ok());
  ExpectRejected(Check(op, {steps, steps, Spec(kF32, {3, 3}), state}, {steps, steps}), "the gradient of h0");
}

Op LinearAlgebraOp(serialization::LinearAlgebra::Function function, bool full_matrices = false) {
  Op op;
  op.mutable_linear_algebra()->set_function(function);
  op.mutable_linear_algebra()->set_full_matrices(full_matrices);
  return op;
}

TEST(OpCheckTest, DecompositionsCheckEveryResult) {
  using serialization::LinearAlgebra;
  const TensorSpec square = Spec(kF32, {2, 5, 5}), tall = Spec(kF32, {2, 5, 3}), values = Spec(kF32, {2, 5});
  const TensorSpec pivots = Spec(DType::kInt32, {2, 3}), info = Spec(DType::kInt32, {2});
  const Op eigh = LinearAlgebraOp(LinearAlgebra::EIGH);
  EXPECT_TRUE(Check(eigh, {square}, {values}).ok());
  EXPECT_TRUE(Check(eigh, {square}, {values, square}).ok());
  ExpectRejected(Check(eigh, {tall}, {values}), "as many rows as columns");
  ExpectRejected(Check(eigh, {square}, {values, tall}), "the eigenvectors is f32[2,5,3], expected f32[2,5,5]");
  ExpectRejected(Check(eigh, {square}, {Spec(kF32, {5})}), "the eigenvalues");
  ExpectRejected(Check(eigh, {square}, {Spec(DType::kFloat64, {2, 5})}), "the eigenvalues");
  ExpectRejected(Check(eigh, {square}, {}), "outputs");
  ExpectRejected(Check(eigh, {}, {values}), "inputs");
  ExpectRejected(Check(eigh, {square, square}, {values}), "inputs");
  ExpectRejected(Check(eigh, {Spec(kF32, {5})}, {values}), "dimensions");
  ExpectRejected(Check(eigh, {Spec(DType::kBFloat16, {5, 5})}, {Spec(DType::kBFloat16, {5})}), "expected f32 or f64");
  const Op svd = LinearAlgebraOp(LinearAlgebra::SVD), full = LinearAlgebraOp(LinearAlgebra::SVD, true);
  const TensorSpec three = Spec(kF32, {2, 3}), vh = Spec(kF32, {2, 3, 3});
  EXPECT_TRUE(Check(svd, {tall}, {three, tall, vh}).ok());
  EXPECT_TRUE(Check(full, {tall}, {three, square, vh}).ok());
  ExpectRejected(Check(svd, {tall}, {three, tall}), "expected 1 or 3");
  ExpectRejected(Check(full, {tall}, {three, tall, vh}), "U is");
  ExpectRejected(Check(LinearAlgebraOp(LinearAlgebra::QR), {tall}, {tall, tall}), "R is");
  const Op lu = LinearAlgebraOp(LinearAlgebra::LU);
  EXPECT_TRUE(Check(lu, {tall}, {tall, pivots, info}).ok());
  ExpectRejected(Check(lu, {tall}, {tall, Spec(kI64, {2, 3}), info}), "the pivots");
  ExpectRejected(Check(lu, {tall}, {tall, pivots, pivots}), "info");
  ExpectRejected(Check(LinearAlgebraOp(LinearAlgebra::CHOLESKY), {square}, {square}), "outputs");
  ExpectRejected(Check(LinearAlgebraOp(LinearAlgebra::FUNCTION_UNSPECIFIED), {square}, {square}), "unknown");
  ExpectRejected(Check(LinearAlgebraOp(static_cast<LinearAlgebra::Function>(99)), {square}, {square}), "unknown");
  // Sizes whose products would exceed 64 bits.
  const int64_t huge = int64_t{1} << 40;
  ExpectRejected(Check(svd, {Spec(kF32, {0, huge, 3})}, {Spec(kF32, {0, 3})}), "the limit is");
}

TEST(OpCheckTest, SolvesCheckTheRightSide) {
  using serialization::LinearAlgebra;
  const TensorSpec square = Spec(kF32, {2, 5, 5}), right = Spec(kF32, {2, 5, 7}), pivots = Spec(DType::kInt32, {2, 5});
  const Op by_lu = LinearAlgebraOp(LinearAlgebra::LU_SOLVE);
  EXPECT_TRUE(Check(by_lu, {square, pivots, right}, {right}).ok());
  ExpectRejected(Check(by_lu, {square, pivots}, {right}), "inputs");
  ExpectRejected(Check(by_lu, {square, Spec(DType::kInt32, {2, 4}), right}, {right}), "the pivots");
  ExpectRejected(Check(by_lu, {square, pivots, Spec(kF32, {2, 4, 7})}, {right}), "B is");
  ExpectRejected(Check(by_lu, {square, pivots, Spec(kF32, {5, 7})}, {right}), "B is");
  ExpectRejected(Check(by_lu, {square, pivots, right}, {square}), "X is");
  const Op triangle = LinearAlgebraOp(LinearAlgebra::TRIANGULAR_SOLVE);
  EXPECT_TRUE(Check(triangle, {square, right}, {right}).ok());
  ExpectRejected(Check(triangle, {right, right}, {right}), "as many rows as columns");
  const int64_t huge = int64_t{1} << 40;
  ExpectRejected(Check(triangle, {Spec(kF32, {0, 5, 5}), Spec(kF32, {0, 5, huge})}, {Spec(kF32, {0, 5, huge})}),
                 "the limit is");
}

TEST(OpCheckTest, LayoutsThatCannotBeAreRejected) {
  Op op;
  op.mutable_copy();
  const TensorSpec good = Spec(kF32, {2, 3});
  TensorSpec bad = good;
  bad.layout.strides = {0, 1};
  EXPECT_TRUE(Check(op, {bad}, {good}).ok());
  ExpectRejected(Check(op, {good}, {bad}), "share memory");
  bad.layout.strides = {3, 2};  // dimensions interleave, elements do not overlap
  EXPECT_TRUE(Check(op, {good}, {bad}).ok());
  bad.layout.strides = {-3, 1};
  ExpectRejected(Check(op, {bad}, {good}), "negative");
  bad.layout.strides = {int64_t{1} << 62, int64_t{1} << 62};
  ExpectRejected(Check(op, {bad}, {good}), "too large");
  bad.layout.strides = {1};
  ExpectRejected(Check(op, {bad}, {good}), "2 sizes and 1 strides");
  bad = good;
  bad.dtype = DType::kUndefined;
  ExpectRejected(Check(op, {bad}, {good}), "no dtype");
}

TEST(OpCheckTest, CeilModeDropsWindowsThatStartInThePadding) {
  serialization::Pool pool;
  pool.add_kernel(2);
  pool.add_stride(2);
  pool.add_padding(1);
  pool.set_ceil_mode(true);
  EXPECT_EQ(PoolOutputSize(pool, 0, 3), 2);
  EXPECT_EQ(PoolOutputSize(pool, 0, 4), 3);
}

}  // namespace
}  // namespace cotan
