// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/tensor_shell.h"

#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "aot/capture/tensor_data.h"

namespace cotan::aot {
namespace {

// The node of a result that requires grad. It never runs.
class ResultNode final : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override { throw OpsDiffer(); }
};

}  // namespace

TensorFacts FactsOf(const at::Tensor& tensor) {
  TensorFacts facts;
  facts.dtype = tensor.scalar_type();
  facts.sizes = tensor.sizes().vec();
  facts.strides = tensor.strides().vec();
  facts.offset = tensor.storage_offset();
  facts.requires_grad = tensor.requires_grad();
  facts.is_wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return facts;
}

bool IsPlain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() && !tensor.is_quantized() && !tensor.is_conj() &&
         !tensor.is_neg() && ToDType(tensor.scalar_type()) != DType::kUndefined;
}

at::Tensor EmptyShell(const TensorFacts& facts, bool is_leaf) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                               c10::scalarTypeToTypeMeta(facts.dtype), at::kCPU);
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_storage_access_should_throw();
  impl.set_sizes_and_strides(facts.sizes, facts.strides, facts.offset);
  if (facts.is_wrapped_number) impl.set_wrapped_number(true);
  if (!facts.requires_grad) return tensor;
  if (is_leaf) {
    impl.set_requires_grad(true);
    return tensor;
  }
  auto node = c10::make_intrusive<ResultNode>();
  node->add_input_metadata(tensor);
  torch::autograd::impl::set_gradient_edge(tensor, {std::move(node), 0});
  return tensor;
}

bool HasHooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.retains_grad_hooks().empty();
}

}  // namespace cotan::aot
