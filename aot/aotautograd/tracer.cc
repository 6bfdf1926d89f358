// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/tracer.h"

#include <ATen/FunctionalStorageImpl.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/aotautograd/analyze_function.h"
#include "aot/aotautograd/describe_examples.h"
#include "aot/aotautograd/input_binding.h"
#include "aot/aotautograd/joint.h"
#include "aot/aotautograd/program_arguments.h"
#include "aot/aotautograd/signature.h"
#include "aot/aotautograd/undefined_tangents.h"
#include "aot/aotautograd/view_and_mutation.h"
#include "aot/capture/autocast.h"
#include "aot/capture/effects.h"
#include "aot/capture/inputs.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"
#include "aot/decompositions/trace_scope.h"
#include "base/status_macros.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::aot {
namespace {

using Backward = TraceOptions::Backward;

// Returns `count` names: the given ones, then PREFIX.I.
std::vector<std::string> NamesFor(size_t count, const std::vector<std::string>& given, absl::string_view prefix) {
  std::vector<std::string> names = given;
  for (size_t i = names.size(); i < count; ++i) names.push_back(absl::StrCat(prefix, ".", i));
  names.resize(count);
  return names;
}

// Returns the sort key of graph inputs; see TracedProgram.
int Rank(InputKind kind) {
  switch (kind) {
    case InputKind::kParameter:
      return 0;
    case InputKind::kBuffer:
      return 1;
    case InputKind::kUserInput:
      return 2;
    case InputKind::kConstant:
      return 3;
    case InputKind::kRngState:
      return 4;
    case InputKind::kToken:
      return 6;
    default:
      return 5;
  }
}

absl::Status CannotBeCompiled(const TraceOptions& options, absl::string_view refusals) {
  return absl::UnimplementedError(absl::StrCat("'", options.name, "' cannot be compiled:\n  ", refusals));
}

// Result of the first run: metadata and input binding.
struct FirstPass {
  ViewAndMutationMetaFields facts;  // in terms of the caller's inputs
  BoundInputs bound;
};

// The second run: the steps of Trace() after the analysis, and the tensors that they share.
class Tracing {
 public:
  Tracing(absl::Span<const ModuleState> states, FirstPass first, const TraceOptions& options)
      : states_(states),
        options_(options),
        first_(std::move(first)),
        facts_(std::move(first_.bound.program_facts)),
        recorder_(options.decompositions),
        recording_(recorder_) {
    recorder_.graph().name = options.name;
  }
  ~Tracing() { Release(); }

  // Adds the program's arguments, RNG state and effect token.
  void InstallProxies(absl::Span<const at::Tensor> examples);
  // Calls the function and adds the outputs of the forward.
  absl::Status RunForward(const TensorFunction& function);
  // Adds tangents, the backward and its outputs, if there is a backward.
  absl::Status RunBackward();
  // Drops all tensors of the trace, so that any proxy still alive has leaked from the function.
  void Release();
  // Unimplemented: all unsupported constructs, leaked proxies and unsupported ops included.
  absl::Status CheckRefusals();
  // Unimplemented: the unsupported constructs reported so far.
  absl::Status Refusals() const;
  absl::StatusOr<TracedProgram> Finish() &&;

 private:
  // Returns the index of the loss, counted from the start; -1 without one.
  int LossOutput() const;
  bool NeedsBackward() const;
  // Returns whether the backward has a gradient output for the program argument: it required grad
  // at entry or is a new leaf.
  bool IsSource(size_t argument) const;
  // Returns whether a source gets a gradient; false for a view made under no_grad.
  bool PassesGradient(size_t argument) const;
  // Returns whether the tangent is that of an input whose write is hidden from autograd, or of an
  // intermediate base all of whose views are made under no_grad.
  bool IsTangentAlwaysUndefined(const TangentMeta& tangent) const;
  void ReportNewLeavesInBases();
  // Reports leaves with a gradient with respect to the storage that set_ replaces: in autograd the
  // leaf is another one after it.
  void RefuseUseBeforeNewStorage(const std::vector<at::Tensor>& roots);
  // Returns the name of the graph output for the tensor.
  std::string NameOf(const ForwardTensor& tensor);
  at::Tensor TensorOf(const ForwardTensor& tensor) const;
  // Returns the new content of the program argument; of a base with its geometry at entry.
  at::Tensor AtExit(int argument) const;
  GraphInput& GraphInputOf(int argument);
  // Propagates requires_grad through synthetic bases: where inputs share memory, one that does not
  // require grad gets a gradient when another is written with a value that requires grad. In the
  // first run the inputs had separate memory.
  void PropagateRequiresGradThroughBases(const ViewAndMutationMetaFields& second);
  // Restricts the metadata to the gradient of the loss (kLoss).
  absl::Status DifferentiateLossOnly();
  // Returns whether there were effects with token `index`. If so, the last token becomes an output.
  bool AddTokenOutput(int index);
  void AddOutputs();
  void AddMutatedInput(int argument, MutationType type);
  void AddTangent(const TangentMeta& tangent);
  // Adds hooks to nodes of torch::autograd::Function that record the gradients which enter the node
  // together.
  void NoteMaterializedGrads(const std::vector<at::Tensor>& roots);
  // Replaces the recorded clones by kMaterializeGrads.
  void AddMaterializeGrads();
  void AddGradients(const std::vector<at::Tensor>& gradients);
  void AddBackwardMutations(const std::vector<int>& arguments);
  // Converts indexes of program arguments to those of the caller's inputs; bases have none.
  std::vector<int> CallerInputs(const std::vector<int>& arguments) const;
  void RefuseKeptTensors();
  absl::Status AddSignature(const ViewAndMutationMeta& metadata);

