// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_and_mutation_facts.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

// Checks that the owner of the new storage of input `i` exists, and that an updated owner comes before it.
absl::Status ValidateNewStorage(const ViewAndMutationMetaFields& facts, size_t i) {
  const std::optional<NewStorage>& storage = facts.input_info[i].new_storage;
  if (!storage.has_value() || storage->owner == NewStorage::Owner::kProgram) return absl::OkStatus();
  const std::string field = absl::StrCat(Element("input_info", i), ".new_storage");
  if (storage->owner == NewStorage::Owner::kInput) {
    return CheckIndex(absl::StrCat(field, ".input"), storage->input, static_cast<int64_t>(facts.input_info.size()),
                      "inputs");
  }
  COTAN_RETURN_IF_ERROR(
      CheckIndex(absl::StrCat(field, ".updated_input"), storage->input, static_cast<int64_t>(i), "inputs before it"));
  if (facts.input_info[static_cast<size_t>(storage->input)].mutates_storage_metadata) return absl::OkStatus();
  return InvalidField(absl::StrCat(field, ".updated_input"), "input ", storage->input, " keeps its storage");
}

absl::Status ValidateInputs(const ViewAndMutationMetaFields& facts) {
  for (size_t i = 0; i < facts.input_info.size(); ++i) {
    const std::string field = Element("input_info", i);
    COTAN_RETURN_IF_ERROR(facts.input_info[i].Validate(field));
    if (facts.input_info[i].keep_input_mutations != facts.keep_input_mutations) {
      return InvalidField(absl::StrCat(field, ".keep_input_mutations"), "differs from that of the function");
    }
    COTAN_RETURN_IF_ERROR(ValidateNewStorage(facts, i));
  }
  const int64_t num_inputs = static_cast<int64_t>(facts.input_info.size());
  COTAN_RETURN_IF_ERROR(CheckAscending("static_input_indices", facts.static_input_indices, num_inputs, "inputs"));
  COTAN_RETURN_IF_ERROR(CheckAscending("backward_mutated_inputs", facts.backward_mutated_inputs, num_inputs, "inputs"));
  COTAN_RETURN_IF_ERROR(
      CheckAscending("indices_of_inputs_to_detach", facts.indices_of_inputs_to_detach, num_inputs, "inputs"));
  for (size_t i = 0; i < facts.indices_of_inputs_to_detach.size(); ++i) {
    const int input = facts.indices_of_inputs_to_detach[i];
    const InputAliasInfo& info = facts.input_info[static_cast<size_t>(input)];
    if (info.requires_grad && !info.is_leaf) continue;
    return InvalidField(Element("indices_of_inputs_to_detach", i), "input ", input,
                        info.is_leaf ? " is a leaf" : " does not require grad",
                        ", so there is nothing to detach it from");
  }
  return absl::OkStatus();
}

// Returns whether the chain of bases of output `i` is a cycle of user outputs.
bool IsOwnBase(const ViewAndMutationMetaFields& facts, size_t i) {
  size_t base = i;
  for (size_t steps = 0; steps <= facts.output_info.size(); ++steps) {
    const OutputAliasInfo& info = facts.output_info[base];
    if (info.output_type != OutputType::kAliasOfIntermediateBaseIsUserOutput || !info.base_index.has_value()) {
      return false;
    }
    if (*info.base_index < 0 || *info.base_index >= static_cast<int>(facts.output_info.size())) return false;
    base = static_cast<size_t>(*info.base_index);
  }
  return true;
}

