// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/derived_metadata.h"

namespace cotan {
namespace {

void DeriveFromInputs(const ViewAndMutationMetaFields& facts, DerivedMetadata& derived) {
  for (int i = 0; i < static_cast<int>(facts.input_info.size()); ++i) {
    const InputAliasInfo& info = facts.input_info[static_cast<size_t>(i)];
    switch (MutationTypeOf(info)) {
      case MutationType::kNotMutated:
        break;
      case MutationType::kMutatedOutGraph:
        derived.mutated_inp_runtime_indices.push_back(i);
        break;
      case MutationType::kMutatedInGraph:
        derived.mutated_graph_handled_indices.push_back(i);
        if (!info.mutations_hidden_from_autograd) {
          derived.mutated_graph_handled_indices_seen_by_autograd.push_back(i);
        }
        break;
    }
  }
  for (int i : facts.backward_mutated_inputs) {
    if (facts.input_info[static_cast<size_t>(i)].requires_grad) {
      derived.backward_mutated_inputs_requiring_grad.push_back(i);
    }
  }
}

void DeriveFromOutputs(const ViewAndMutationMetaFields& facts, DerivedMetadata& derived) {
  derived.num_outputs = static_cast<int>(facts.output_info.size());
  for (int i = 0; i < derived.num_outputs; ++i) {
    const OutputAliasInfo& info = facts.output_info[static_cast<size_t>(i)];
    if (IsFreshMemory(info.output_type)) {
      ++derived.num_outputs_non_aliased;
    } else {
      derived.aliased_out_indices.push_back(i);
    }
    if (IsAliasOfInput(info.output_type)) ++derived.num_outputs_aliased_to_inputs;
    if (IsAliasOfIntermediate(info.output_type)) ++derived.num_outputs_aliased_to_intermediates;
    if (info.output_type == OutputType::kUnsafeViewAlias) {
      derived.unsafe_view_out_indices.push_back(i);
    }
    if (info.is_tensor()) ++derived.num_tensor_outputs;
    if (!info.dynamic_dims.empty()) derived.dynamic_outputs = true;
  }
  derived.num_outputs_aliased = static_cast<int>(derived.aliased_out_indices.size());
}

// Forward returns and tangents have the same order: written-back inputs, outputs, intermediate bases.
void DeriveReturnsAndTangents(const ViewAndMutationMetaFields& facts, DerivedMetadata& derived) {
  for (int i : derived.mutated_inp_runtime_indices) {
    const InputAliasInfo& info = facts.input_info[static_cast<size_t>(i)];
    const ForwardTensor tensor = {ForwardTensor::Kind::kMutatedInput, i};
    derived.forward_returns.push_back({tensor, /*is_tensor_alias=*/!info.mutates_data});
    if (info.mutates_data && info.requires_grad) derived.tangent_sources.push_back(tensor);
  }
  for (int i = 0; i < derived.num_outputs; ++i) {
    const OutputAliasInfo& info = facts.output_info[static_cast<size_t>(i)];
    const ForwardTensor tensor = {ForwardTensor::Kind::kOutput, i};
    derived.forward_returns.push_back({tensor, /*is_tensor_alias=*/!IsFreshMemory(info.output_type)});
    if (info.has_tangent()) derived.tangent_sources.push_back(tensor);
  }
  for (int i = 0; i < facts.num_intermediate_bases; ++i) {
    const ForwardTensor tensor = {ForwardTensor::Kind::kIntermediateBase, i};
    derived.forward_returns.push_back({tensor, /*is_tensor_alias=*/false});
    derived.tangent_sources.push_back(tensor);
  }
  derived.num_forward_returns = static_cast<int>(derived.forward_returns.size());
}

void DeriveTangentTypes(const ViewAndMutationMetaFields& facts, DerivedMetadata& derived) {
  if (facts.tangent_wrappers.empty()) {
    derived.tangent_types.resize(derived.tangent_sources.size());
    return;
  }
  for (const FlatMeta& meta : facts.tangent_wrappers) {
    derived.tangent_types.emplace_back(WrapperTypeName(meta));
  }
}

}  // namespace

DerivedMetadata DerivedMetadata::Of(const ViewAndMutationMetaFields& facts) {
  DerivedMetadata derived;
  DeriveFromInputs(facts, derived);
  DeriveFromOutputs(facts, derived);
  DeriveReturnsAndTangents(facts, derived);
  DeriveTangentTypes(facts, derived);

  const SavedForBackward saved = facts.saved.value_or(SavedForBackward());
  derived.tensors_saved_for_backwards = saved.Tensors(derived.num_forward_returns);
  derived.tensors_saved_for_backwards_with_vc_check = saved.TensorsWithVersionCheck(derived.num_forward_returns);
  derived.tensors_saved_for_backwards_no_vc_check = saved.TensorsWithoutVersionCheck(derived.num_forward_returns);
  return derived;
}

}  // namespace cotan
