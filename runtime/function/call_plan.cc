// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/call_plan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/function/call_plan_text.h"
#include "runtime/function/call_stages.h"
#include "runtime/function/synthetic_bases.h"
#include "runtime/session/tangent_flags.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/expr_inputs.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

using serialization::Method;

// Returns the layout of a geometry without dynamic dimensions, nullopt for others.
std::optional<StridedLayout> ConstantLayout(const TensorGeometry& geometry) {
  const absl::StatusOr<StridedLayout> layout = EvaluateLayout(geometry, {});
  return layout.ok() ? std::make_optional(*layout) : std::nullopt;
}

// Builds a CallPlan: Read() parses the metadata, the other steps fill the plan's sections.
class PlanMaker {
 public:
  PlanMaker(const Program& program, int method) : program_(program), method_(program.method(method)) {
    plan_.method = method;
    plan_.name = method_.name();
    plan_.node_name = absl::StrCat("CompiledBackward('", plan_.name, "')");
  }

  absl::StatusOr<CallPlan> Make() {
    COTAN_RETURN_IF_ERROR(Read());
    COTAN_RETURN_IF_ERROR(AddInputs());
    COTAN_RETURN_IF_ERROR(BindArguments());
    COTAN_RETURN_IF_ERROR(PairBackward());
    COTAN_RETURN_IF_ERROR(AddReturns());
    AddStateUpdates();
    AddSaved();
    COTAN_RETURN_IF_ERROR(AddMutations());
    AddPlacements();
    AddOutputs();
    AddStages();
    return std::move(plan_);
  }

 private:
  absl::Status MetadataError(absl::string_view what) const {
    return absl::FailedPreconditionError(
        absl::StrCat("method '", plan_.name, "' ", what, ": compile the model again, or use Session::Run()"));
  }

  // Returns InvalidArgument for metadata that the compiler never writes.
  template <typename... Parts>
  absl::Status Contradicts(const Parts&... parts) const {
    return absl::InvalidArgumentError(
        absl::StrCat("method '", plan_.name, "': ", parts...,
                     "; the file is damaged or was written incorrectly: compile the model again"));
  }

  absl::Status Read() {
    for (const Method& other : program_.artifact().methods()) {
      if (other.backward_method() != plan_.name) continue;
      return absl::InvalidArgumentError(absl::StrCat("method '", plan_.name, "' is the backward of '", other.name(),
                                                     "', which is the function to call"));
    }
    if (!method_.has_metadata()) return MetadataError("has no metadata of aliases and mutations");
    COTAN_ASSIGN_OR_RETURN(metadata_, ViewAndMutationMeta::FromProto(method_.metadata()));
    COTAN_ASSIGN_OR_RETURN(signature_, GraphSignature::FromProto(method_.signature()));
    argument_names_ = signature_.user_inputs;
    if (metadata_.facts().subclass_meta.has_value()) COTAN_RETURN_IF_ERROR(ReadWrappers());
    program_metadata_ = metadata_;
    if (method_.has_program_metadata()) {
      COTAN_ASSIGN_OR_RETURN(program_metadata_, ViewAndMutationMeta::FromProto(method_.program_metadata()));
    }
    COTAN_ASSIGN_OR_RETURN(binding_, InputBinding::FromProto(method_.input_binding(), "input_binding"));
    if (!binding_.is_identity()) {
      COTAN_RETURN_IF_ERROR(binding_.Validate("input_binding", metadata_.num_inputs()));
    }
    plan_.is_train = metadata_.facts().is_train;
    plan_.traced_without_grad = method_.traced_without_grad();
    for (uint32_t input : method_.no_grad_view_inputs()) {
      plan_.no_grad_view_inputs.push_back(static_cast<int>(input));
    }
    plan_.deterministic = metadata_.facts().deterministic;
    plan_.grad_mode_after = metadata_.facts().grad_enabled_mutation;
    plan_.num_caller_outputs = metadata_.num_outputs();
    return absl::OkStatus();
  }

  // Reads the wrapper types of arguments and results, then replaces metadata_ by that of the flat function.
  absl::Status ReadWrappers() {
    const ViewAndMutationMetaFields& facts = metadata_.facts();
    const size_t num_states = signature_.parameters.size() + signature_.buffers.size();
    plan_.has_wrappers = true;
    std::vector<FlatMeta> metas = facts.input_wrappers;
    if (metas.empty()) metas.resize(facts.input_info.size());  // all are plain tensors
    if (metas.size() != num_states + signature_.user_inputs.size()) {
      return Contradicts("metadata.input_wrappers: ", metas.size(), " entries for ", num_states,
                         " parameters and buffers and ", signature_.user_inputs.size(), " user inputs");
    }
    metas.erase(metas.begin(), metas.begin() + static_cast<std::ptrdiff_t>(num_states));
    for (size_t i = 0; i < metas.size(); ++i) plan_.wrapped_arguments.push_back({signature_.user_inputs[i], metas[i]});
    argument_names_ = FlatNames(metas, signature_.user_inputs);

    const size_t first = metadata_.derived().mutated_inp_runtime_indices.size();
    plan_.wrapped_outputs.resize(facts.output_info.size());  // plain by default
    if (!facts.forward_return_wrappers.empty()) {
      std::copy_n(facts.forward_return_wrappers.begin() + static_cast<std::ptrdiff_t>(first),
                  plan_.wrapped_outputs.size(), plan_.wrapped_outputs.begin());
    }
    const ViewAndMutationMeta flat = *facts.subclass_meta->fw_metadata;
    metadata_ = flat;
    return absl::OkStatus();
  }

