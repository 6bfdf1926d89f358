// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/grad_fn.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "absl/strings/match.h"

namespace cotan::aot {
const torch::autograd::Node* GradFnIfKnown(const at::Tensor& tensor) {
  return torch::autograd::impl::grad_fn_unsafe(tensor);
}

const torch::autograd::Node* GradFnOf(const at::Tensor& tensor) {
  const torch::autograd::Node* known = GradFnIfKnown(tensor);
  return known != nullptr ? known : tensor.grad_fn().get();
}

bool IsCustomFunctionResult(const at::Tensor& tensor) {
  const torch::autograd::Node* node = GradFnOf(tensor);
  return node != nullptr && absl::StartsWith(node->name(), "torch::autograd::CppNode<");
}

std::optional<at::Tensor> AutogradBaseOf(const at::Tensor& tensor) {
  if (!tensor.is_view()) return std::nullopt;
  return at::Tensor(tensor._base());
}

}  // namespace cotan::aot