  absl::Span<const ModuleState> states_;
  const TraceOptions& options_;
  FirstPass first_;
  ViewAndMutationMetaFields facts_;  // in terms of the program's arguments
  DerivedMetadata derived_;
  Recorder recorder_;
  RecordingScope recording_;
  TracedProgram program_;

  std::vector<std::string> input_names_, output_names_;
  ProgramArguments program_arguments_;
  std::vector<at::Tensor> arguments_;  // by program argument: tensor that the function writes to
  // Gradient edges at entry of leaves that get another storage, by program argument.
  std::vector<std::pair<int, torch::autograd::Edge>> edges_before_new_storage_;
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> intermediate_bases_;
  std::vector<at::Tensor> tangents_;
  std::vector<std::vector<ValueId>> materialized_;  // by run of a node: clones of the gradients that entered it
  bool has_effects_ = false;                        // in the forward
  bool has_backward_effects_ = false;
};

void Tracing::InstallProxies(absl::Span<const at::Tensor> examples) {
  input_names_ = NamesFor(examples.size(), options_.input_names, "input");
  program_arguments_ = AddProgramArguments(first_.bound.binding, states_, examples, input_names_, recorder_);
  for (const ModuleState& state : states_) {
    program_.states.push_back(
        {state.name, state.role, ToTensorData(state.initial), state.requires_grad, state.persistent, state.aliases});
  }
  for (const ProgramArgument& argument : program_arguments_.arguments) {
    arguments_.push_back(argument.tensor);
    if (argument.example.defined()) program_.reference.inputs.push_back(ToTensorData(argument.example));
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const at::Tensor& tensor = arguments_[i];
    if (!facts_.input_info[i].mutates_storage_metadata || !tensor.requires_grad() || !tensor.is_leaf()) continue;
    edges_before_new_storage_.emplace_back(static_cast<int>(i), torch::autograd::impl::gradient_edge(tensor));
  }
  InstallRngState(options_.seed, recorder_);
  InstallEffectToken(recorder_, /*index=*/0);
  program_.reference.rng_seed = static_cast<int64_t>(options_.seed);
}

absl::Status Tracing::RunForward(const TensorFunction& function) {
  const std::vector<InputAtEntry> entry = DescribeInputs(arguments_);
  outputs_ = function(program_arguments_.function_inputs);
  has_effects_ = AddTokenOutput(/*index=*/0);
  output_names_ = NamesFor(outputs_.size(), options_.output_names, "output");
  if (const int loss = LossOutput(); loss >= 0 && loss < static_cast<int>(outputs_.size())) {
    output_names_[static_cast<size_t>(loss)] = "loss";
  }
  if (outputs_.size() != first_.facts.output_info.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the function returned ", first_.facts.output_info.size(),
                                                   " values in the first run and ", outputs_.size(),
                                                   " in the second; it must return the same number in every call"));
  }
  AnalysisOptions analysis_options;
  analysis_options.keep_input_mutations = options_.keep_input_mutations;
  analysis_options.grad_enabled_at_entry = options_.grad_enabled;
  COTAN_ASSIGN_OR_RETURN(Analysis analysis, Analyze(entry, arguments_, outputs_, analysis_options));
  intermediate_bases_ = std::move(analysis.intermediate_bases);
  if (first_.bound.binding.has_bases()) PropagateRequiresGradThroughBases(analysis.facts);
  if (static_cast<int>(intermediate_bases_.size()) != facts_.num_intermediate_bases) {
    return absl::InvalidArgumentError(
        "the results of the function share memory differently in the second run; it must be deterministic");
  }
  if (options_.backward == Backward::kLoss) COTAN_RETURN_IF_ERROR(DifferentiateLossOnly());
  derived_ = DerivedMetadata::Of(facts_);
  AddOutputs();
  return absl::OkStatus();
}

