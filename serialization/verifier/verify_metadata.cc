// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_metadata.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/metadata/view_geometry.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::State;

// Returns whether all symbols in `value` are below s<num_symbols>.
bool UsesOnlySymbols(const SymInt& value, int num_symbols) {
  if (value.kind() == SymInt::Kind::kConstant) return true;
  if (value.kind() == SymInt::Kind::kSymbol) return value.symbol() < num_symbols;
  return UsesOnlySymbols(value.lhs(), num_symbols) && UsesOnlySymbols(value.rhs(), num_symbols);
}

class MethodCheck {
 public:
  MethodCheck(const Artifact& artifact, const Method& method)
      : artifact_(artifact), method_(method), num_arguments_(NumArguments(artifact, method)) {}

  absl::Status Run() {
    COTAN_RETURN_IF_ERROR(In("metadata", Parse(&ViewAndMutationMeta::FromProto, method_.metadata(), metadata_)));
    COTAN_RETURN_IF_ERROR(In("signature", Parse(&GraphSignature::FromProto, method_.signature(), signature_)));
    // Programs take and return flat values only.
    program_ = has_wrappers() ? *metadata_.facts().subclass_meta->fw_metadata : metadata_;
    if (method_.has_program_metadata()) {
      COTAN_RETURN_IF_ERROR(
          In("program_metadata", Parse(&ViewAndMutationMeta::FromProto, method_.program_metadata(), program_)));
    }
    COTAN_RETURN_IF_ERROR(In("metadata", CheckSymbols(metadata_, method_.metadata())));
    COTAN_RETURN_IF_ERROR(In(program_field(), CheckSymbols(program_, program_proto())));
    COTAN_RETURN_IF_ERROR(ReadBinding());
    COTAN_RETURN_IF_ERROR(CheckInputUpdates());
    if (IsBackward()) return absl::OkStatus();
    if (has_signature()) COTAN_RETURN_IF_ERROR(In("signature", CheckSignature()));
    if (method_.has_metadata()) {
      COTAN_RETURN_IF_ERROR(CheckInputsWithoutGradient());
      COTAN_RETURN_IF_ERROR(CheckGradientInputs());
    }
    if (!has_metadata()) return absl::OkStatus();
    if (has_signature() || has_wrappers()) {
      COTAN_RETURN_IF_ERROR(In("metadata", metadata_.Verify(static_cast<int>(signature_.InputNames().size()),
                                                            static_cast<int>(signature_.user_outputs.size()))));
    }
    COTAN_RETURN_IF_ERROR(In(program_field(), CheckProgram()));
    COTAN_RETURN_IF_ERROR(CheckBinding());
    return CheckMutations();
  }

 private:
  bool has_metadata() const { return metadata_.num_inputs() + metadata_.num_outputs() > 0; }
  bool has_signature() const { return !(signature_ == GraphSignature()); }
  bool has_wrappers() const { return metadata_.facts().subclass_meta.has_value(); }
  absl::string_view program_field() const {
    if (method_.has_program_metadata()) return "program_metadata";
    return has_wrappers() ? "metadata.subclass_meta.fw_metadata" : "metadata";
  }
  const serialization::ViewAndMutationMeta& program_proto() const {
    if (method_.has_program_metadata()) return method_.program_metadata();
    return has_wrappers() ? method_.metadata().subclass_meta().fw_metadata() : method_.metadata();
  }