  // --- arguments ------------------------------------------------------------

  absl::Status AddInputs() {
    std::vector<std::string> states = signature_.parameters;
    states.insert(states.end(), signature_.buffers.begin(), signature_.buffers.end());
    plan_.num_states = static_cast<int>(states.size());
    plan_.num_arguments = metadata_.num_inputs() - plan_.num_states;
    if (plan_.num_arguments < 0) {
      return Contradicts("metadata.input_info: ", metadata_.num_inputs(), " entries for ", plan_.num_states,
                         " parameters and buffers");
    }
    for (int i = 0; i < metadata_.num_inputs(); ++i) {
      const InputAliasInfo& info = metadata_.input(i);
      CallPlan::Input input;
      input.requires_grad = info.requires_grad_at_entry.value_or(info.requires_grad);
      input.requires_grad_at_exit = info.requires_grad;
      if (i < plan_.num_states) {
        input.name = states[static_cast<size_t>(i)];
        COTAN_ASSIGN_OR_RETURN(input.state, program_.FindState(input.name));
      } else {
        input.name = ArgumentName(i - plan_.num_states);
      }
      plan_.inputs.push_back(std::move(input));
    }
    return absl::OkStatus();
  }

  std::string ArgumentName(int argument) const {
    const auto at = static_cast<size_t>(argument);
    if (at < argument_names_.size()) return argument_names_[at];
    // Without a binding, method inputs and user arguments correspond, and so do their names.
    return method_.has_input_binding() ? absl::StrCat("input.", argument) : program_.InputName(method_, argument);
  }

  int num_inputs() const { return metadata_.num_inputs(); }
  // Returns the number of the input among the unique inputs.
  int UniqueOf(int input) const {
    return binding_.has_duplicates() ? binding_.add_dupe_map[static_cast<size_t>(input)] : input;
  }

  // AOTDedupeWrapper and AOTSyntheticBaseWrapper: maps inputs to program arguments and these to method inputs.
  absl::Status BindArguments() {
    const std::vector<int> kept = binding_.KeptInputs(num_inputs());
    for (int i = 0; i < num_inputs(); ++i) {
      const int original = kept[static_cast<size_t>(UniqueOf(i))];
      if (original != i) plan_.duplicates.push_back({i, original});
      if (!metadata_.input(i).mutates_metadata) continue;
      for (int j = 0; j < num_inputs(); ++j) {
        if (UniqueOf(i) != UniqueOf(j)) plan_.must_not_alias.push_back({i, j});
      }
    }
    if (binding_.NumArguments(num_inputs()) != program_metadata_.num_inputs()) {
      return Contradicts("program_metadata.input_info: ", program_metadata_.num_inputs(),
                         " entries, but the binding makes ", binding_.NumArguments(num_inputs()), " arguments");
    }
    plan_.argument_inputs = kept;
    if (binding_.has_bases()) AddBases(kept);
    for (int k = 0; k < static_cast<int>(plan_.argument_inputs.size()); ++k) {
      if (!IsState(k)) plan_.method_arguments.push_back(k);
    }
    if (static_cast<int>(plan_.method_arguments.size()) == method_.inputs_size()) return absl::OkStatus();
    return Contradicts("inputs: ", method_.inputs_size(), ", but the metadata has ", plan_.method_arguments.size());
  }

  void AddBases(const std::vector<int>& kept) {
    plan_.argument_inputs.assign(static_cast<size_t>(program_metadata_.num_inputs()), -1);
    for (const InputBinding::Base& traced : binding_.bases) {
      CallPlan::Base base;
      base.requires_grad = traced.requires_grad;
      base.geometry = traced.geometry;
      base.layout = ConstantLayout(base.geometry);
      plan_.bases.push_back(std::move(base));
    }
    for (size_t u = 0; u < binding_.inner_inputs.size(); ++u) {
      if (const auto* argument = std::get_if<InputBinding::Argument>(&binding_.inner_inputs[u])) {
        plan_.argument_inputs[static_cast<size_t>(argument->index)] = kept[u];
        continue;
      }
      const auto& seen = std::get<InputBinding::BaseView>(binding_.inner_inputs[u]);
      CallPlan::Base& base = plan_.bases[static_cast<size_t>(seen.base)];
      CallPlan::BaseView view;
      view.input = kept[u];
      view.geometry = seen.geometry;
      view.layout = ConstantLayout(view.geometry);
      view.made_under_no_grad = seen.detached && metadata_.input(view.input).requires_grad;
      if (!view.layout.has_value()) base.layout.reset();
      base.views.push_back(std::move(view));
    }
  }

