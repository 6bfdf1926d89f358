// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/describe_examples.h"

#include <torch/csrc/autograd/variable.h>

#include "aot/capture/tensor_data.h"

namespace cotan::aot {
namespace {

uintptr_t Address(const void* object) { return reinterpret_cast<uintptr_t>(object); }

InputDescription Describe(const at::Tensor& tensor) {
  InputDescription description;
  description.identity = Address(tensor.unsafeGetTensorImpl());
  description.storage = Address(tensor.storage().unsafeGetStorageImpl());
  description.dtype = ToDType(tensor.scalar_type());
  description.layout = LayoutOf(tensor);
  description.storage_elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  description.requires_grad = tensor.requires_grad();
  description.is_leaf = tensor.is_leaf();
  if (tensor.is_view()) {
    const at::Tensor base(tensor._base());
    description.base = {Address(base.unsafeGetTensorImpl()), ToDType(base.scalar_type()), LayoutOf(base),
                        base.requires_grad(), base.is_leaf()};
    description.made_under_no_grad =
        tensor.requires_grad() && torch::autograd::impl::get_view_autograd_meta(tensor)->get_creation_meta() ==
                                      torch::autograd::CreationMeta::NO_GRAD_MODE;
  }
  return description;
}

}  // namespace

std::vector<InputDescription> DescribeExamples(absl::Span<const ModuleState> states,
                                               absl::Span<const at::Tensor> inputs) {
  std::vector<InputDescription> descriptions;
  for (const ModuleState& state : states) {
    InputDescription description = Describe(state.initial);
    description.identity = description.storage = Address(state.tensor.unsafeGetTensorImpl());
    description.requires_grad = state.requires_grad;
    description.is_leaf = true;
    description.base.reset();
    descriptions.push_back(description);
  }
  for (const at::Tensor& input : inputs) descriptions.push_back(Describe(input));
  return descriptions;
}

}  // namespace cotan::aot