  // Prefixes an error with the name of the method's submessage.
  static absl::Status In(absl::string_view message, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(message, ".", status.message()));
  }

  template <typename Parser, typename Proto, typename T>
  static absl::Status Parse(Parser parser, const Proto& proto, T& result) {
    COTAN_ASSIGN_OR_RETURN(result, parser(proto));
    return absl::OkStatus();
  }

  bool IsBackward() const {
    for (const Method& other : artifact_.methods()) {
      if (other.backward_method() == method_.name()) return true;
    }
    return false;
  }

  absl::Status CheckGeometrySymbols(const TensorGeometry& geometry, const std::string& field) const {
    const int num_symbols = artifact_.symbols_size();
    for (const SymIntVector* list : {&geometry.sizes, &geometry.strides}) {
      for (const SymInt& value : *list) {
        if (!UsesOnlySymbols(value, num_symbols)) return UnknownSymbol(value, field);
      }
    }
    if (UsesOnlySymbols(geometry.offset, num_symbols)) return absl::OkStatus();
    return UnknownSymbol(geometry.offset, field);
  }

  absl::Status UnknownSymbol(const SymInt& value, const std::string& field) const {
    return InvalidField(field, value.ToString(), " uses a dynamic dimension beyond the artifact's ",
                        artifact_.symbols_size());
  }

  // Checks the symbols of changes of geometry of inputs.
  absl::Status CheckInputSymbols(const ViewAndMutationMetaFields& facts,
                                 const serialization::ViewAndMutationMeta& proto) const {
    for (size_t i = 0; i < facts.input_info.size(); ++i) {
      const InputAliasInfo& info = facts.input_info[i];
      const std::string field = Element("input_info", i);
      if (info.geometry_after.has_value()) {
        COTAN_RETURN_IF_ERROR(CheckGeometrySymbols(*info.geometry_after, absl::StrCat(field, ".geometry_after")));
      }
      if (info.geometry_at_entry.has_value()) {
        COTAN_RETURN_IF_ERROR(CheckGeometrySymbols(*info.geometry_at_entry, absl::StrCat(field, ".geometry_at_entry")));
      }
      const auto& steps = proto.input_info(static_cast<int>(i)).view_steps_after();
      for (int k = 0; k < steps.size(); ++k) {
        const absl::Status status = CheckViewStep(steps.Get(k), artifact_.symbols_size());
        if (!status.ok()) return InvalidField(Element(absl::StrCat(field, ".view_steps_after"), k), status.message());
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSymbols(const ViewAndMutationMeta& metadata,
                            const serialization::ViewAndMutationMeta& proto) const {
    const ViewAndMutationMetaFields& facts = metadata.facts();
    COTAN_RETURN_IF_ERROR(CheckInputSymbols(facts, proto));
    for (size_t i = 0; i < facts.output_info.size(); ++i) {
      const OutputAliasInfo& info = facts.output_info[i];
      const std::string field = Element("output_info", i);
      if (info.geometry.has_value()) {
        COTAN_RETURN_IF_ERROR(CheckGeometrySymbols(*info.geometry, absl::StrCat(field, ".geometry")));
      }
      if (info.non_alias_view.has_value() && info.non_alias_view->hidden_geometry.has_value()) {
        COTAN_RETURN_IF_ERROR(CheckGeometrySymbols(*info.non_alias_view->hidden_geometry,
                                                   absl::StrCat(field, ".non_alias_view.hidden_geometry")));
      }
      const auto& steps = proto.output_info(static_cast<int>(i)).view_steps();
      for (int k = 0; k < steps.size(); ++k) {
        const absl::Status status = CheckViewStep(steps.Get(k), artifact_.symbols_size());
        if (!status.ok()) return InvalidField(Element(absl::StrCat(field, ".view_steps"), k), status.message());
      }
      if (info.is_tensor()) continue;
      const SymInt* value = std::get_if<SymInt>(&*info.scalar);
      if (value != nullptr && !UsesOnlySymbols(*value, artifact_.symbols_size())) {
        return UnknownSymbol(*value, absl::StrCat(field, ".scalar"));
      }
    }
    for (size_t i = 0; i < facts.tangents.size(); ++i) {
      COTAN_RETURN_IF_ERROR(
          CheckGeometrySymbols(facts.tangents[i].expected, absl::StrCat(Element("tangents", i), ".expected")));
    }
    return absl::OkStatus();
  }

  // Checks that each name is the name or an alias of a state with the role.
  absl::Status CheckStates(absl::string_view field, const std::vector<std::string>& names, State::Role role) const {
    absl::flat_hash_set<absl::string_view> known;
    for (const State& state : artifact_.states()) {
      if (state.role() != role) continue;
      known.insert(state.name());
      known.insert(state.aliases().begin(), state.aliases().end());
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (known.contains(names[i])) continue;
      return InvalidField(Element(field, i), "\"", names[i], "\" is not a state of the artifact with ",
                          "the role of a ", role == State::PARAMETER ? "parameter" : "buffer");
    }
    return absl::OkStatus();
  }

  absl::Status CheckSignature() const {
    COTAN_RETURN_IF_ERROR(CheckStates("parameters", signature_.parameters, State::PARAMETER));
    COTAN_RETURN_IF_ERROR(CheckStates("buffers", signature_.buffers, State::BUFFER));
    // Duplicates and views of a base are not inputs of the method; the parts of wrappers are, instead of
    // the wrappers.
    if (method_.has_input_binding() || has_wrappers() ||
        signature_.user_inputs.size() == static_cast<size_t>(num_arguments_)) {
      return absl::OkStatus();
    }
    return InvalidField("user_inputs", signature_.user_inputs.size(), " names, but the method has ", num_arguments_,
                        " inputs");
  }

  absl::Status CheckInputsWithoutGradient() const {
    const std::vector<int> inputs(method_.no_grad_view_inputs().begin(), method_.no_grad_view_inputs().end());
    const int num_inputs = has_wrappers() ? program_.num_inputs() : metadata_.num_inputs();
    return CheckAscending("no_grad_view_inputs", inputs, num_inputs, "inputs");
  }

  absl::Status CheckGradientInputs() const {
    for (const Method& backward : artifact_.methods()) {
      if (backward.name() != method_.backward_method()) continue;
      const int count = backward.gradient_inputs_size();
      if (count != 0 && count != backward.outputs_size()) {
        return InvalidField("gradient_inputs", count, " entries, but the method \"", backward.name(), "\" returns ",
                            backward.outputs_size(), " gradients");
      }
      for (int i = 0; i < count; ++i) {
        COTAN_RETURN_IF_ERROR(CheckIndex(Element("gradient_inputs", static_cast<size_t>(i)),
                                         backward.gradient_inputs(i), program_.num_inputs(), "inputs"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckProgram() const {
    COTAN_RETURN_IF_ERROR(CheckReturns());
    COTAN_RETURN_IF_ERROR(CheckBufferUpdates());
    return CheckBackwardInputs();
  }

  int NumBases() const { return static_cast<int>(method_.input_binding().num_bases()); }

  // Returns the metadata of the traced function over flat values.
  const ViewAndMutationMeta& flat() const {
    return has_wrappers() ? *metadata_.facts().subclass_meta->fw_metadata : metadata_;
  }

  int NumSignatureStates() const { return static_cast<int>(signature_.parameters.size() + signature_.buffers.size()); }

  absl::Status ReadBinding() {
    COTAN_ASSIGN_OR_RETURN(binding_, InputBinding::FromProto(method_.input_binding(), "input_binding"));
    if (binding_.is_identity() || !has_metadata()) return absl::OkStatus();
    return binding_.Validate("input_binding", flat().num_inputs());
  }

  // Checks that the binding makes the program's arguments of the inputs, and that those that are not states are the
  // method's inputs.
  absl::Status CheckBinding() const {
    const int num_inputs = flat().num_inputs();
    if (num_inputs < NumSignatureStates()) {
      return InvalidField(
          absl::StrCat(has_wrappers() ? "metadata.subclass_meta.fw_metadata" : "metadata", ".input_info"), num_inputs,
          " entries for ", NumSignatureStates(), " parameters and buffers");
    }
    if (binding_.NumArguments(num_inputs) != program_.num_inputs()) {
      return InvalidField(absl::StrCat(program_field(), ".input_info"), program_.num_inputs(),
                          " entries, but the binding makes ", binding_.NumArguments(num_inputs), " arguments");
    }
    const int num_others = program_.num_inputs() - NumStateArguments();
    if (num_others == num_arguments_) return absl::OkStatus();
    return InvalidField(absl::StrCat(program_field(), ".input_info"), program_.num_inputs(), " entries, ",
                        NumStateArguments(), " of them parameters and buffers, but the method has ", num_arguments_,
                        " inputs");
  }

  // Returns the number of program arguments that are parameters or buffers of the signature.
  int NumStateArguments() const {
    const std::vector<int> kept = binding_.KeptInputs(flat().num_inputs());
    int count = 0;
    for (size_t u = 0; u < kept.size(); ++u) {
      const bool is_argument =
          !binding_.has_bases() || std::holds_alternative<InputBinding::Argument>(binding_.inner_inputs[u]);
      if (is_argument && kept[u] < NumSignatureStates()) ++count;
    }
    return count;
  }

  // Checks that mutations of inputs are completely described. Duplicates are mutated through their original.
  absl::Status CheckMutations() const {
    const std::vector<bool> is_kept = binding_.KeepArgMask(flat().num_inputs());
    for (int i = 0; i < flat().num_inputs(); ++i) {
      const InputAliasInfo& info = flat().input(i);
      const std::string field = absl::StrCat("metadata.", Element("input_info", static_cast<size_t>(i)));
      const bool requires_grad = info.requires_grad_at_entry.value_or(info.requires_grad);
      if (info.history == GradFnChange::kNewLeaf && requires_grad) {
        return InvalidField(absl::StrCat(field, ".history"), "is NEW_LEAF, but the input requires grad at entry");
      }
      if (!is_kept[static_cast<size_t>(i)]) continue;
      const bool is_changed = info.mutates_metadata || info.mutates_storage_metadata;
      if (is_changed && !info.geometry_after.has_value()) {
        return InvalidField(absl::StrCat(field, ".geometry_after"), "must be set, as the metadata is mutated");
      }
      if (!info.mutates_storage_metadata) continue;
      if (!info.new_storage.has_value()) {
        return InvalidField(absl::StrCat(field, ".new_storage"), "must be set, as the storage is mutated");
      }
      if (info.new_storage->owner != NewStorage::Owner::kProgram || SetsStorage(i)) continue;
      return InvalidField("input_updates", "none sets the storage of input ", i, ", which gets a new one");
    }
    return absl::OkStatus();
  }

  // Returns whether the method returns the content of the new storage of `input`.
  bool SetsStorage(int input) const {
    const std::vector<int> kept = binding_.KeptInputs(flat().num_inputs());
    const auto unique = static_cast<size_t>(std::find(kept.begin(), kept.end(), input) - kept.begin());
    int argument = static_cast<int>(unique);
    if (binding_.has_bases()) {
      const auto* bound = std::get_if<InputBinding::Argument>(&binding_.inner_inputs[unique]);
      if (bound == nullptr) return false;
      argument = bound->index;
    }
    if (IsState(argument)) return false;
    const auto target = static_cast<uint32_t>(argument < NumBases() ? argument : argument - NumStates());
    return std::any_of(method_.input_updates().begin(), method_.input_updates().end(),
                       [target](const serialization::InputUpdate& update) {
                         return update.input() == target && update.sets_storage();
                       });
  }

  // Inputs of the program that are states come after its bases and before its other inputs.
  int NumStates() const { return program_.num_inputs() - num_arguments_; }
  bool IsState(int input) const { return input >= NumBases() && input < NumBases() + NumStates(); }

  // Returns the forward returns that are outputs of the method: tensors that the runtime does not make from
  // a base and that are not states.
  std::vector<ForwardTensor> ReturnedTensors() const {
    std::vector<ForwardTensor> returned;
    for (const ForwardReturn& value : program_.derived().forward_returns) {
      if (value.is_tensor_alias) continue;
      const ForwardTensor& tensor = value.tensor;
      if (tensor.kind == ForwardTensor::Kind::kMutatedInput && IsState(tensor.index)) continue;
      if (tensor.kind == ForwardTensor::Kind::kOutput && !program_.output(tensor.index).is_tensor()) continue;
      returned.push_back(tensor);
    }
    return returned;
  }

  int NumGradients() const {
    if (!signature_.backward_signature.has_value()) return 0;
    return static_cast<int>(signature_.backward_signature->gradients_to_parameters.size() +
                            signature_.backward_signature->gradients_to_user_inputs.size());
  }

  absl::Status CheckReturns() const {
    const ViewAndMutationMetaFields& facts = program_.facts();
    if (NumStates() < 0) {
      return InvalidField("input_info", program_.num_inputs(), " entries, but the method has ", num_arguments_,
                          " inputs");
    }
    const uint32_t num_saved = method_.num_saved();
    if (facts.saved.has_value() && num_saved != static_cast<uint32_t>(facts.saved->num_tensors)) {
      return InvalidField("saved.num_tensors", facts.saved->num_tensors, ", but the method saves ", num_saved);
    }
    const std::vector<ForwardTensor> returned = ReturnedTensors();
    const int64_t expected = static_cast<int64_t>(returned.size()) + num_saved;
    const int64_t outputs = method_.outputs_size();
    // A method that computes gradients without a separate backward may return them as well.
    if (outputs != expected && outputs != expected + NumGradients()) {
      return InvalidField("output_info", "the method returns ", outputs, " values instead of ", returned.size(),
                          " written-back inputs, outputs and intermediate bases, and ", num_saved, " saved tensors");
    }
    for (size_t i = 0; i < returned.size(); ++i) {
      const uint32_t value = method_.outputs(static_cast<int>(i));
      COTAN_RETURN_IF_ERROR(CheckReturnedValue(returned[i], method_.values(static_cast<int>(value)).type()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckReturnedValue(const ForwardTensor& tensor, const serialization::TensorType& type) const {
    if (tensor.kind != ForwardTensor::Kind::kOutput) return absl::OkStatus();
    const OutputAliasInfo& info = program_.output(tensor.index);
    const std::string field = Element("output_info", static_cast<size_t>(tensor.index));
    COTAN_RETURN_IF_ERROR(CheckAscending(absl::StrCat(field, ".dynamic_dims"), info.dynamic_dims, type.sizes_size(),
                                         "dimensions of the output"));
    if (!info.geometry.has_value()) return absl::OkStatus();
    if (info.geometry->rank() == type.sizes_size() &&
        static_cast<int>(info.geometry->dtype) == static_cast<int>(type.dtype())) {
      return absl::OkStatus();
    }
    return InvalidField(absl::StrCat(field, ".geometry"), info.geometry->ToString(),
                        " differs in dtype or rank from the value that the method returns");
  }

  // Checks that no input is updated twice and that a forward updates the inputs that its metadata lists.
  absl::Status CheckInputUpdates() const {
    std::vector<bool> updated(static_cast<size_t>(num_arguments_));
    for (int i = 0; i < method_.input_updates_size(); ++i) {
      const uint32_t input = method_.input_updates(i).input();
      const std::string field = absl::StrCat(Element("input_updates", static_cast<size_t>(i)), ".input");
      if (input >= updated.size()) {
        return InvalidField(field, input, " is out of range: there are ", updated.size(), " inputs of the method");
      }
      if (updated[input]) return InvalidField(field, input, " is updated twice");
      updated[input] = true;
    }
    if (IsBackward() || !has_metadata()) return absl::OkStatus();
    for (int i : program_.derived().mutated_graph_handled_indices) {
      if (IsState(i)) continue;
      const size_t input = static_cast<size_t>(i < NumBases() ? i : i - NumStates());
      if (input >= updated.size() || !updated[input]) {
        return InvalidField("input_updates", "input ", i,
                            " is mutated by the program, but the method does not update it");
      }
      updated[input] = false;
    }
    for (size_t i = 0; i < updated.size(); ++i) {
      if (updated[i]) {
        return InvalidField("input_updates", "the method updates its input ", i, ", which the metadata does not say");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBufferUpdates() const {
    absl::flat_hash_set<absl::string_view> updated;
    for (const serialization::StateUpdate& update : method_.state_updates()) {
      const State& state = artifact_.states(static_cast<int>(update.state()));
      if (state.role() != State::BUFFER) continue;
      updated.insert(state.name());
      updated.insert(state.aliases().begin(), state.aliases().end());
    }
    const size_t first = signature_.parameters.size();
    for (size_t k = 0; k < signature_.buffers.size(); ++k) {
      const bool is_mutated = program_.input(NumBases() + static_cast<int>(first + k)).mutates_data;
      const std::string& name = signature_.buffers[k];
      if (is_mutated == updated.contains(name)) continue;
      return InvalidField(
          absl::StrCat(Element("input_info", first + k), ".mutates_data"), "buffer \"", name, "\" is ",
          is_mutated ? "mutated, but the method does not update it" : "not mutated, but the method updates it");
    }
    return absl::OkStatus();
  }

  absl::Status CheckBackwardInputs() const {
    if (method_.backward_method().empty() || program_.facts().tangents.empty()) {
      return absl::OkStatus();
    }
    const auto num_tangents = static_cast<int64_t>(program_.facts().tangents.size());
    for (const Method& other : artifact_.methods()) {
      if (other.name() != method_.backward_method()) continue;
      const int64_t num_others = other.inputs_size() - int64_t{method_.num_saved()} - num_tangents;
      if (num_others == 0) continue;
      if (num_tangents > 1 && num_others == num_tangents) {
        COTAN_RETURN_IF_ERROR(CheckTangentFlags(other));
        continue;
      }
      return InvalidField("tangents", "the method \"", other.name(), "\" takes ", other.inputs_size(),
                          " inputs instead of ", method_.num_saved(), " saved tensors and ",
                          program_.facts().tangents.size(), " tangents");
    }
    return absl::OkStatus();
  }

  // Checks the trailing inputs, one for each tangent, which say whether it is defined.
  absl::Status CheckTangentFlags(const Method& backward) const {
    const auto num_tangents = static_cast<int>(program_.facts().tangents.size());
    for (int i = backward.inputs_size() - num_tangents; i < backward.inputs_size(); ++i) {
      const serialization::TensorType& type = backward.values(static_cast<int>(backward.inputs(i))).type();
      if (type.dtype() == serialization::DTYPE_BOOL && type.sizes().empty()) continue;
      return InvalidField("tangents", "input ", i, " of the method \"", backward.name(),
                          "\" says whether a tangent is defined, but is not bool[]");
    }
    return absl::OkStatus();
  }

  const Artifact& artifact_;
  const Method& method_;
  const int num_arguments_;       // inputs that the caller gives
  ViewAndMutationMeta metadata_;  // the caller's
  ViewAndMutationMeta program_;
  GraphSignature signature_;
  InputBinding binding_;
};

}  // namespace

absl::Status VerifyMetadata(const Artifact& artifact, const Method& method) {
  return MethodCheck(artifact, method).Run();
}

}  // namespace cotan