  bool IsState(int argument) const {
    const int input = plan_.argument_inputs[static_cast<size_t>(argument)];
    return input >= 0 && input < plan_.num_states;
  }

  // Returns the program argument that is the input; -1 if the input is a duplicate or a view of a base.
  int ArgumentOf(int input) const {
    const auto found = std::find(plan_.argument_inputs.begin(), plan_.argument_inputs.end(), input);
    return found == plan_.argument_inputs.end() ? -1 : static_cast<int>(found - plan_.argument_inputs.begin());
  }

  // Returns the method input that is program argument `argument`, which is not a state.
  int MethodInputOf(int argument) const {
    const auto found = std::find(plan_.method_arguments.begin(), plan_.method_arguments.end(), argument);
    return static_cast<int>(found - plan_.method_arguments.begin());
  }

  // --- backward -------------------------------------------------------------

  absl::Status PairBackward() {
    plan_.num_tangents = program_metadata_.derived().num_tangents();
    plan_.has_detached_grad_sink = method_.backward_method().empty() && !plan_.traced_without_grad &&
                                   plan_.num_tangents > 0 &&
                                   std::none_of(plan_.inputs.begin(), plan_.inputs.end(),
                                                [](const CallPlan::Input& input) { return input.requires_grad; });
    if (method_.backward_method().empty() || !plan_.is_train) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(plan_.backward, program_.FindMethod(method_.backward_method()));
    const Method& backward = program_.method(plan_.backward);
    if (backward.gradient_inputs_size() != backward.outputs_size()) {
      return MetadataError(absl::StrCat("has a backward with ", backward.gradient_inputs_size(),
                                        " gradient_inputs for ", backward.outputs_size(), " outputs"));
    }
    plan_.takes_flags = TakesTangentFlags(backward, static_cast<int>(method_.num_saved()), plan_.num_tangents);
    for (uint32_t input : backward.gradient_inputs()) {
      plan_.gradient_inputs.push_back(static_cast<int>(input));
    }
    COTAN_RETURN_IF_ERROR(AddGradientSizes(backward));
    for (const serialization::StateRead& read : backward.state_reads()) {
      plan_.read_states.push_back(static_cast<int>(read.state()));
    }
    for (const serialization::InputUpdate& update : backward.input_updates()) {
      plan_.backward_writes.push_back(static_cast<int>(update.input()));
    }
    for (const serialization::StateUpdate& update : backward.state_updates()) {
      plan_.backward_updated_states.push_back(static_cast<int>(update.state()));
    }
    AddDependencies(backward);
    return absl::OkStatus();
  }

  // Records the gradients whose sizes are not those of the argument: a leaf whose metadata is mutated under no_grad
  // before its first use has gradients of the mutated sizes.
  absl::Status AddGradientSizes(const Method& backward) {
    plan_.gradient_sizes.resize(plan_.gradient_inputs.size());
    for (size_t m = 0; m < plan_.method_arguments.size(); ++m) {
      for (size_t i = 0; i < plan_.gradient_inputs.size(); ++i) {
        if (plan_.gradient_inputs[i] != plan_.method_arguments[m]) continue;
        const auto& read = method_.values(static_cast<int>(method_.inputs(static_cast<int>(m)))).type().sizes();
        const uint32_t gradient = backward.outputs(static_cast<int>(i));
        const auto& made = backward.values(static_cast<int>(gradient)).type().sizes();
        if (std::equal(made.begin(), made.end(), read.begin(), read.end())) continue;
        COTAN_ASSIGN_OR_RETURN(plan_.gradient_sizes[i], ParseSymInts("type.sizes", made));
      }
    }
    return absl::OkStatus();
  }

  // Computes depends_on by a forward pass over the backward's ops, in expressions by output, plus the recorded
  // structural tangents.
  void AddDependencies(const Method& backward) {
    const auto num_tangents = static_cast<size_t>(plan_.num_tangents);
    std::vector<std::vector<bool>> of_value(static_cast<size_t>(backward.values_size()),
                                            std::vector<bool>(num_tangents));
    for (size_t t = 0; t < num_tangents; ++t) {
      of_value[backward.inputs(static_cast<int>(method_.num_saved() + t))][t] = true;
    }
    for (const serialization::Op& op : backward.ops()) {
      std::vector<uint32_t> all(static_cast<size_t>(op.inputs_size()));
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint32_t>(i);
      std::vector<std::vector<uint32_t>> inputs(static_cast<size_t>(op.outputs_size()), all);
      if (op.has_expr()) inputs = InputsOfOutputs(op.expr());
      for (int output = 0; output < op.outputs_size(); ++output) {
        std::vector<bool> depends(num_tangents);
        for (const uint32_t input : inputs[static_cast<size_t>(output)]) {
          const std::vector<bool>& of_input = of_value[op.inputs(static_cast<int>(input))];
          for (size_t t = 0; t < num_tangents; ++t) depends[t] = depends[t] || of_input[t];
        }
        of_value[op.outputs(output)] = std::move(depends);
      }
    }
    for (uint32_t output : backward.outputs()) plan_.depends_on.push_back(of_value[output]);
    for (const serialization::StructuralTangents& idle : backward.structural_tangents()) {
      for (uint32_t tangent : idle.tangents()) plan_.depends_on[idle.gradient()][tangent] = true;
    }
  }