// Checks that the base of output `i` exists and that bases do not form a cycle.
absl::Status ValidateBase(const ViewAndMutationMetaFields& facts, size_t i) {
  const OutputAliasInfo& info = facts.output_info[i];
  if (!info.base_index.has_value()) return absl::OkStatus();
  const std::string field = absl::StrCat(Element("output_info", i), ".base_index");
  const int base = *info.base_index;
  switch (info.output_type) {
    case OutputType::kAliasOfIntermediateSaveAsOutput:
    case OutputType::kAliasOfIntermediate:
      return CheckIndex(field, base, facts.num_intermediate_bases, "intermediate bases");
    case OutputType::kAliasOfIntermediateBaseIsUserOutput: {
      COTAN_RETURN_IF_ERROR(CheckIndex(field, base, static_cast<int64_t>(facts.output_info.size()), "outputs"));
      const OutputAliasInfo& base_info = facts.output_info[static_cast<size_t>(base)];
      if (base_info.is_tensor() && !IsOwnBase(facts, i)) return absl::OkStatus();
      return InvalidField(field, "output ", base, " cannot be a base: it is ", base_info.ToString());
    }
    default:
      return CheckIndex(field, base, static_cast<int64_t>(facts.input_info.size()), "inputs");
  }
}

absl::Status ValidateSharedStorage(const ViewAndMutationMetaFields& facts, size_t i) {
  const std::optional<SharedStorage>& shared = facts.output_info[i].shared_storage;
  if (!shared.has_value()) return absl::OkStatus();
  const std::string field = absl::StrCat(Element("output_info", i), ".shared_storage.owner");
  switch (shared->owner) {
    case SharedStorage::Owner::kInput:
      return CheckIndex(field, shared->index, static_cast<int64_t>(facts.input_info.size()), "inputs");
    case SharedStorage::Owner::kIntermediateBase:
      return CheckIndex(field, shared->index, facts.num_intermediate_bases, "intermediate bases");
    case SharedStorage::Owner::kOutput:
      break;
  }
  COTAN_RETURN_IF_ERROR(CheckIndex(field, shared->index, static_cast<int64_t>(i), "earlier outputs"));
  const OutputAliasInfo& owner = facts.output_info[static_cast<size_t>(shared->index)];
  if (owner.is_tensor() && (IsFreshMemory(owner.output_type) || shared->is_same_tensor)) return absl::OkStatus();
  return InvalidField(field, "output ", shared->index, " has no storage of its own: it is ", owner.ToString());
}

absl::Status ValidateNonAliasView(const ViewAndMutationMetaFields& facts, size_t i) {
  const std::optional<NonAliasViewInfo>& view = facts.output_info[i].non_alias_view;
  if (!view.has_value() || view->is_hidden) return absl::OkStatus();
  const std::string field = absl::StrCat(Element("output_info", i), ".non_alias_view.output");
  COTAN_RETURN_IF_ERROR(CheckIndex(field, view->base, static_cast<int64_t>(facts.output_info.size()), "outputs"));
  const OutputAliasInfo& base = facts.output_info[static_cast<size_t>(view->base)];
  if (base.is_tensor() && IsFreshMemory(base.output_type) && !base.non_alias_view.has_value()) return absl::OkStatus();
  return InvalidField(field, "output ", view->base, " cannot be the base of a non-alias view: it is ", base.ToString());
}

absl::Status ValidateOutputs(const ViewAndMutationMetaFields& facts) {
  int num_bases = 0;
  for (size_t i = 0; i < facts.output_info.size(); ++i) {
    const OutputAliasInfo& info = facts.output_info[i];
    COTAN_RETURN_IF_ERROR(info.Validate(Element("output_info", i)));
    COTAN_RETURN_IF_ERROR(ValidateBase(facts, i));
    COTAN_RETURN_IF_ERROR(ValidateSharedStorage(facts, i));
    COTAN_RETURN_IF_ERROR(ValidateNonAliasView(facts, i));
    if (info.output_type != OutputType::kAliasOfIntermediateSaveAsOutput || facts.subclass_meta.has_value()) continue;
    if (*info.base_index != num_bases) {
      return InvalidField(absl::StrCat(Element("output_info", i), ".base_index"), *info.base_index,
                          " is out of order: intermediate base ", num_bases, " comes next");
    }
    ++num_bases;
  }
  // Bases of parts of wrappers have no output of that type; subclass_meta.fw_metadata has them.
  if (num_bases == facts.num_intermediate_bases || facts.subclass_meta.has_value()) return absl::OkStatus();
  return InvalidField("num_intermediate_bases", facts.num_intermediate_bases, ", but ", num_bases,
                      " outputs are of type alias_of_intermediate_save_as_output");
}