void Tracing::PropagateRequiresGradThroughBases(const ViewAndMutationMetaFields& second) {
  std::vector<size_t> adopted;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (second.output_info[i].requires_grad && !facts_.output_info[i].requires_grad) adopted.push_back(i);
  }
  if (adopted.empty()) return;
  for (ViewAndMutationMetaFields* facts : {&facts_, &first_.facts}) {
    for (size_t i : adopted) {
      facts->output_info[i].requires_grad = true;
      facts->output_info[i].requires_grad_for_backward = second.output_info[i].requires_grad_for_backward;
    }
    facts->is_train = true;
    std::vector<TangentMeta> tangents;
    for (const ForwardTensor& source : DerivedMetadata::Of(*facts).tangent_sources) {
      for (const std::vector<TangentMeta>* known : {&std::as_const(facts->tangents), &second.tangents}) {
        const auto found = std::find_if(known->begin(), known->end(),
                                        [&](const TangentMeta& tangent) { return tangent.source == source; });
        if (found == known->end()) continue;
        tangents.push_back(*found);
        break;
      }
    }
    facts->tangents = std::move(tangents);
  }
}

absl::Status Tracing::DifferentiateLossOnly() {
  COTAN_RETURN_IF_ERROR(CheckLoss(outputs_, LossOutput()));
  for (size_t i = 0; i < program_arguments_.arguments.size(); ++i) {
    const InputAliasInfo& info = facts_.input_info[i];
    const bool is_seen =
        info.mutates_data && !info.mutations_hidden_from_autograd && !info.mutations_under_no_grad_or_inference_mode;
    if (!is_seen || !program_arguments_.arguments[i].requires_grad) continue;
    recorder_.Refuse(absl::StrCat("'", GraphInputOf(static_cast<int>(i)).name, "'"),
                     "it requires a gradient and is written to; in a step with a loss only the loss can have a "
                     "gradient");
  }
  for (ViewAndMutationMetaFields* facts : {&facts_, &first_.facts}) {
    for (size_t i = 0; i < facts->output_info.size(); ++i) {
      OutputAliasInfo& info = facts->output_info[i];
      if (static_cast<int>(i) != LossOutput()) info.requires_grad_for_backward = false;
      if (!IsAliasOfIntermediate(info.output_type)) continue;
      // The base of these outputs gets no gradient.
      info.output_type = OutputType::kUnsafeViewAlias;
      info.base_index.reset();
      info.view_steps.clear();
    }
    for (OutputAliasInfo& info : facts->output_info) {
      info.non_alias_view.reset();
      if (!IsFreshMemory(info.output_type)) continue;
      info.not_a_view = false;
    }
    facts->num_intermediate_bases = 0;
    SetSharedStorage(outputs_, /*intermediate_bases=*/{}, *facts);
    for (InputAliasInfo& info : facts->input_info) {
      // The grad_fn of the new content is dropped at the end of the step.
      if (info.mutates_data && info.requires_grad_at_entry.has_value()) {
        info.requires_grad = *info.requires_grad_at_entry;
        info.requires_grad_at_entry.reset();
        info.history = GradFnChange::kUnspecified;
      }
    }
    std::erase_if(facts->tangents, [this](const TangentMeta& tangent) {
      return tangent.source.kind != ForwardTensor::Kind::kOutput || tangent.source.index != LossOutput();
    });
    facts->is_train = true;
  }
  return absl::OkStatus();
}

bool Tracing::AddTokenOutput(int index) {
  Graph& graph = recorder_.graph();
  const ValueId last = recorder_.ValueOf(recorder_.effect_token);
  recorder_.effect_token = at::Tensor();
  const bool has_effects = std::none_of(graph.inputs().begin(), graph.inputs().end(),
                                        [last](const GraphInput& input) { return input.value == last; });
  if (has_effects) graph.AddOutput(last, OutputKind::kToken, index, index == 0 ? "token" : "backward_token");
  return has_effects;
}

void Tracing::AddOutputs() {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const MutationType type = MutationTypeOf(facts_.input_info[i]);
    if (type != MutationType::kNotMutated) AddMutatedInput(static_cast<int>(i), type);
  }
  for (const ForwardReturn& value : derived_.forward_returns) {
    if (value.is_tensor_alias || value.tensor.kind == ForwardTensor::Kind::kMutatedInput) continue;
    const bool is_base = value.tensor.kind == ForwardTensor::Kind::kIntermediateBase;
    if (!is_base && !facts_.output_info[static_cast<size_t>(value.tensor.index)].is_tensor()) continue;
    const at::Tensor& tensor = TensorOf(value.tensor);
    recorder_.graph().AddOutput(recorder_.ValueOf(tensor),
                                is_base ? OutputKind::kIntermediateBase : OutputKind::kUserOutput, value.tensor.index,
                                NameOf(value.tensor));
    program_.reference.outputs.push_back(ToTensorData(recorder_.RealOf(tensor)));
  }
}