  // --- forward returns ------------------------------------------------------

  // Numbers results and tangents in the order of the program's forward returns.
  absl::Status AddReturns() {
    plan_.num_outputs = method_.outputs_size();
    plan_.num_saved = static_cast<int>(method_.num_saved());
    plan_.first_saved = plan_.num_outputs - plan_.num_saved;
    plan_.requests.resize(static_cast<size_t>(plan_.num_outputs));
    returned_outputs_.assign(static_cast<size_t>(num_caller_outputs()), -1);
    int result = 0;
    int tangent = 0;
    const DerivedMetadata& derived = program_metadata_.derived();
    for (const ForwardReturn& value : derived.forward_returns) {
      CallPlan::Returned returned;
      if (tangent < plan_.num_tangents && derived.tangent_sources[static_cast<size_t>(tangent)] == value.tensor) {
        returned.tangent = tangent++;
      }
      if (value.is_tensor_alias) continue;
      AddReturn(value.tensor, returned, result);
    }
    if (result == plan_.first_saved) return absl::OkStatus();
    return MetadataError(absl::StrCat("returns ", plan_.first_saved, " values, but its metadata describes ", result,
                                      " (a method without a backward of its own returns gradients as well)"));
  }

  int num_caller_outputs() const { return plan_.num_caller_outputs; }

  void AddReturn(const ForwardTensor& tensor, CallPlan::Returned returned, int& result) {
    using Kind = CallPlan::Returned::Kind;
    switch (tensor.kind) {
      case ForwardTensor::Kind::kMutatedInput: {
        returned.kind = Kind::kArgument;
        returned.argument = tensor.index;
        if (IsState(tensor.index)) break;
        returned.result = result++;
        AddWriteBack(tensor.index, returned.tangent, returned.result);
        break;
      }
      case ForwardTensor::Kind::kOutput: {
        if (tensor.index >= num_caller_outputs()) return;
        const OutputAliasInfo& info = metadata_.output(tensor.index);
        if (!info.is_tensor()) return;
        returned.result = result++;
        returned.is_leaf_that_requires_grad =
            info.is_new_leaf || (info.requires_grad && !info.requires_grad_for_backward);
        if (IsElsewhere(info)) {
          returned.kind = Kind::kReturnedElsewhere;
          plan_.requests[static_cast<size_t>(returned.result)].use = ResultUse::kSkip;
        } else {
          returned_outputs_[static_cast<size_t>(tensor.index)] = static_cast<int>(plan_.returned.size());
        }
        break;
      }
      case ForwardTensor::Kind::kIntermediateBase:
        returned.result = result++;
        returned_bases_.push_back(static_cast<int>(plan_.returned.size()));
        break;
    }
    plan_.returned.push_back(returned);
  }

  // Returns whether a NON_ALIAS output is built from another output or an input, so that the program's result is
  // unused.
  static bool IsElsewhere(const OutputAliasInfo& info) {
    return info.shared_storage.has_value() &&
           (info.shared_storage->is_same_tensor || info.shared_storage->owner == SharedStorage::Owner::kInput);
  }

  // Returns the inputs that are views of base `argument` and have a tracked write.
  std::vector<int> WrittenViews(int argument) const {
    std::vector<int> written;
    const auto base = static_cast<size_t>(argument);
    if (base >= plan_.bases.size()) return written;
    for (const CallPlan::BaseView& view : plan_.bases[base].views) {
      const InputAliasInfo& info = metadata_.input(view.input);
      if (info.mutates_data && info.history == GradFnChange::kNew) written.push_back(view.input);
    }
    return written;
  }

  // A data mutation (mutates_data) of program argument `argument`, whose new data is `result`.
  void AddWriteBack(int argument, int tangent, int result) {
    const InputAliasInfo& info = program_metadata_.input(argument);
    CallPlan::WriteBack write = {
        .argument = argument, .result = result, .returned = static_cast<int>(plan_.returned.size())};
    write.copies = info.mutates_metadata;
    write.bumps_version = !info.mutations_hidden_from_autograd;
    write.under_no_grad = info.mutations_under_no_grad_or_inference_mode || info.mutations_hidden_from_autograd;
    if (info.history != GradFnChange::kUnspecified) write.under_no_grad = info.history != GradFnChange::kNew;
    if (!write.under_no_grad) write.tangent = tangent;
    if (write.tangent >= 0) write.written_views = WrittenViews(argument);
    write.has_gradient = std::count(plan_.gradient_inputs.begin(), plan_.gradient_inputs.end(), argument) != 0;
    if (!write.copies) {
      plan_.requests[static_cast<size_t>(result)] = {.use = ResultUse::kWriteBack, .input = MethodInputOf(argument)};
    }
    plan_.write_backs.push_back(write);
  }

