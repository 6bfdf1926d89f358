// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/view_and_mutation.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "aot/aotautograd/functional_tensor.h"
#include "aot/aotautograd/non_alias_views.h"
#include "aot/aotautograd/output_alias.h"
#include "aot/aotautograd/shared_storage.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "serialization/metadata/derived_metadata.h"

namespace cotan::aot {
namespace {

// Returns the geometry of the tangent: that of the tensor, contiguous if elements share memory.
TensorGeometry TangentGeometry(const at::Tensor& tensor) {
  TensorGeometry geometry = GeometryOf(RealTensorOf(SyncedProxyOf(tensor)));
  geometry.offset = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) != 0 || tensor.size(dim) < 2) continue;
    const DimVector strides = ContiguousStrides(tensor.sizes());
    geometry.strides.assign(strides.begin(), strides.end());
    break;
  }
  return geometry;
}

// Returns whether the caller gets any tensor with a gradient that does not follow from its own
// tensors: a result or data mutation that requires grad.
bool NeedsBackward(const ViewAndMutationMetaFields& facts) {
  for (const OutputAliasInfo& info : facts.output_info) {
    if (!info.requires_grad) continue;
    if (!IsAliasOfInput(info.output_type)) return true;
    if (!facts.input_info[static_cast<size_t>(*info.base_index)].requires_grad) return true;
  }
  return std::any_of(facts.input_info.begin(), facts.input_info.end(), [](const InputAliasInfo& info) {
    const bool is_seen = !info.mutations_under_no_grad_or_inference_mode && !info.mutations_hidden_from_autograd;
    return info.requires_grad && info.mutates_data && (is_seen || info.history == GradFnChange::kNew);
  });
}

}  // namespace

absl::StatusOr<Analysis> Analyze(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                                 absl::Span<const at::Tensor> outputs, const AnalysisOptions& options) {
  Analysis analysis;
  ViewAndMutationMetaFields& facts = analysis.facts;
  facts.static_input_indices = options.static_inputs;
  if (at::GradMode::is_enabled() != options.grad_enabled_at_entry) {
    facts.grad_enabled_mutation = at::GradMode::is_enabled();
  }
  COTAN_ASSIGN_OR_RETURN(InputMutations mutations, FindInputMutations(entry, inputs, options.keep_input_mutations));
  facts.input_info = std::move(mutations.info);
  facts.keep_input_mutations = mutations.keep_input_mutations;
  analysis.metadata_mutated_inputs = std::move(mutations.metadata_mutated_inputs);
  analysis.inputs_with_hidden_writes = std::move(mutations.inputs_with_hidden_writes);
  analysis.storage_sources = std::move(mutations.storage_sources);
  OutputClassifier classifier(entry, inputs, mutations.exit, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    facts.output_info.push_back(classifier.Describe(static_cast<int>(i)));
  }
  SetGradientSizes(inputs, facts.input_info);
  analysis.intermediate_bases = classifier.intermediate_bases();
  facts.num_intermediate_bases = static_cast<int>(analysis.intermediate_bases.size());
  SetSharedStorage(outputs, analysis.intermediate_bases, facts);
  SetNonAliasViews(outputs, facts);
  facts.is_train = NeedsBackward(facts);
  for (const ForwardTensor& source : DerivedMetadata::Of(facts).tangent_sources) {
    const size_t index = static_cast<size_t>(source.index);
    const at::Tensor& tensor = source.kind == ForwardTensor::Kind::kMutatedInput ? inputs[index]
                               : source.kind == ForwardTensor::Kind::kOutput     ? outputs[index]
                                                                                 : analysis.intermediate_bases[index];
    facts.tangents.push_back({source, TangentGeometry(tensor)});
  }
  COTAN_RETURN_IF_ERROR(facts.Validate());
  return analysis;
}

}  // namespace cotan::aot
