// SPDX-License-Identifier: Apache-2.0

// Converts tensors between LibTorch and the runtime, and computes their difference.
#ifndef COTAN_TESTING_OPS_TENSOR_BRIDGE_H_
#define COTAN_TESTING_OPS_TENSOR_BRIDGE_H_

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "runtime/tensor.h"

namespace cotan::testing {

// Returns a tensor that borrows the memory of `tensor`, which outlives it.
absl::StatusOr<Tensor> BorrowTensor(const at::Tensor& tensor);
// Returns a copy.
at::Tensor ToAten(const Tensor& tensor);

// Returns max|a - e| / (eps(dtype) * max|e|), infinite where NaN, infinities, integers or bools
// differ. Both have equal dtype and sizes.
double ErrorOf(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_TENSOR_BRIDGE_H_
