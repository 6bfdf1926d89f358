// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/wrap_method.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/tree_spec.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::aot {
namespace {

using serialization::GraphSignature;
using serialization::Method;

std::vector<std::string> Names(absl::string_view prefix, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat(prefix, i));
  return names;
}

bool IsWrapper(const FlatMeta& meta) { return std::holds_alternative<WrapperMeta>(meta); }

// Returns for each flat tensor the index of the caller's tensor that it belongs to.
std::vector<int> OwnersOf(const std::vector<FlatMeta>& metas) {
  std::vector<int> owners;
  for (size_t i = 0; i < metas.size(); ++i) {
    owners.insert(owners.end(), static_cast<size_t>(FlatCount(metas[i])), static_cast<int>(i));
  }
  return owners;
}

// Copies a structure to the flat tensors from `next` on. is_there[i], i counted from `position`,
// says whether leaf i is a flat tensor; if not, it becomes an OpaqueMeta named `absent`.
class Renumbering {
 public:
  Renumbering(absl::string_view absent, int& next, int position, const std::vector<bool>& is_there)
      : absent_(absent), next_(next), position_(position), is_there_(is_there) {}

  FlatMeta Of(const FlatMeta& meta) {
    if (const auto* wrapper = std::get_if<WrapperMeta>(&meta)) return Wrapper(*wrapper);
    ++position_;
    return PlainTensorMeta{.flat_index = next_++, .expected = {}};
  }

 private:
  WrapperMeta Wrapper(const WrapperMeta& meta) {
    WrapperMeta result = meta;
    result.flat_start = next_;
    for (WrapperAttribute& attribute : result.attributes) {
      if (auto* wrapper = std::get_if<WrapperMeta>(&attribute.value)) {
        WrapperMeta inner = Wrapper(*wrapper);
        attribute.value = std::move(inner);
      } else if (is_there_[static_cast<size_t>(position_++)]) {
        attribute.value = PlainTensorMeta{.flat_index = next_++, .expected = {}};
      } else {
        attribute.value = OpaqueMeta{.type_name = absent_, .content = ""};
      }
    }
    result.flat_count = next_ - result.flat_start;
    return result;
  }

  const std::string absent_;  // type_name of absent leaves
  int& next_;
  int position_;
  const std::vector<bool>& is_there_;
};

// Implements WrapForward().
class Wrapping {
 public:
  Wrapping(const WrapperStructure& structure, Method& method)
      : structure_(structure),
        method_(method),
        input_owners_(OwnersOf(structure.inputs)),
        output_owners_(OwnersOf(structure.outputs)),
        input_names_(InputNames(structure)),
        output_names_(OutputNames(structure)),
        flat_input_names_(FlatNames(structure.inputs, input_names_)),
        flat_output_names_(FlatNames(structure.outputs, output_names_)) {}

