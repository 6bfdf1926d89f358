// SPDX-License-Identifier: Apache-2.0

// Makes inputs of a traced function that are not leaves of autograd.
#ifndef COTAN_AOT_CAPTURE_NON_LEAF_H_
#define COTAN_AOT_CAPTURE_NON_LEAF_H_

#include <ATen/core/Tensor.h>

namespace cotan::aot {

// Returns a non-leaf copy of `primal`, a functional tensor that requires grad. The traced function reads
// and writes the copy in place of an input that is the result of an op. The copy has memory of its own and
// requires grad; its gradient is the gradient of `primal`, which can be computed whatever is written to the
// copy.
at::Tensor NonLeaf(const at::Tensor& primal);

// Returns whether `example`, a real tensor, is a view that was made under no_grad: it requires grad only
// because its base does (DifferentiableViewMeta::requires_grad() in torch/csrc/autograd/variable.h) and has
// no grad_fn.
bool PassesNoGradient(const at::Tensor& example);

// Returns a copy of `primal` in memory of its own that is a no_grad view of it: it requires grad, but no
// gradient flows through it, neither to `primal` nor elsewhere.
at::Tensor NoGradView(const at::Tensor& primal);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_NON_LEAF_H_