absl::Status ValidateTangent(const TangentMeta& tangent, const ForwardTensor& source, absl::string_view field) {
  if (tangent.source != source) {
    return InvalidField(absl::StrCat(field, ".source"), "is ", ToString(tangent.source), ", but the tangent of ",
                        ToString(source), " comes here");
  }
  const DType dtype = tangent.expected.dtype;
  if (!IsFloatingPoint(dtype) && !IsComplex(dtype)) {
    return InvalidField(absl::StrCat(field, ".expected.dtype"), DTypeName(dtype), " has no gradient");
  }
  if (tangent.expected.strides.size() != tangent.expected.sizes.size()) {
    return InvalidField(absl::StrCat(field, ".expected.strides"), tangent.expected.strides.size(), " strides for ",
                        tangent.expected.sizes.size(), " sizes");
  }
  if (!(tangent.expected.offset == SymInt(0))) {
    return InvalidField(absl::StrCat(field, ".expected.offset"), "must be 0");
  }
  return absl::OkStatus();
}

absl::Status ValidateTangents(const ViewAndMutationMetaFields& facts, const DerivedMetadata& derived) {
  if (facts.tangents.empty()) return absl::OkStatus();
  if (facts.tangents.size() != derived.tangent_sources.size()) {
    return InvalidField("tangents", facts.tangents.size(), ", but the inputs and outputs have ",
                        derived.tangent_sources.size());
  }
  for (size_t i = 0; i < facts.tangents.size(); ++i) {
    COTAN_RETURN_IF_ERROR(ValidateTangent(facts.tangents[i], derived.tangent_sources[i], Element("tangents", i)));
  }
  return absl::OkStatus();
}

// Checks that `metas` is empty or describes `expected` tensors.
absl::Status ValidateWrappers(absl::string_view field, const std::vector<FlatMeta>& metas, int expected,
                              absl::string_view things) {
  if (metas.empty()) return absl::OkStatus();
  if (metas.size() != static_cast<size_t>(expected)) {
    return InvalidField(field, metas.size(), " entries for ", expected, " ", things);
  }
  return ValidateFlatMetas(metas, field);
}

absl::Status ValidateSubclassMeta(const ViewAndMutationMetaFields& facts, const DerivedMetadata& derived) {
  const SubclassMeta& meta = *facts.subclass_meta;
  constexpr absl::string_view kField = "subclass_meta";
  if (meta.fw_metadata == nullptr) return InvalidField("subclass_meta.fw_metadata", "is missing");
  const ViewAndMutationMetaFields& dense = meta.fw_metadata->facts();
  if (dense.subclass_meta.has_value()) {
    return InvalidField("subclass_meta.fw_metadata.subclass_meta", "must not be set: flat values cannot be wrappers");
  }
  const size_t num_inputs =
      facts.input_wrappers.empty() ? facts.input_info.size() : static_cast<size_t>(FlatCount(facts.input_wrappers));
  if (dense.input_info.size() != num_inputs) {
    return InvalidField("subclass_meta.fw_metadata.input_info", dense.input_info.size(), " entries for ", num_inputs,
                        " flat inputs");
  }
  size_t num_outputs = facts.output_info.size();
  if (!facts.forward_return_wrappers.empty()) {
    num_outputs = static_cast<size_t>(
        FlatCount(absl::MakeConstSpan(facts.forward_return_wrappers)
                      .subspan(derived.mutated_inp_runtime_indices.size(), facts.output_info.size())));
  }
  if (dense.output_info.size() != num_outputs) {
    return InvalidField("subclass_meta.fw_metadata.output_info", dense.output_info.size(), " entries for ", num_outputs,
                        " flat outputs");
  }
  return ValidateWrappers(absl::StrCat(kField, ".grad_inputs"), meta.grad_inputs,
                          static_cast<int>(facts.input_info.size()), "inputs");
}