  void AddStateUpdates() {
    for (const serialization::StateUpdate& update : method_.state_updates()) {
      plan_.updated_states.push_back(static_cast<int>(update.state()));
      plan_.draws_random_numbers = plan_.draws_random_numbers ||
                                   program_.state(static_cast<int>(update.state())).role() == serialization::State::RNG;
    }
  }

  void AddSaved() {
    for (int r = plan_.first_saved; r < plan_.num_outputs; ++r) {
      plan_.requests[static_cast<size_t>(r)].use = ResultUse::kSave;
    }
    const std::optional<SavedForBackward>& saved = program_metadata_.facts().saved;
    plan_.num_checked = plan_.num_saved - (saved.has_value() ? saved->num_tensors_without_version_check : 0);
    if (!saved.has_value()) return;
    for (int i : saved->donated) {
      if (!IsSeenElsewhere(method_.outputs(plan_.first_saved + i))) plan_.donated.push_back(i);
    }
  }

  // Returns whether a saved value may share the memory of an argument, of a result or of another saved value.
  bool IsSeenElsewhere(uint32_t value) const {
    const auto updates = [value](const serialization::InputUpdate& update) { return update.value() == value; };
    return std::count(method_.outputs().begin(), method_.outputs().end(), value) != 1 ||
           std::count(method_.inputs().begin(), method_.inputs().end(), value) != 0 ||
           std::any_of(method_.input_updates().begin(), method_.input_updates().end(), updates);
  }

  // --- mutations ------------------------------------------------------------

  absl::Status AddMutations() {
    for (int i = 0; i < num_inputs(); ++i) {
      const InputAliasInfo& info = metadata_.input(i);
      const bool is_duplicate = std::any_of(plan_.duplicates.begin(), plan_.duplicates.end(),
                                            [i](const CallPlan::Duplicate& duplicate) { return duplicate.input == i; });
      if (!info.mutates_metadata || info.mutates_storage_metadata || is_duplicate) continue;
      CallPlan::NewGeometry change;
      change.input = i;
      // A tracked write of new data sets the grad_fn for both mutations.
      const int argument = ArgumentOf(i);
      const bool is_written = std::any_of(
          plan_.write_backs.begin(), plan_.write_backs.end(),
          [&](const CallPlan::WriteBack& write) { return write.argument == argument && write.tangent >= 0; });
      const bool is_recorded = plan_.backward >= 0 || plan_.has_detached_grad_sink;
      change.under_no_grad = info.history == GradFnChange::kUnspecified
                                 ? info.mutations_under_no_grad_or_inference_mode
                                 : info.history != GradFnChange::kNew || (is_written && is_recorded);
      if (!info.geometry_after.has_value())
        return Contradicts("metadata.input_info[", i, "].geometry_after: is not set, but mutates_metadata is true");
      change.geometry = *info.geometry_after;
      change.gradient_sizes = info.gradient_sizes;
      change.is_written =
          std::any_of(plan_.write_backs.begin(), plan_.write_backs.end(),
                      [&](const CallPlan::WriteBack& write) { return write.argument == argument && write.copies; });
      AddMemoryOf(change, argument);
      plan_.new_geometries.push_back(std::move(change));
    }
    for (int i = 0; i < num_inputs(); ++i) {
      const CallPlan::Input& input = plan_.inputs[static_cast<size_t>(i)];
      if (input.requires_grad && !input.requires_grad_at_exit) plan_.detached_inputs.push_back(i);
      const bool is_new_leaf = metadata_.input(i).history == GradFnChange::kNewLeaf;
      if (!is_new_leaf) continue;
      if (input.requires_grad)
        return Contradicts("metadata.input_info[", i, "].history: is NEW_LEAF, but the input requires grad at entry");
      plan_.new_leaves.push_back(i);
    }
    COTAN_RETURN_IF_ERROR(AddNewStorages());
    for (int k : program_metadata_.derived().mutated_graph_handled_indices_seen_by_autograd) {
      if (!IsState(k)) plan_.bumped_arguments.push_back(k);
    }
    return absl::OkStatus();
  }

  // Sets change.traced and change.method_input. `argument`: the program argument that is the input; -1: a view of a
  // base.
  void AddMemoryOf(CallPlan::NewGeometry& change, int argument) const {
    for (size_t base = 0; base < plan_.bases.size(); ++base) {
      for (const CallPlan::BaseView& view : plan_.bases[base].views) {
        if (view.input != change.input) continue;
        change.traced = view.geometry;
        argument = static_cast<int>(base);
      }
    }
    if (argument >= 0 && !IsState(argument)) change.method_input = MethodInputOf(argument);
  }

