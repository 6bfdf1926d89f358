// SPDX-License-Identifier: Apache-2.0

// Expressions as models have them, with random operands, for tests.
#ifndef COTAN_KERNELS_CUDA_EXPR_MODEL_EXPRS_H_
#define COTAN_KERNELS_CUDA_EXPR_MODEL_EXPRS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/expr/expr_case.h"

namespace cotan::cuda::testing {

ExprCase Softmax(DType dtype, int64_t rows, int64_t columns, std::mt19937_64& random);

// Inputs: x, weight, bias.
ExprCase LayerNorm(DType dtype, int64_t rows, int64_t columns, std::mt19937_64& random);

// Batch norm in training of f32, over dimensions {0, 2, 3} of `sizes`. Inputs: x, weight, bias, running mean; outputs:
// y, new running mean.
ExprCase BatchNorm(const std::vector<int64_t>& sizes, bool channels_last, std::mt19937_64& random);

// The backward of batch norm and of a ReLU after it, of f32. Inputs: gradient, bool mask of what the ReLU removed, x,
// mean, reciprocal standard deviation, weight; outputs: gradients of x, weight, bias.
ExprCase BatchNormBackward(const std::vector<int64_t>& sizes, bool channels_last, std::mt19937_64& random);

// The gradient of the input of a layer norm of f32. Inputs: gradient, x, mean, reciprocal standard deviation, weight.
ExprCase LayerNormBackward(int64_t rows, int64_t columns, std::mt19937_64& random);

ExprCase ColumnSum(DType dtype, int64_t rows, int64_t columns, std::mt19937_64& random);

// The gradient of a bias, summed over rows, and its SGD step. Inputs: gradient, bias, momentum; outputs: bias,
// momentum.
ExprCase BiasUpdate(int64_t rows, int64_t columns, std::mt19937_64& random);

// The mean of squares of `count` values.
ExprCase MeanSquare(int64_t count, std::mt19937_64& random);

// Loss per row. Inputs: scores, i64 labels.
ExprCase CrossEntropy(int64_t rows, int64_t classes, std::mt19937_64& random);

// Inputs: parameter, mean, variance, gradient; outputs: the first three.
ExprCase Adam(DType dtype, int64_t count, std::mt19937_64& random);

// Inputs: x, generator state; outputs: y, bool mask.
ExprCase Dropout(const std::vector<int64_t>& sizes, std::mt19937_64& random);

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_EXPR_MODEL_EXPRS_H_