absl::Status ValidateAllWrappers(const ViewAndMutationMetaFields& facts, const DerivedMetadata& derived) {
  COTAN_RETURN_IF_ERROR(
      ValidateWrappers("input_wrappers", facts.input_wrappers, static_cast<int>(facts.input_info.size()), "inputs"));
  COTAN_RETURN_IF_ERROR(ValidateWrappers("forward_return_wrappers", facts.forward_return_wrappers,
                                         derived.num_forward_returns, "forward returns"));
  COTAN_RETURN_IF_ERROR(ValidateWrappers("tangent_wrappers", facts.tangent_wrappers,
                                         static_cast<int>(derived.tangent_sources.size()), "tangents"));
  const bool has_wrappers = HasWrappers(facts.input_wrappers) || HasWrappers(facts.forward_return_wrappers) ||
                            HasWrappers(facts.tangent_wrappers);
  if (has_wrappers != facts.subclass_meta.has_value()) {
    return InvalidField("subclass_meta", has_wrappers ? "is missing, though some tensors are wrappers"
                                                      : "must not be set, as no tensor is a wrapper");
  }
  if (has_wrappers) return ValidateSubclassMeta(facts, derived);
  if (facts.input_wrappers.empty() && facts.forward_return_wrappers.empty() && facts.tangent_wrappers.empty()) {
    return absl::OkStatus();
  }
  return InvalidField("input_wrappers", "lists of wrappers must be empty, as no tensor is one");
}

absl::Status ValidateEffects(const ViewAndMutationMetaFields& facts) {
  absl::flat_hash_set<absl::string_view> kinds;
  for (size_t i = 0; i < facts.tokens.size(); ++i) {
    if (facts.tokens[i].empty()) return InvalidField(Element("tokens", i), "is empty");
    if (kinds.insert(facts.tokens[i]).second) continue;
    return InvalidField(Element("tokens", i), "\"", facts.tokens[i], "\" occurs twice");
  }
  if (facts.num_backward_tokens < 0 || facts.num_backward_tokens > kMaxCount) {
    return InvalidField("num_backward_tokens", facts.num_backward_tokens, " is outside [0, ", kMaxCount, "]");
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToString(const ForwardTensor& tensor) {
  switch (tensor.kind) {
    case ForwardTensor::Kind::kMutatedInput:
      return absl::StrCat("input ", tensor.index);
    case ForwardTensor::Kind::kOutput:
      return absl::StrCat("output ", tensor.index);
    case ForwardTensor::Kind::kIntermediateBase:
      return absl::StrCat("intermediate base ", tensor.index);
  }
  return "unknown";
}

bool operator==(const SubclassMeta& a, const SubclassMeta& b) {
  if (a.grad_inputs != b.grad_inputs) return false;
  if (a.fw_metadata == nullptr || b.fw_metadata == nullptr) return a.fw_metadata == b.fw_metadata;
  return *a.fw_metadata == *b.fw_metadata;
}

absl::Status ViewAndMutationMetaFields::Validate() const {
  COTAN_RETURN_IF_ERROR(ValidateInputs(*this));
  COTAN_RETURN_IF_ERROR(ValidateOutputs(*this));
  COTAN_RETURN_IF_ERROR(ValidateEffects(*this));
  if (saved.has_value()) {
    if (!is_train) {
      return InvalidField("saved", "must not be set: the function was not traced for training");
    }
    COTAN_RETURN_IF_ERROR(saved->Validate("saved"));
  }
  const DerivedMetadata derived = DerivedMetadata::Of(*this);
  COTAN_RETURN_IF_ERROR(ValidateTangents(*this, derived));
  return ValidateAllWrappers(*this, derived);
}

}  // namespace cotan