  absl::Status AddNewStorages() {
    plan_.num_results = plan_.num_outputs;
    std::vector<int> result_of(static_cast<size_t>(method_.inputs_size()), -1);  // by method input
    for (const serialization::InputUpdate& update : method_.input_updates()) {
      if (update.sets_storage()) result_of[update.input()] = plan_.num_results++;
    }
    for (int i = 0; i < num_inputs(); ++i) {
      const InputAliasInfo& info = metadata_.input(i);
      if (!info.mutates_storage_metadata || OriginalOf(i) != i) continue;
      if (!info.new_storage.has_value() || !info.geometry_after.has_value()) {
        return Contradicts("metadata.input_info[", i,
                           "]: new_storage or geometry_after is not set, but mutates_storage_metadata is true");
      }
      CallPlan::NewStorage& set = plan_.new_storages.emplace_back();
      set.input = i;
      set.owner = info.new_storage->owner;
      set.owner_input = info.new_storage->input;
      set.geometry = *info.geometry_after;
      set.covers_owner = info.new_storage->geometry == info.geometry_after;
      const auto gradient =
          std::find(plan_.gradient_inputs.begin(), plan_.gradient_inputs.end(), info.is_leaf ? ArgumentOf(i) : -1);
      if (gradient != plan_.gradient_inputs.end()) {
        set.gradient = static_cast<int>(gradient - plan_.gradient_inputs.begin());
      }
      if (set.owner == NewStorage::Owner::kInput) set.owner_geometry_at_entry = *info.new_storage->geometry;
      if (set.owner != NewStorage::Owner::kProgram) continue;
      const auto at = static_cast<size_t>(MethodInputOf(ArgumentOf(i)));
      set.result = at < result_of.size() ? result_of[at] : -1;
      if (set.result < 0) return Contradicts("input_updates: no result fills the new storage of input ", i);
      plan_.placements.push_back({set.result, set.result, *info.new_storage->geometry});
    }
    return absl::OkStatus();
  }

  // --- results --------------------------------------------------------------

  const CallPlan::Returned& ReturnedAt(int index) const { return plan_.returned[static_cast<size_t>(index)]; }

  CallPlan::Returned& ReturnedAt(int index) { return plan_.returned[static_cast<size_t>(index)]; }

  // Layouts and storage owners of intermediate bases and outputs.
  void AddPlacements() {
    for (const TangentMeta& tangent : metadata_.facts().tangents) {
      if (tangent.source.kind != ForwardTensor::Kind::kIntermediateBase) continue;
      const int result = ReturnedAt(returned_bases_[static_cast<size_t>(tangent.source.index)]).result;
      plan_.placements.push_back({result, result, tangent.expected});
    }
    for (int i = 0; i < num_caller_outputs(); ++i) {
      const int index = returned_outputs_[static_cast<size_t>(i)];
      const OutputAliasInfo& info = metadata_.output(i);
      if (index < 0 || !info.geometry.has_value()) continue;
      CallPlan::StridedOutputSpec placement = {ReturnedAt(index).result, ReturnedAt(index).result, *info.geometry};
      if (info.shared_storage.has_value()) {
        const auto at = static_cast<size_t>(info.shared_storage->index);
        const bool is_output = info.shared_storage->owner == SharedStorage::Owner::kOutput;
        int owner = is_output ? returned_outputs_[at] : returned_bases_[at];
        while (owner >= 0 && ReturnedAt(owner).owner >= 0) owner = ReturnedAt(owner).owner;
        if (owner >= 0) {
          placement.owner = ReturnedAt(owner).result;
          ReturnedAt(index).owner = owner;
          ReturnedAt(owner).is_shared = true;
          SetConjNegBits(*info.shared_storage, *info.geometry, ReturnedAt(index));
        }
      }
      if (!ReturnedAt(index).reading.has_value()) plan_.placements.push_back(std::move(placement));
      if (info.non_alias_view.has_value()) AddNonAliasView(index, info);
    }
  }

  // An output with conj/neg bits is a view of its owner: the program's result is unused.
  void SetConjNegBits(const SharedStorage& shared, const TensorGeometry& geometry, CallPlan::Returned& returned) {
    const ConjNegBits reading = {shared.is_conjugate, shared.is_negated};
    if (reading.is_plain()) return;
    returned.reading = reading;
    returned.geometry = geometry;
    plan_.requests[static_cast<size_t>(returned.result)].use = ResultUse::kSkip;
  }

  static ViewCreation CreationOf(const NonAliasViewInfo& view) {
    switch (view.creation) {
      case NonAliasViewInfo::Creation::kRecorded:
        return ViewCreation::kDefault;
      case NonAliasViewInfo::Creation::kNoGrad:
        return ViewCreation::kNoGrad;
      case NonAliasViewInfo::Creation::kMultiOutput:
        break;
    }
    return ViewCreation::kMultiOutput;
  }

