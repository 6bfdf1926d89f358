#include "aot/wrap_method.h"

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
#include "serialization/derived_metadata.h"
#include "serialization/view_and_mutation_meta.h"

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

// To each flat value the tensor that it belongs to.
std::vector<int> OwnersOf(const std::vector<FlatMeta>& metas) {
  std::vector<int> owners;
  for (size_t i = 0; i < metas.size(); ++i) {
    owners.insert(owners.end(), static_cast<size_t>(FlatCount(metas[i])), static_cast<int>(i));
  }
  return owners;
}

// The same structure over flat values from `next` on; `is_there` tells of each
// tensor in it, by its position from 0, whether it is a flat value at all.
class Renumbering {
 public:
  Renumbering(int& next, int position, const std::vector<bool>& is_there)
      : next_(next), position_(position), is_there_(is_there) {}

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
        attribute.value = OpaqueMeta{.type_name = "no gradient", .content = ""};
      }
    }
    result.flat_count = next_ - result.flat_start;
    // Which attributes are left says nothing of the geometry.
    result.outer_sizes_from_attribute.clear();
    result.outer_strides_from_attribute.clear();
    return result;
  }

  int& next_;
  int position_;
  const std::vector<bool>& is_there_;
};

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
    COTAN_RETURN_IF_ERROR(WrapOutputs());
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
    int flat = 0;
    for (const FlatMeta& meta : structure_.inputs) {
      InputAliasInfo all = dense_.input(flat);
      const int end = flat + FlatCount(meta);
      for (; flat < end; ++flat) {
        const InputAliasInfo& part = dense_.input(flat);
        if (IsWrapper(meta) && part.is_mutated()) {
          return absl::UnimplementedError(
              absl::StrCat("'", flat_input_names_[At(flat)],
                           "' is written to: parts of wrappers may only be read; clone() it before"));
        }
        const bool at_entry = part.requires_grad_at_entry.value_or(part.requires_grad);
        const bool any_at_entry = all.requires_grad_at_entry.value_or(all.requires_grad) || at_entry;
        all.is_leaf = all.is_leaf && part.is_leaf;
        if (IsWrapper(meta)) all.history = InputHistory::kUnspecified;
        all.requires_grad = all.requires_grad || part.requires_grad;
        all.requires_grad_at_entry.reset();
        if (any_at_entry != all.requires_grad) all.requires_grad_at_entry = any_at_entry;
      }
      facts_.input_info.push_back(std::move(all));
    }
    return absl::OkStatus();
  }

  absl::Status WrapOutputs() {
    facts_.output_info.clear();
    int flat = 0;
    for (const FlatMeta& meta : structure_.outputs) {
      const int first = flat;
      flat += FlatCount(meta);
      COTAN_ASSIGN_OR_RETURN(OutputAliasInfo info, IsWrapper(meta) ? WrapperOutput(first, flat) : PlainOutput(first));
      facts_.output_info.push_back(std::move(info));
    }
    return absl::OkStatus();
  }

  absl::Status SharesMemory(int flat_output) const {
    return absl::UnimplementedError(absl::StrCat("'", flat_output_names_[At(flat_output)],
                                                 "' shares memory with other results: clone() parts of wrappers"));
  }

  // Of indexes into the flat inputs and outputs, those of the caller's.
  absl::StatusOr<OutputAliasInfo> PlainOutput(int flat) const {
    OutputAliasInfo info = dense_.output(flat);
    if (IsAliasOfInput(info.output_type) || (info.base_index.has_value() && IsFreshMemory(info.output_type))) {
      const int base = *info.base_index;
      if (IsPartOfInput(base) && info.output_type == OutputType::kIsInput) {
        info.output_type = OutputType::kAliasOfInput;
      }
      info.base_index = input_owners_[At(base)];
    } else if (info.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput) {
      if (IsPartOfOutput(*info.base_index)) return SharesMemory(*info.base_index);
      info.base_index = output_owners_[At(*info.base_index)];
    }
    if (info.fresh_view.has_value() && !info.fresh_view->is_hidden) {
      if (IsPartOfOutput(info.fresh_view->base)) {
        info.fresh_view.reset();
      } else {
        info.fresh_view->base = output_owners_[At(info.fresh_view->base)];
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

  // A wrapper is a new object over its parts, unless it is an input as it came.
  absl::StatusOr<OutputAliasInfo> WrapperOutput(int first, int end) const {
    OutputAliasInfo info;
    info.output_type = OutputType::kNonAlias;
    bool has_tangent = false;
    for (int flat = first; flat < end; ++flat) {
      const OutputAliasInfo& part = dense_.output(flat);
      if (IsAliasOfIntermediate(part.output_type)) return SharesMemory(flat);
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

  // The input whose parts the flat outputs are.
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
    // Of parts, the flat function tells.
    facts_.indices_of_inputs_to_detach = CallerInputs(dense_.facts().indices_of_inputs_to_detach, /*with_parts=*/false);
  }

  bool HasTangent(int flat_output) const { return dense_.output(flat_output).has_tangent(); }

  void WrapTangents() {
    facts_.tangents.clear();
    if (dense_.facts().tangents.empty()) return;
    std::set<int> wrappers;  // outputs
    for (const TangentMeta& tangent : dense_.facts().tangents) {
      TangentMeta caller = tangent;
      if (tangent.source.kind == ForwardTensor::Kind::kMutatedInput) {
        caller.source.index = input_owners_[At(tangent.source.index)];
      } else if (tangent.source.kind == ForwardTensor::Kind::kOutput) {
        caller.source.index = output_owners_[At(tangent.source.index)];
        const auto* wrapper = std::get_if<WrapperMeta>(&structure_.outputs[At(caller.source.index)]);
        if (wrapper != nullptr && !wrappers.insert(caller.source.index).second) continue;
        if (wrapper != nullptr) {
          caller.expected.sizes = wrapper->outer_sizes;
          caller.expected.strides = wrapper->outer_strides;
        }
      }
      facts_.tangents.push_back(std::move(caller));
    }
  }

  void AddStructures() {
    facts_.input_wrappers = structure_.inputs;
    const std::vector<bool> all_inputs(input_owners_.size(), true);
    const std::vector<bool> all_outputs(output_owners_.size(), true);
    std::vector<bool> with_tangent;
    for (int i = 0; i < dense_.num_outputs(); ++i) with_tangent.push_back(HasTangent(i));
    const DerivedMetadata derived = DerivedMetadata::Of(facts_);
    int next = 0;
    for (const ForwardReturn& value : derived.forward_returns) {
      facts_.forward_return_wrappers.push_back(Structure(value.tensor, all_outputs, next));
    }
    next = 0;
    for (const ForwardTensor& source : derived.tangent_sources) {
      facts_.tangent_wrappers.push_back(Structure(source, with_tangent, next));
    }
    SubclassMeta meta;
    meta.fw_metadata = std::make_shared<const ViewAndMutationMeta>(dense_);
    if (facts_.is_train) meta.grad_inputs = structure_.inputs;
    facts_.subclass_meta = std::move(meta);
  }

  FlatMeta Structure(const ForwardTensor& tensor, const std::vector<bool>& is_there, int& next) const {
    if (tensor.kind != ForwardTensor::Kind::kOutput) return PlainTensorMeta{.flat_index = next++, .expected = {}};
    const auto first = std::find(output_owners_.begin(), output_owners_.end(), tensor.index) - output_owners_.begin();
    return Renumbering(next, static_cast<int>(first), is_there).Of(structure_.outputs[At(tensor.index)]);
  }

  void WrapSignature() {
    GraphSignature& signature = *method_.mutable_signature();
    signature.mutable_user_inputs()->Assign(input_names_.begin(), input_names_.end());
    signature.mutable_user_outputs()->Assign(output_names_.begin(), output_names_.end());
    absl::flat_hash_map<std::string, std::string> names;
    for (size_t k = 0; k < flat_input_names_.size(); ++k) {
      names.emplace(flat_input_names_[k], input_names_[At(input_owners_[k])]);
    }
    google::protobuf::RepeatedPtrField<GraphSignature::Gradient> gradients;
    std::set<std::string> targets;
    for (const GraphSignature::Gradient& gradient : signature.gradients_to_user_inputs()) {
      const std::string target = names.contains(gradient.target()) ? names.at(gradient.target()) : gradient.target();
      if (!targets.insert(target).second) continue;
      GraphSignature::Gradient& wrapped = *gradients.Add();
      wrapped.set_target(target);
      wrapped.set_output(absl::StrCat("gradient.", target));
    }
    *signature.mutable_gradients_to_user_inputs() = std::move(gradients);
  }

  const WrapperStructure& structure_;
  Method& method_;
  const std::vector<int> input_owners_;   // by flat input
  const std::vector<int> output_owners_;  // by flat output
  const std::vector<std::string> input_names_;
  const std::vector<std::string> output_names_;
  const std::vector<std::string> flat_input_names_;
  const std::vector<std::string> flat_output_names_;
  ViewAndMutationMeta dense_;   // of the flat function
  ViewAndMutationFacts facts_;  // of the caller's
};

// Values called after flat results, "output.2" with `prefix`, are called after
// those of the caller: "output.1.scale".
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