namespace {

// Returns the whole storage of a functional tensor with all mutations, as a functional tensor.
at::Tensor StorageContentOf(const at::Tensor& tensor) {
  auto* storage = static_cast<at::functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  storage->apply_updates();
  return WrapFunctional(storage->base());
}

}  // namespace

void Tracing::AddMutatedInput(int argument, MutationType type) {
  const InputAliasInfo& info = facts_.input_info[static_cast<size_t>(argument)];
  const GraphInput input = GraphInputOf(argument);
  const bool is_state = input.kind != InputKind::kUserInput;
  if (info.mutation_inductor_storage_resize) {
    recorder_.Refuse(absl::StrCat("'", input.name, "'"), "its storage is resized");
  }
  if (is_state && info.mutates_metadata) {
    recorder_.Refuse(absl::StrCat("'", input.name, "'"),
                     "the sizes, strides or storage of a parameter or buffer are changed (transpose_, resize_, set_)");
  }
  if (!info.mutates_data && !info.mutates_storage_metadata) return;
  OutputKind kind = OutputKind::kMutatedInput;
  if (type == MutationType::kMutatedInGraph && !is_state) {
    kind = OutputKind::kInputUpdate;
    if (info.mutates_storage_metadata) {
      const bool is_new = info.new_storage->owner == NewStorage::Owner::kProgram;
      kind = is_new ? OutputKind::kInputStorage : OutputKind::kSharedStorage;
    }
  }
  const at::Tensor tensor = kind == OutputKind::kInputStorage
                                ? StorageContentOf(arguments_[static_cast<size_t>(argument)])
                                : AtExit(argument);
  const ValueId value = kind == OutputKind::kSharedStorage ? input.value : recorder_.ValueOf(tensor);
  const int graph_input = program_arguments_.arguments[static_cast<size_t>(argument)].graph_input;
  recorder_.graph().AddOutput(value, kind, graph_input, input.name);
  program_.reference.mutated.push_back(ToTensorData(recorder_.RealOf(tensor)));
  const bool is_returned = kind == OutputKind::kMutatedInput && !is_state;
  if (is_returned) program_.reference.outputs.push_back(program_.reference.mutated.back());
}

GraphInput& Tracing::GraphInputOf(int argument) {
  const int index = program_arguments_.arguments[static_cast<size_t>(argument)].graph_input;
  return recorder_.graph().inputs()[static_cast<size_t>(index)];
}

at::Tensor Tracing::AtExit(int argument) const {
  const at::Tensor& tensor = arguments_[static_cast<size_t>(argument)];
  const at::Tensor& example = program_arguments_.arguments[static_cast<size_t>(argument)].example;
  const bool is_base = argument < first_.bound.binding.num_bases();
  if (!is_base || LayoutOf(tensor) == LayoutOf(example)) return tensor;
  return StorageContentOf(tensor);
}

at::Tensor Tracing::TensorOf(const ForwardTensor& tensor) const {
  const size_t index = static_cast<size_t>(tensor.index);
  switch (tensor.kind) {
    case ForwardTensor::Kind::kMutatedInput:
      return AtExit(tensor.index);
    case ForwardTensor::Kind::kOutput:
      return outputs_[index];
    case ForwardTensor::Kind::kIntermediateBase:
      break;
  }
  return intermediate_bases_[index];
}

std::string Tracing::NameOf(const ForwardTensor& tensor) {
  switch (tensor.kind) {
    case ForwardTensor::Kind::kMutatedInput:
      return GraphInputOf(tensor.index).name;
    case ForwardTensor::Kind::kOutput:
      return output_names_[static_cast<size_t>(tensor.index)];
    case ForwardTensor::Kind::kIntermediateBase:
      break;
  }
  return absl::StrCat("intermediate_base.", tensor.index);
}

int Tracing::LossOutput() const {
  if (options_.backward != Backward::kLoss) return -1;
  const int from_end = options_.loss_output < 0 ? static_cast<int>(output_names_.size()) : 0;
  return options_.loss_output + from_end;
}

// An output may require grad although no input does: the tensor was made inside the function, and
// its gradient is not an output.
bool Tracing::NeedsBackward() const {
  bool has_sources = false;
  for (size_t i = 0; i < arguments_.size(); ++i) has_sources = has_sources || IsSource(i);
  return has_sources && options_.backward != Backward::kNone && facts_.is_train && !facts_.tangents.empty();
}

bool Tracing::IsSource(size_t argument) const {
  return program_arguments_.arguments[argument].requires_grad ||
         facts_.input_info[argument].history == GradFnChange::kNewLeaf;
}