  // NON_ALIAS output that autograd knows as a view of another output or of an unreturned base.
  void AddNonAliasView(int index, const OutputAliasInfo& info) {
    const NonAliasViewInfo& seen = *info.non_alias_view;
    CallPlan::View view = {.creation = CreationOf(seen)};
    CallPlan::Returned& returned = ReturnedAt(index);
    if (!seen.is_hidden) {
      view.returned = returned_outputs_[static_cast<size_t>(seen.base)];
      if (view.returned < 0) return;
    } else {
      const auto [known, is_new] = hidden_bases_.try_emplace(seen.base, static_cast<int>(plan_.hidden_bases.size()));
      view.hidden = known->second;
      if (is_new) plan_.hidden_bases.push_back({.geometry = *seen.hidden_geometry, .returned = index});
      CallPlan::HiddenBase& base = plan_.hidden_bases[static_cast<size_t>(view.hidden)];
      if (view.creation == ViewCreation::kDefault && returned.tangent >= 0) base.view = index;
      base.requires_grad = base.requires_grad || returned.is_leaf_that_requires_grad;
    }
    // A view requires grad if its base does.
    returned.is_leaf_that_requires_grad = false;
    const int owner = returned.owner >= 0 ? returned.owner : index;
    ReturnedAt(owner).is_shared = true;
    returned.view = view;
  }

  void AddOutputs() {
    using Kind = CallPlan::Output::Kind;
    for (int i = 0; i < num_caller_outputs(); ++i) {
      plan_.outputs.push_back(OutputOf(i));
      KeepPreMutationView(plan_.outputs.back());
    }
    // Order: an output that is built from another output comes after that.
    const std::vector<CallPlan::Output> by_index = plan_.outputs;
    const auto rank = [&by_index](const CallPlan::Output& output) {
      const CallPlan::Output* from = &output;
      int steps = 0;
      for (; from->kind == Kind::kViewOfOutput || from->kind == Kind::kSameOutput; ++steps) {
        from = &by_index[static_cast<size_t>(from->index)];
      }
      return steps;
    };
    std::stable_sort(plan_.outputs.begin(), plan_.outputs.end(),
                     [&rank](const CallPlan::Output& a, const CallPlan::Output& b) { return rank(a) < rank(b); });
  }

  // Returns the tangent of output `output`; -1: none.
  int TangentOf(int output) const {
    const ForwardTensor source = {ForwardTensor::Kind::kOutput, output};
    const std::vector<ForwardTensor>& sources = program_metadata_.derived().tangent_sources;
    const auto found = std::find(sources.begin(), sources.end(), source);
    const int tangent = static_cast<int>(found - sources.begin());
    return tangent < plan_.num_tangents ? tangent : -1;
  }

  CallPlan::Output OutputOf(int i) const {
    using Kind = CallPlan::Output::Kind;
    const OutputAliasInfo& info = metadata_.output(i);
    CallPlan::Output output;
    output.output = i;
    output.requires_grad = info.requires_grad;
    output.under_no_grad = info.requires_grad && !info.requires_grad_for_backward;
    output.not_a_view = info.not_a_view;
    if (!info.is_tensor()) {
      output.scalar = *info.scalar;
      return output;
    }
    output.steps = info.view_steps;
    if (output.steps.empty()) output.geometry = info.geometry;
    if (info.shared_storage.has_value() && IsElsewhere(info)) {
      const bool is_input = info.shared_storage->owner == SharedStorage::Owner::kInput;
      output.index = info.shared_storage->index;
      output.kind = info.shared_storage->is_detached       ? Kind::kSharesInputStorage
                    : !info.shared_storage->is_same_tensor ? Kind::kViewOfInput
                    : is_input                             ? Kind::kIsInput
                                                           : Kind::kSameOutput;
      if (output.kind != Kind::kSharesInputStorage) return output;
      output.tangent = TangentOf(i);
      if (info.non_alias_view.has_value()) output.creation = CreationOf(*info.non_alias_view);
      return output;
    }
    if (IsFreshMemory(info.output_type)) {
      output.kind = Kind::kReturned;
      output.index = returned_outputs_[static_cast<size_t>(i)];
      return output;
    }
    output.index = *info.base_index;
    switch (info.output_type) {
      case OutputType::kIsInput:
        output.kind = Kind::kIsInput;
        break;
      case OutputType::kAliasOfInput:
        output.kind = Kind::kViewOfInput;
        break;
      case OutputType::kAliasOfIntermediateBaseIsUserOutput:
        output.kind = Kind::kViewOfOutput;
        break;
      default:
        output.kind = Kind::kViewOfBase;
        output.index = returned_bases_[static_cast<size_t>(*info.base_index)];
    }
    return output;
  }

  // Returns the first input that is the same tensor.
  int OriginalOf(int input) const {
    for (const CallPlan::Duplicate& duplicate : plan_.duplicates) {
      if (duplicate.input == input) return duplicate.original;
    }
    return input;
  }

