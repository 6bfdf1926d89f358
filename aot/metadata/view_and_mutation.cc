#include "aot/metadata/view_and_mutation.h"

#include <ATen/FunctionalTensorWrapper.h>

#include "absl/strings/str_cat.h"
#include "aot/trace/tensor_data.h"

namespace cotan::aot {
namespace {

using serialization::InputAliasInfo;
using serialization::OutputAliasInfo;

at::FunctionalTensorWrapper* WrapperOf(const at::Tensor& tensor) {
  if (!at::functionalization::impl::isFunctionalTensor(tensor)) return nullptr;
  return at::functionalization::impl::unsafeGetFunctionalWrapper(tensor);
}

const void* StorageOf(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

InputAliasInfo DescribeInput(const at::Tensor& input) {
  InputAliasInfo info;
  at::FunctionalTensorWrapper* wrapper = WrapperOf(input);
  info.set_is_leaf(input.is_leaf());
  info.set_requires_grad(input.requires_grad());
  info.set_mutates_data(wrapper->has_data_mutation());
  info.set_mutates_storage_metadata(wrapper->was_storage_changed());
  info.set_mutates_metadata(wrapper->has_metadata_mutation() || wrapper->was_storage_changed());
  info.set_mutations_hidden_from_autograd(wrapper->are_all_mutations_hidden_from_autograd());
  info.set_mutations_under_no_grad_or_inference_mode(
      wrapper->has_data_mutation() &&
      wrapper->are_all_mutations_under_no_grad_or_inference_mode());
  info.set_mutation_inductor_storage_resize(wrapper->was_inductor_storage_resized());
  return info;
}

OutputAliasInfo DescribeOutput(const at::Tensor& output, absl::Span<const at::Tensor> inputs) {
  OutputAliasInfo info;
  info.set_output_type(serialization::NON_ALIAS);
  info.set_requires_grad(output.requires_grad());
  *info.mutable_geometry() = GeometryOf(output);
  if (WrapperOf(output) == nullptr) return info;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (StorageOf(output) != StorageOf(inputs[i])) continue;
    info.set_base_index(static_cast<uint32_t>(i));
    if (output.is_same(inputs[i])) {
      info.set_output_type(serialization::IS_INPUT);
      return info;
    }
    info.set_output_type(serialization::ALIAS_OF_INPUT);
  }
  if (!info.has_base_index() && output.is_view()) {
    info.set_output_type(serialization::UNSAFE_VIEW_ALIAS);
  }
  return info;
}

}  // namespace

serialization::TensorGeometry GeometryOf(const at::Tensor& tensor) {
  serialization::TensorGeometry geometry;
  geometry.set_dtype(
      static_cast<serialization::DTypeProto>(ToDType(tensor.scalar_type())));
  for (int64_t size : tensor.sizes()) geometry.add_sizes(absl::StrCat(size));
  for (int64_t stride : tensor.strides()) geometry.add_strides(absl::StrCat(stride));
  geometry.set_offset(absl::StrCat(tensor.storage_offset()));
  return geometry;
}

serialization::ViewAndMutationMeta AnalyzeViewsAndMutations(absl::Span<const at::Tensor> inputs,
                                                            absl::Span<const at::Tensor> outputs) {
  serialization::ViewAndMutationMeta meta;
  for (const at::Tensor& input : inputs) *meta.add_input_info() = DescribeInput(input);
  for (const at::Tensor& output : outputs) *meta.add_output_info() = DescribeOutput(output, inputs);
  return meta;
}

}  // namespace cotan::aot