bool Tracing::PassesGradient(size_t argument) const {
  return program_arguments_.arguments[argument].input_without_gradient < 0;
}

bool Tracing::IsTangentAlwaysUndefined(const TangentMeta& tangent) const {
  if (tangent.source.kind == ForwardTensor::Kind::kIntermediateBase) {
    const auto passes_on = [&](const OutputAliasInfo& info) {
      const bool is_view = info.output_type == OutputType::kAliasOfIntermediate ||
                           info.output_type == OutputType::kAliasOfIntermediateSaveAsOutput;
      return is_view && info.base_index == tangent.source.index && info.requires_grad_for_backward;
    };
    return std::none_of(facts_.output_info.begin(), facts_.output_info.end(), passes_on);
  }
  if (tangent.source.kind != ForwardTensor::Kind::kMutatedInput) return false;
  return facts_.input_info[static_cast<size_t>(tangent.source.index)].history == GradFnChange::kKept;
}

void Tracing::ReportNewLeavesInBases() {
  const InputBinding& binding = first_.bound.binding;
  if (!binding.has_bases()) return;
  for (int input : binding.KeptInputs(static_cast<int>(first_.facts.input_info.size()))) {
    const int unique = binding.has_duplicates() ? binding.add_dupe_map[static_cast<size_t>(input)] : input;
    const auto* view = std::get_if<InputBinding::BaseView>(&binding.inner_inputs[static_cast<size_t>(unique)]);
    const GradFnChange history = first_.facts.input_info[static_cast<size_t>(input)].history;
    if (view == nullptr) continue;
    if (history == GradFnChange::kNewLeaf) {
      recorder_.Refuse(absl::StrCat("input ", input),
                       "it is made to require grad (requires_grad_) and shares memory that is written to with another "
                       "input");
    } else if (history == GradFnChange::kNew && view->detached) {
      recorder_.Refuse(
          absl::StrCat("input ", input),
          "it is detached from another input, whose memory it shares, and written with what requires grad");
    }
  }
}

void Tracing::RefuseUseBeforeNewStorage(const std::vector<at::Tensor>& roots) {
  for (const auto& [argument, edge] : edges_before_new_storage_) {
    if (!LeadTo(roots, edge.function.get())) continue;
    recorder_.Refuse(absl::StrCat("'", GraphInputOf(argument).name, "'"),
                     "it has a gradient with respect to the storage that it had before set_");
  }
}

void Tracing::AddTangent(const TangentMeta& tangent) {
  const at::Tensor root = TensorOf(tangent.source);
  const int index = static_cast<int>(tangents_.size());
  const bool is_loss = tangent.source.kind == ForwardTensor::Kind::kOutput && tangent.source.index == LossOutput();
  const at::Tensor example = [&] {
    const RealScope real;
    const at::Tensor dense = ExampleTangent(root, is_loss, options_.seed, index);
    std::vector<int64_t> strides;
    for (const SymInt& stride : tangent.expected.strides) strides.push_back(stride.constant());
    return at::empty_strided(dense.sizes(), strides, dense.options()).copy_(dense);
  }();
  program_.reference.tangents.push_back(ToTensorData(example));
  tangents_.push_back(
      recorder_.AddInput(example, InputKind::kTangent, index, absl::StrCat("tangent.", NameOf(tangent.source))));
}

absl::Status Tracing::RunBackward() {
  ReportNewLeavesInBases();
  if (!NeedsBackward()) {
    // If all outputs that require grad are views of inputs, there is no backward; is_train stays
    // true, because these outputs have a grad_fn.
    const bool is_train = facts_.is_train && options_.backward != Backward::kNone && facts_.tangents.empty();
    facts_.is_train = first_.facts.is_train = is_train;
    return absl::OkStatus();
  }
  std::vector<at::Tensor> roots, tangents, sources;
  for (const TangentMeta& tangent : facts_.tangents) {
    AddTangent(tangent);
    if (IsTangentAlwaysUndefined(tangent) || !IsDifferentiable(TensorOf(tangent.source))) continue;
    roots.push_back(TensorOf(tangent.source));
    tangents.push_back(tangents_.back());
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (IsSource(i) && PassesGradient(i)) sources.push_back(program_arguments_.arguments[i].primal);
  }
  RefuseUseBeforeNewStorage(roots);
  const std::vector<uint64_t> before = MutationCounts(arguments_);
  InstallEffectToken(recorder_, /*index=*/1);
  if (roots.size() > 1) NoteMaterializedGrads(roots);
  std::vector<at::Tensor> gradients(sources.size());
  if (!roots.empty() && !sources.empty()) gradients = Gradients(roots, tangents, sources);
  AddMaterializeGrads();
  has_backward_effects_ = AddTokenOutput(/*index=*/1);
  AddGradients(gradients);
  AddBackwardMutations(BackwardMutatedInputs(before, MutationCounts(arguments_)));
  return absl::OkStatus();
}