  // Marks an output that is a view of a metadata-mutated input, given by its geometry in the storage: it must be taken
  // of the input before the mutation. Not for leaves, which have no grad_fn that leads to the old metadata.
  void KeepPreMutationView(CallPlan::Output& output) {
    if (output.kind != CallPlan::Output::Kind::kViewOfInput || !output.requires_grad) return;
    const bool is_placed = output.steps.empty() ? output.geometry.has_value()
                                                : std::holds_alternative<view::AsStrided>(output.steps.front());
    if (!is_placed) return;
    const InputAliasInfo& info = metadata_.input(output.index);
    if (info.mutates_data || info.is_leaf) return;
    for (size_t i = 0; i < plan_.new_geometries.size(); ++i) {
      CallPlan::NewGeometry& change = plan_.new_geometries[i];
      if (change.input != OriginalOf(output.index)) continue;
      change.view_precedes_metadata_mutation = true;
      output.before = static_cast<int>(i);
    }
  }

  // --- stages ---------------------------------------------------------------

  void AddStage(const char* name, StageFunction run, std::string detail) {
    plan_.stages.push_back({run, name, std::move(detail)});
  }

  void AddStages() {
    if (plan_.has_wrappers) AddStage("flatten", &FlattenArguments, text_.ArgumentWrappers());
    AddStage("check", &CheckArguments,
             absl::StrCat(plan_.num_arguments, " arguments, ", plan_.num_states, " parameters and buffers"));
    if (!plan_.duplicates.empty() || !plan_.must_not_alias.empty())
      AddStage("dedupe", &Deduplicate, text_.Duplicates());
    if (!plan_.bases.empty()) AddStage("bases", &FindBases, text_.Bases());
    const bool tracks_writes = std::any_of(plan_.write_backs.begin(), plan_.write_backs.end(),
                                           [](const CallPlan::WriteBack& write) { return write.tangent >= 0; });
    if (tracks_writes) AddStage("in place", &CheckInPlace, text_.WriteBacks(/*only_tracked=*/true));
    AddStage("forward", &RunForward,
             absl::StrCat(method_.ops_size(), " ops, ", plan_.first_saved, " results, ", plan_.num_saved, " saved",
                          plan_.draws_random_numbers ? ", advances the random generator" : ""));
    if (!plan_.new_leaves.empty()) AddStage("new leaves", &MakeNewLeaves, text_.Inputs(plan_.new_leaves));
    if (plan_.backward >= 0) {
      AddStage("record", &RecordNode,
               absl::StrCat("backward '", program_.method(plan_.backward).name(), "', ", plan_.num_tangents,
                            " tangents, gradients of ", text_.Gradients()));
    } else if (plan_.has_detached_grad_sink) {
      AddStage("record", &RecordNode, "no gradients: no input requires grad");
    }
    if (!plan_.returned.empty()) AddStage("wrap", &WrapReturned, absl::StrCat(plan_.returned.size(), " tensors"));
    if (!plan_.new_geometries.empty() || !plan_.write_backs.empty() || !plan_.new_storages.empty() ||
        !plan_.bumped_arguments.empty() || !plan_.detached_inputs.empty()) {
      AddStage("write back", &WriteBack, text_.WriteBacks(/*only_tracked=*/false));
    }
    if (plan_.backward >= 0) {
      AddStage("save", &SaveForBackward,
               absl::StrCat(plan_.num_saved, " values, ", plan_.num_checked, " with their versions, ",
                            plan_.donated.size(), " donated, ", plan_.read_states.size(), " states"));
    }
    if (!plan_.outputs.empty()) AddStage("results", &MakeOutputs, text_.Outputs());
    if (plan_.has_wrappers) AddStage("rewrap", &RewrapOutputs, text_.OutputWrappers());
    if (plan_.grad_mode_after.has_value()) {
      AddStage("grad mode", &SetGradMode, *plan_.grad_mode_after ? "on" : "off");
    }
  }

  const Program& program_;
  const Method& method_;
  ViewAndMutationMeta metadata_;          // of the user's function, over flat values
  ViewAndMutationMeta program_metadata_;  // after de-duplication and synthetic bases
  GraphSignature signature_;
  std::vector<std::string> argument_names_;  // of flat values
  InputBinding binding_;
  std::vector<int> returned_outputs_;           // by output: index into plan_.returned; -1: none
  std::vector<int> returned_bases_;             // by intermediate base: index into plan_.returned
  absl::flat_hash_map<int, int> hidden_bases_;  // by number in the metadata: index into plan_.hidden_bases
  CallPlan plan_;
  const CallPlanText text_{plan_};
};

}  // namespace

absl::StatusOr<CallPlan> CallPlan::Make(const Program& program, int method) {
  return PlanMaker(program, method).Make();
}

std::string CallPlan::ToString() const {
  std::string text = absl::StrCat("call of '", name, "'\n");
  for (const Stage& stage : stages) absl::StrAppendFormat(&text, "  %-11s %s\n", stage.name, stage.detail);
  return text;
}

}  // namespace cotan
