// SPDX-License-Identifier: Apache-2.0

// Results that are locally constant in a tensor, whose gradient is zeros and not undefined.
#ifndef COTAN_AOT_DECOMPOSITIONS_ZERO_GRADIENT_H_
#define COTAN_AOT_DECOMPOSITIONS_ZERO_GRADIENT_H_

#include <ATen/core/Tensor.h>

namespace cotan::aot {

// Returns a copy of `result` whose gradient with respect to `tensor` is zeros, as in LibTorch's formulas of ops
// that are locally constant in an argument. Gradients of `result` pass unchanged.
at::Tensor WithZeroGradient(const at::Tensor& result, const at::Tensor& tensor);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_ZERO_GRADIENT_H_
