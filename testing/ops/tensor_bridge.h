// Tensors of LibTorch and of the runtime, and how far they are apart.
#ifndef COTAN_TESTING_OPS_TENSOR_BRIDGE_H_
#define COTAN_TESTING_OPS_TENSOR_BRIDGE_H_

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "runtime/tensor.h"

namespace cotan::testing {

// The same memory, which `tensor` keeps alive.
absl::StatusOr<Tensor> BorrowTensor(const at::Tensor& tensor);
// A copy.
at::Tensor ToAten(const Tensor& tensor);

// max|a - e| / (eps(dtype) * max|e|), infinite where NaN, infinities, integers
// or bools differ. Tensors of equal dtype and sizes.
double ErrorOf(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_TENSOR_BRIDGE_H_