namespace {

// Records the gradients that enter a node, as clones without other uses.
class MaterializeHook final : public torch::autograd::FunctionPreHook {
 public:
  MaterializeHook(Recorder& recorder, std::vector<std::vector<ValueId>>& noted) : recorder_(recorder), noted_(noted) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    torch::autograd::variable_list entering = gradients;
    std::vector<ValueId>& clones = noted_.emplace_back();
    for (at::Tensor& gradient : entering) {
      if (!gradient.defined()) continue;
      gradient = gradient.clone();
      clones.push_back(recorder_.ValueOf(gradient));
    }
    return entering;
  }

 private:
  Recorder& recorder_;
  std::vector<std::vector<ValueId>>& noted_;
};

// Returns whether the node replaces undefined gradients by zeros, as torch::autograd::Function does
// unless materialize_grads is off. Formulas of LibTorch's own nodes do it where they need it.
bool MaterializesGrads(const torch::autograd::Node& node) {
  return node.num_inputs() > 1 && absl::StrContains(typeid(node).name(), "7CppNode");
}

}  // namespace

void Tracing::NoteMaterializedGrads(const std::vector<at::Tensor>& roots) {
  for (torch::autograd::Node* node : NodesBehind(roots)) {
    if (MaterializesGrads(*node)) node->add_pre_hook(std::make_unique<MaterializeHook>(recorder_, materialized_));
  }
}

void Tracing::AddMaterializeGrads() {
  Graph& graph = recorder_.graph();
  for (const std::vector<ValueId>& clones : materialized_) {
    std::vector<Graph::NodeList::iterator> nodes;
    for (auto node = graph.nodes().begin(); node != graph.nodes().end(); ++node) {
      if (node->op != "aten.clone.default") continue;
      if (std::find(clones.begin(), clones.end(), node->outputs[0]) != clones.end()) nodes.push_back(node);
    }
    if (nodes.size() < 2 || nodes.size() != clones.size()) continue;
    std::vector<Argument> operands;
    for (const auto node : nodes) operands.push_back(node->arguments[0]);
    Node& last = *nodes.back();
    last.op = std::string(kMaterializeGrads);
    last.arguments = std::move(operands);
    last.outputs = clones;
    nodes.pop_back();
    for (const auto node : nodes) graph.nodes().erase(node);
  }
}

void Tracing::AddGradients(const std::vector<at::Tensor>& gradients) {
  std::vector<bool> has_gradient(arguments_.size(), false);
  size_t next = 0;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const ProgramArgument& argument = program_arguments_.arguments[i];
    if (!IsSource(i)) continue;
    const at::Tensor gradient = PassesGradient(i) ? gradients[next++] : at::Tensor();
    has_gradient[i] = gradient.defined();
    const ValueId value = recorder_.ValueOf(gradient);
    recorder_.graph().AddOutput(value, OutputKind::kGradient, argument.graph_input,
                                GraphInputOf(static_cast<int>(i)).name);
    if (gradient.defined()) program_.reference.gradients.push_back(ToTensorData(recorder_.RealOf(gradient)));
  }
  for (const ProgramArgument& argument : program_arguments_.arguments) {
    const int input = argument.input_without_gradient;
    if (input >= 0) program_.no_grad_view_inputs.push_back(input);
  }
  facts_.indices_of_inputs_to_detach = InputsToDetach(facts_, has_gradient);
  first_.facts.indices_of_inputs_to_detach = CallerInputs(facts_.indices_of_inputs_to_detach);
}

void Tracing::AddBackwardMutations(const std::vector<int>& arguments) {
  for (int i : arguments) {
    const GraphInput input = GraphInputOf(i);
    if (MutationTypeOf(facts_.input_info[static_cast<size_t>(i)]) != MutationType::kNotMutated) {
      recorder_.Refuse(absl::StrCat("'", input.name, "'"), "both the function and its backward write to it");
    }
    const ValueId value = recorder_.ValueOf(arguments_[static_cast<size_t>(i)]);
    const int graph_input = program_arguments_.arguments[static_cast<size_t>(i)].graph_input;
    recorder_.graph().AddOutput(value, OutputKind::kBackwardUpdate, graph_input, input.name);
  }
  facts_.backward_mutated_inputs = arguments;
  first_.facts.backward_mutated_inputs = CallerInputs(arguments);
}