  absl::Status Run() {
    COTAN_ASSIGN_OR_RETURN(dense_, ViewAndMutationMeta::FromProto(method_.metadata()));
    if (dense_.num_inputs() != static_cast<int>(input_owners_.size()) ||
        dense_.num_outputs() != static_cast<int>(output_owners_.size())) {
      return absl::InternalError(absl::StrCat("the function has ", dense_.num_inputs(), " flat inputs and ",
                                              dense_.num_outputs(), " flat outputs; its wrappers have ",
                                              input_owners_.size(), " and ", output_owners_.size()));
    }
    facts_ = dense_.facts();
    COTAN_RETURN_IF_ERROR(WrapInputs());
    WrapOutputs();
    WrapIndexes();
    WrapTangents();
    AddStructures();
    COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMeta wrapped, ViewAndMutationMeta::Create(std::move(facts_)));
    *method_.mutable_metadata() = wrapped.ToProto();
    WrapSignature();
    return absl::OkStatus();
  }

 private:
  static size_t At(int i) { return static_cast<size_t>(i); }
  bool IsPartOfInput(int flat) const { return IsWrapper(structure_.inputs[At(input_owners_[At(flat)])]); }
  bool IsPartOfOutput(int flat) const { return IsWrapper(structure_.outputs[At(output_owners_[At(flat)])]); }

  absl::Status WrapInputs() {
    facts_.input_info.clear();
    int first = 0;
    for (const FlatMeta& meta : structure_.inputs) {
      const int end = first + FlatCount(meta);
      COTAN_ASSIGN_OR_RETURN(InputAliasInfo info, IsWrapper(meta) ? WrapperInput(first, end) : dense_.input(first));
      facts_.input_info.push_back(std::move(info));
      first = end;
    }
    return absl::OkStatus();
  }

  // Returns the metadata of a wrapper: the union of the mutations of its parts. A flag for hidden
  // mutations holds if it holds for all mutated parts.
  absl::StatusOr<InputAliasInfo> WrapperInput(int first, int end) const {
    InputAliasInfo all;
    all.is_leaf = true;
    all.keep_input_mutations = facts_.keep_input_mutations;
    all.mutations_under_no_grad_or_inference_mode = true;
    bool any_at_entry = false;
    for (int flat = first; flat < end; ++flat) {
      const InputAliasInfo& part = dense_.input(flat);
      if (part.mutates_storage_metadata || part.mutation_inductor_storage_resize) {
        return absl::UnimplementedError(
            absl::StrCat("'", flat_input_names_[At(flat)],
                         "' gets another storage: parts of wrappers keep theirs; copy_() into it instead"));
      }
      all.is_leaf = all.is_leaf && part.is_leaf;
      all.requires_grad = all.requires_grad || part.requires_grad;
      any_at_entry = any_at_entry || part.requires_grad_at_entry.value_or(part.requires_grad);
      if (part.history == GradFnChange::kNew) all.history = GradFnChange::kNew;
      if (!part.is_mutated()) continue;
      all.mutates_data = all.mutates_data || part.mutates_data;
      all.mutates_metadata = all.mutates_metadata || part.mutates_metadata;
      all.mutations_hidden_from_autograd = all.mutations_hidden_from_autograd && part.mutations_hidden_from_autograd;
      all.mutations_under_no_grad_or_inference_mode =
          all.mutations_under_no_grad_or_inference_mode && part.mutations_under_no_grad_or_inference_mode;
    }
    if (!all.is_mutated()) all.mutations_under_no_grad_or_inference_mode = false;
    if (any_at_entry != all.requires_grad) all.requires_grad_at_entry = any_at_entry;
    return all;
  }

  void WrapOutputs() {
    facts_.output_info.clear();
    int flat = 0;
    for (const FlatMeta& meta : structure_.outputs) {
      const int first = flat;
      flat += FlatCount(meta);
      facts_.output_info.push_back(IsWrapper(meta) ? WrapperOutput(first, flat) : PlainOutput(first));
    }
  }

  // Returns the metadata of a plain output, with flat indexes converted to the caller's.
  OutputAliasInfo PlainOutput(int flat) const {
    OutputAliasInfo info = dense_.output(flat);
    if (IsAliasOfInput(info.output_type) || (info.base_index.has_value() && IsFreshMemory(info.output_type))) {
      const int base = *info.base_index;
      if (IsPartOfInput(base) && info.output_type == OutputType::kIsInput) {
        info.output_type = OutputType::kAliasOfInput;
      }
      info.base_index = input_owners_[At(base)];
    } else if (info.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput) {
      if (IsPartOfOutput(*info.base_index)) {
        // A wrapper cannot be a base. The metadata of the flat function has the alias of its part.
        info.output_type = OutputType::kNonAlias;
        info.base_index.reset();
        info.view_steps.clear();
        info.requires_grad_for_backward = false;
      } else {
        info.base_index = output_owners_[At(*info.base_index)];
      }
    }
    if (info.non_alias_view.has_value() && !info.non_alias_view->is_hidden) {
      if (IsPartOfOutput(info.non_alias_view->base)) {
        info.non_alias_view.reset();
      } else {
        info.non_alias_view->base = output_owners_[At(info.non_alias_view->base)];
      }
    }
    if (!info.shared_storage.has_value()) return info;
    SharedStorage& shared = *info.shared_storage;
    if (shared.owner == SharedStorage::Owner::kInput) {
      if (IsPartOfInput(shared.index)) {
        info.shared_storage.reset();
        info.view_steps.clear();
      } else {
        shared.index = input_owners_[At(shared.index)];
      }
    } else if (shared.owner == SharedStorage::Owner::kOutput) {
      if (IsPartOfOutput(shared.index)) {
        info.shared_storage.reset();
      } else {
        shared.index = output_owners_[At(shared.index)];
      }
    }
    return info;
  }

  // Returns the metadata of a wrapper output: a new object over its parts, unless all parts are
  // those of one input in order.
  OutputAliasInfo WrapperOutput(int first, int end) const {
    OutputAliasInfo info;
    info.output_type = OutputType::kNonAlias;
    bool has_tangent = false;
    for (int flat = first; flat < end; ++flat) {
      const OutputAliasInfo& part = dense_.output(flat);
      info.requires_grad = info.requires_grad || part.requires_grad;
      has_tangent = has_tangent || part.has_tangent();
    }
    if (const std::optional<int> input = InputThatIs(first, end)) {
      info.output_type = OutputType::kIsInput;
      info.base_index = *input;
      info.requires_grad_for_backward = info.requires_grad;
    } else {
      info.requires_grad_for_backward = has_tangent;
    }
    return info;
  }

  // Returns the input that has exactly the flat outputs [first, end) as parts; unset if there is
  // none.
  std::optional<int> InputThatIs(int first, int end) const {
    std::optional<int> found;
    for (int flat = first; flat < end; ++flat) {
      const OutputAliasInfo& part = dense_.output(flat);
      if (part.output_type != OutputType::kIsInput) return std::nullopt;
      const int owner = input_owners_[At(*part.base_index)];
      const auto start = std::find(input_owners_.begin(), input_owners_.end(), owner) - input_owners_.begin();
      if (*part.base_index - start != flat - first) return std::nullopt;
      found = owner;
    }
    if (!found.has_value() || FlatCount(structure_.inputs[At(*found)]) != end - first) return std::nullopt;
    return found;
  }

  // Converts flat inputs to inputs of the caller, ascending, each once.
  std::vector<int> CallerInputs(const std::vector<int>& flat, bool with_parts) const {
    std::set<int> inputs;
    for (int i : flat) {
      if (with_parts || !IsPartOfInput(i)) inputs.insert(input_owners_[At(i)]);
    }
    return {inputs.begin(), inputs.end()};
  }

  void WrapIndexes() {
    facts_.static_input_indices = CallerInputs(dense_.facts().static_input_indices, /*with_parts=*/true);
    facts_.backward_mutated_inputs = CallerInputs(dense_.facts().backward_mutated_inputs, /*with_parts=*/true);
    // Parts to detach are in the metadata of the flat function.
    facts_.indices_of_inputs_to_detach = CallerInputs(dense_.facts().indices_of_inputs_to_detach, /*with_parts=*/false);
  }

  // Returns the tensor of the caller that a flat one belongs to.
  ForwardTensor OwnerOf(const ForwardTensor& flat) const {
    switch (flat.kind) {
      case ForwardTensor::Kind::kMutatedInput:
        return {flat.kind, input_owners_[At(flat.index)]};
      case ForwardTensor::Kind::kOutput:
        return {flat.kind, output_owners_[At(flat.index)]};
      case ForwardTensor::Kind::kIntermediateBase:
        break;
    }
    return flat;
  }

  // Returns the structure of the tensor; null if it is not a wrapper.
  const WrapperMeta* WrapperOf(const ForwardTensor& tensor) const {
    switch (tensor.kind) {
      case ForwardTensor::Kind::kMutatedInput:
        return std::get_if<WrapperMeta>(&structure_.inputs[At(tensor.index)]);
      case ForwardTensor::Kind::kOutput:
        return std::get_if<WrapperMeta>(&structure_.outputs[At(tensor.index)]);
      case ForwardTensor::Kind::kIntermediateBase:
        break;
    }
    return nullptr;
  }

  void WrapTangents() {
    facts_.tangents.clear();
    if (dense_.facts().tangents.empty()) return;
    for (const ForwardTensor& source : DerivedMetadata::Of(facts_).tangent_sources) {
      TangentMeta& caller = facts_.tangents.emplace_back();
      // A wrapper without a tangent (its new content requires no grad) gets any dtype that can have
      // gradients.
      caller.expected.dtype = DType::kFloat32;
      for (const TangentMeta& tangent : dense_.facts().tangents) {
        if (OwnerOf(tangent.source) == source) caller = tangent;
      }
      caller.source = source;
      if (const WrapperMeta* wrapper = WrapperOf(source)) {
        caller.expected.sizes = wrapper->outer_sizes;
        caller.expected.strides = wrapper->outer_strides;
      }
    }
  }

  void AddStructures() {
    facts_.input_wrappers = structure_.inputs;
    std::vector<bool> is_returned(input_owners_.size());
    for (const int input : dense_.derived().mutated_inp_runtime_indices) is_returned[At(input)] = true;
    std::vector<bool> input_tangents(input_owners_.size()), output_tangents(output_owners_.size());
    for (const ForwardTensor& source : dense_.derived().tangent_sources) {
      if (source.kind == ForwardTensor::Kind::kMutatedInput) input_tangents[At(source.index)] = true;
      if (source.kind == ForwardTensor::Kind::kOutput) output_tangents[At(source.index)] = true;
    }
    const std::vector<bool> all_outputs(output_owners_.size(), true);
    const DerivedMetadata derived = DerivedMetadata::Of(facts_);
    int next = 0;
    for (const ForwardReturn& value : derived.forward_returns) {
      facts_.forward_return_wrappers.push_back(Structure("not returned", value.tensor, is_returned, all_outputs, next));
    }
    next = 0;
    for (const ForwardTensor& source : derived.tangent_sources) {
      facts_.tangent_wrappers.push_back(Structure("no gradient", source, input_tangents, output_tangents, next));
    }
    SubclassMeta meta;
    meta.fw_metadata = std::make_shared<const ViewAndMutationMeta>(dense_);
    if (facts_.is_train) meta.grad_inputs = structure_.inputs;
    facts_.subclass_meta = std::move(meta);
  }

  // Returns the structure of `tensor` over the flat tensors that `inputs` or `outputs` marks as
  // present.
  FlatMeta Structure(absl::string_view absent, const ForwardTensor& tensor, const std::vector<bool>& inputs,
                     const std::vector<bool>& outputs, int& next) const {
    const WrapperMeta* wrapper = WrapperOf(tensor);
    if (wrapper == nullptr) return PlainTensorMeta{.flat_index = next++, .expected = {}};
    const bool is_input = tensor.kind == ForwardTensor::Kind::kMutatedInput;
    const std::vector<int>& owners = is_input ? input_owners_ : output_owners_;
    const auto first = std::find(owners.begin(), owners.end(), tensor.index) - owners.begin();
    return Renumbering(absent, next, static_cast<int>(first), is_input ? inputs : outputs).Of(*wrapper);
  }

  // Renames signature entries of flat inputs to the caller's inputs, each once; values are PREFIX +
  // target.
  template <typename Owner, typename Outputs>
  static void Rename(absl::string_view prefix, const Owner& owner_of, Outputs& outputs) {
    Outputs renamed;
    std::set<std::string> targets;
    for (const auto& output : outputs) {
      const std::string target = owner_of(output.target());
      if (!targets.insert(target).second) continue;
      auto& one = *renamed.Add();
      one.set_target(target);
      one.set_output(absl::StrCat(prefix, target));
    }
    outputs = std::move(renamed);
  }

  void WrapSignature() {
    GraphSignature& signature = *method_.mutable_signature();
    signature.mutable_user_inputs()->Assign(input_names_.begin(), input_names_.end());
    signature.mutable_user_outputs()->Assign(output_names_.begin(), output_names_.end());
    *signature.mutable_in_spec() = TreeSpec::FlatTuple(static_cast<int>(input_names_.size())).ToProto();
    *signature.mutable_out_spec() = TreeSpec::FlatTuple(static_cast<int>(output_names_.size())).ToProto();
    absl::flat_hash_map<std::string, std::string> names;
    for (size_t k = 0; k < flat_input_names_.size(); ++k) {
      names.emplace(flat_input_names_[k], input_names_[At(input_owners_[k])]);
    }
    const auto owner_of = [&](const std::string& name) { return names.contains(name) ? names.at(name) : name; };
    Rename("gradient.", owner_of, *signature.mutable_gradients_to_user_inputs());
    Rename("mutated.", owner_of, *signature.mutable_user_inputs_to_mutate());
  }

  const WrapperStructure& structure_;
  Method& method_;
  const std::vector<int> input_owners_;   // by flat input
  const std::vector<int> output_owners_;  // by flat output
  const std::vector<std::string> input_names_;
  const std::vector<std::string> output_names_;
  const std::vector<std::string> flat_input_names_;
  const std::vector<std::string> flat_output_names_;
  ViewAndMutationMeta dense_;        // metadata of the flat function
  ViewAndMutationMetaFields facts_;  // metadata of the caller's function
};

