// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/non_leaf.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <optional>

#include "aot/capture/proxy_tensor.h"

namespace cotan::aot {
namespace {

// Returns a tensor with the graph value of `primal` and memory of its own.
at::Tensor SameContent(const at::Tensor& primal) {
  at::Tensor result = primal.clone();
  Reseat(result, at::functionalization::impl::from_functional_tensor(primal));
  return result;
}

}  // namespace

at::Tensor NonLeaf(const at::Tensor& primal) {
  const c10::AutoGradMode grad_mode(true);
  return SameContent(primal);
}

bool PassesNoGradient(const at::Tensor& example) {
  return example.requires_grad() && example.is_leaf() &&
         !torch::autograd::impl::get_autograd_meta(example)->requires_grad_;
}

at::Tensor NoGradView(const at::Tensor& primal) {
  const at::NoGradGuard no_grad;
  at::Tensor result = SameContent(primal);
  at::TensorImpl* impl = result.unsafeGetTensorImpl();
  impl->set_autograd_meta(std::make_unique<torch::autograd::DifferentiableViewMeta>(
      impl, torch::autograd::ViewInfo(primal, /*view_func=*/nullptr, /*rev_view_fn=*/nullptr),
      /*forward_info=*/std::nullopt,
      /*shared_view_info=*/true, torch::autograd::CreationMeta::NO_GRAD_MODE));
  return result;
}

}  // namespace cotan::aot