std::vector<int> Tracing::CallerInputs(const std::vector<int>& arguments) const {
  const InputBinding& binding = first_.bound.binding;
  std::vector<int> result;
  for (int i = 0; i < static_cast<int>(first_.facts.input_info.size()); ++i) {
    const int unique = binding.has_duplicates() ? binding.add_dupe_map[static_cast<size_t>(i)] : i;
    int argument = unique;
    if (binding.has_bases()) {
      const auto* direct = std::get_if<InputBinding::Argument>(&binding.inner_inputs[static_cast<size_t>(unique)]);
      if (direct == nullptr) continue;
      argument = direct->index;
    }
    if (std::find(arguments.begin(), arguments.end(), argument) != arguments.end()) result.push_back(i);
  }
  return result;
}

void Tracing::Release() {
  tangents_.clear();
  edges_before_new_storage_.clear();
  intermediate_bases_.clear();
  outputs_.clear();
  arguments_.clear();
  // Keep the metadata of the arguments, drop their tensors.
  for (ProgramArgument& argument : program_arguments_.arguments) argument.primal = argument.tensor = at::Tensor();
  program_arguments_.function_inputs.clear();
  recorder_.rng_state = at::Tensor();
  recorder_.effect_token = at::Tensor();
  recorder_.RevokeRawWrites();
  recorder_.autograd_views().ReleaseHistories();
  RestoreStates(states_);
}

void Tracing::RefuseKeptTensors() {
  std::vector<ValueId> kept;
  for (const ProxyTensorImpl* proxy : recorder_.epoch()->live) kept.push_back(proxy->value());
  std::sort(kept.begin(), kept.end());
  for (const Node& node : recorder_.graph().nodes()) {
    for (ValueId output : node.outputs) {
      if (!std::binary_search(kept.begin(), kept.end(), output)) continue;
      recorder_.Refuse(
          absl::StrCat("a result of ", node.op, node.source.empty() ? "" : absl::StrCat(" in '", node.source, "'")),
          "it is kept after the call, in an attribute or a captured variable; make that a registered "
          "buffer and write to it in place (copy_)");
    }
  }
}

absl::Status Tracing::CheckRefusals() {
  RefuseKeptTensors();
  if (options_.unsupported_ops != nullptr) {
    for (const std::string& op : options_.unsupported_ops(recorder_.graph())) {
      recorder_.Refuse(op, "it is not supported");
    }
  }
  return Refusals();
}

absl::Status Tracing::Refusals() const {
  if (recorder_.refusals().empty()) return absl::OkStatus();
  return CannotBeCompiled(options_, absl::StrJoin(recorder_.refusals(), "\n  "));
}

absl::StatusOr<TracedProgram> Tracing::Finish() && {
  Graph& graph = recorder_.graph();
  std::vector<GraphInput>& inputs = graph.inputs();
  if (recorder_.random_blocks() == 0) {
    std::erase_if(inputs, [](const GraphInput& i) { return i.kind == InputKind::kRngState; });
  }
  std::erase_if(inputs, [this](const GraphInput& i) {
    return i.kind == InputKind::kToken && !(i.index == 0 ? has_effects_ : has_backward_effects_);
  });
  for (ViewAndMutationMetaFields* facts : {&first_.facts, &facts_}) {
    if (has_effects_) facts->tokens = {"ordered"};
    facts->num_backward_tokens = has_backward_effects_ ? 1 : 0;
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const GraphInput& a, const GraphInput& b) { return Rank(a.kind) < Rank(b.kind); });
  graph.Compact();
  program_.states.insert(program_.states.end(), recorder_.constants().begin(), recorder_.constants().end());
  program_.grad_enabled = options_.grad_enabled;
  program_.rng_blocks = SymInt(recorder_.random_blocks());
  program_.graph = std::move(graph);
  COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMeta metadata, ViewAndMutationMeta::Create(std::move(first_.facts)));
  COTAN_RETURN_IF_ERROR(AddSignature(metadata));
  program_.metadata = metadata.ToProto();
  if (!first_.bound.binding.is_identity()) {
    COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMeta inner, ViewAndMutationMeta::Create(std::move(facts_)));
    program_.program_metadata = inner.ToProto();
    program_.input_binding = first_.bound.binding.ToProto();
  }
  return std::move(program_);
}

absl::Status Tracing::AddSignature(const ViewAndMutationMeta& metadata) {
  CallingConvention call;
  call.user_inputs = input_names_;
  call.user_outputs = output_names_;
  call.graph_inputs = program_arguments_.graph_inputs;
  call.in_spec = options_.in_spec;
  call.out_spec = options_.out_spec;
  if (options_.backward == Backward::kLoss) call.loss_output = LossOutput();
  const absl::StatusOr<GraphSignature> signature = SignatureOf(program_.graph, metadata, call);
  if (!signature.ok()) {
    return absl::Status(signature.status().code(),
                        absl::StrCat("the signature of '", options_.name, "': ", signature.status().message()));
  }
  program_.signature = signature->ToProto();
  return absl::OkStatus();
}