// Renames values with the name of a flat result, PREFIX + "output.2", after the caller's results:
// PREFIX + "output.1.scale".
void RenameOutputs(const WrapperStructure& structure, absl::string_view prefix,
                   google::protobuf::RepeatedPtrField<std::string>& names) {
  const std::vector<std::string> flat = FlatNames(structure.outputs, OutputNames(structure));
  absl::flat_hash_map<std::string, std::string> renamed;
  for (size_t k = 0; k < flat.size(); ++k) {
    renamed.emplace(absl::StrCat(prefix, "output.", k), absl::StrCat(prefix, flat[k]));
  }
  for (std::string& name : names) {
    if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
  }
}

bool HasWrappers(const WrapperStructure& structure) {
  return cotan::HasWrappers(structure.inputs) || cotan::HasWrappers(structure.outputs);
}

}  // namespace

std::vector<std::string> InputNames(const WrapperStructure& structure) {
  return Names("input.", structure.inputs.size());
}

std::vector<std::string> OutputNames(const WrapperStructure& structure) {
  return Names("output.", structure.outputs.size());
}

absl::Status WrapForward(const WrapperStructure& structure, Method& method) {
  if (!HasWrappers(structure)) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Wrapping(structure, method).Run());
  RenameOutputs(structure, "", *method.mutable_output_names());
  return absl::OkStatus();
}

void WrapBackward(const WrapperStructure& structure, Method& method) {
  if (HasWrappers(structure)) RenameOutputs(structure, "tangent.", *method.mutable_input_names());
}

}  // namespace cotan::aot
