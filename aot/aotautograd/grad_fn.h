// SPDX-License-Identifier: Apache-2.0

// Reads a tensor's state in LibTorch's autograd without changing it where possible: reading the
// grad_fn of a view whose base was written regenerates it.
#ifndef COTAN_AOT_AOTAUTOGRAD_GRAD_FN_H_
#define COTAN_AOT_AOTAUTOGRAD_GRAD_FN_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace torch::autograd {
struct Node;
}

namespace cotan::aot {

// Returns the grad_fn without regenerating it for a view whose base was written; null if none is
// known.
const torch::autograd::Node* GradFnIfKnown(const at::Tensor& tensor);

// Returns the grad_fn of the tensor; null if it has none. Does not regenerate the grad_fn of a view
// whose base was changed, which may be impossible (transpose_).
const torch::autograd::Node* GradFnOf(const at::Tensor& tensor);

// Returns whether the tensor is a result of a torch::autograd::Function.
bool IsCustomFunctionResult(const at::Tensor& tensor);

// Returns the base of the tensor in autograd; unset if it is not a view.
std::optional<at::Tensor> AutogradBaseOf(const at::Tensor& tensor);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_GRAD_FN_H_