// Corrects inputs that `set_` gave the storage that they already have, because they share it with
// another input: only their geometry changes. In the first run the inputs had separate memory.
void KeepStorage(const FunctionAnalysis& found, absl::Span<const InputDescription> inputs,
                 ViewAndMutationMetaFields& facts) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputAliasInfo& info = facts.input_info[i];
    const int source = found.storage_sources[i];
    if (source < 0 || !info.mutates_storage_metadata || !info.geometry_after.has_value()) continue;
    if (inputs[static_cast<size_t>(source)].storage != inputs[i].storage) continue;
    info.mutates_storage_metadata = info.mutation_is_shallow_copy_data = false;
    info.mutates_data = info.mutates_data || inputs[i].has_hidden_writes;
    info.new_storage.reset();
  }
}

// InvalidArgument: an input that gets another storage was written before, and shared its former
// storage with another input. The program returns only the new storage.
absl::Status CheckNoHiddenWrites(absl::Span<const InputDescription> inputs, const ViewAndMutationMetaFields& facts) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!facts.input_info[i].mutates_storage_metadata || !inputs[i].has_hidden_writes) continue;
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (inputs[j].storage != inputs[i].storage || inputs[j].identity == inputs[i].identity) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "Encountered a set_ on a graph input, but the input has other mutations: input ", i,
          " is written before set_ gives it another storage, and shared its former storage with input ", j));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FirstPass> RunFirstPass(const TensorFunction& function, absl::Span<const ModuleState> states,
                                       absl::Span<const at::Tensor> inputs, const TraceOptions& options) {
  AnalyzeFunctionOptions analysis;
  analysis.keep_input_mutations = options.keep_input_mutations;
  analysis.grad_enabled = options.grad_enabled;
  analysis.seed = options.seed;
  FirstPass first;
  absl::StatusOr<FunctionAnalysis> found = AnalyzeFunctionAndMoves(function, states, inputs, analysis);
  if (absl::IsUnimplemented(found.status())) return CannotBeCompiled(options, found.status().message());
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat("tracing '", options.name, "': ", found.status().message()));
  }
  first.facts = std::move(found->facts);
  std::vector<InputDescription> descriptions = DescribeExamples(states, inputs);
  for (int i : found->metadata_mutated_inputs) descriptions[static_cast<size_t>(i)].is_moved = true;
  for (int i : found->inputs_with_hidden_writes) descriptions[static_cast<size_t>(i)].has_hidden_writes = true;
  KeepStorage(*found, descriptions, first.facts);
  COTAN_RETURN_IF_ERROR(CheckNoHiddenWrites(descriptions, first.facts));
  COTAN_ASSIGN_OR_RETURN(first.bound, BindInputs(first.facts, descriptions));
  return first;
}

}  // namespace

absl::StatusOr<TracedProgram> Trace(const TensorFunction& traced, absl::Span<const ModuleState> states,
                                    absl::Span<const at::Tensor> inputs, const TraceOptions& options) {
  COTAN_RETURN_IF_ERROR(CheckAutocast(options.autocast));
  RegisterTracing();
  if (options.decompositions != nullptr) COTAN_RETURN_IF_ERROR(CheckDecompositions(*options.decompositions));
  const TensorFunction function = [&](const std::vector<at::Tensor>& arguments) {
    const AutocastScope autocast(options.autocast);
    std::vector<at::Tensor> outputs = traced(arguments);
    for (size_t i = 0; i < outputs.size() && !options.undefined_outputs_are_none; ++i) {
      if (!outputs[i].defined()) throw std::invalid_argument(absl::StrCat("output ", i, " is an undefined tensor"));
    }
    return outputs;
  };
  COTAN_ASSIGN_OR_RETURN(FirstPass first, RunFirstPass(function, states, inputs, options));
  const TraceScope scope(options.grad_enabled);
  Tracing tracing(states, std::move(first), options);
  try {
    tracing.InstallProxies(inputs);
    const absl::Status ran = [&]() -> absl::Status {
      COTAN_RETURN_IF_ERROR(tracing.RunForward(function));
      return tracing.RunBackward();
    }();
    tracing.Release();
    COTAN_RETURN_IF_ERROR(tracing.CheckRefusals());
    COTAN_RETURN_IF_ERROR(ran);
    return std::move(tracing).Finish();
  } catch (...) {
    // The exception may follow from an unsupported construct.
    COTAN_RETURN_IF_ERROR(tracing.Refusals());
    return StatusFromCurrentException(absl::StrCat("tracing '", options.name, "'"));
  }
}

}  // namespace cotan::aot
