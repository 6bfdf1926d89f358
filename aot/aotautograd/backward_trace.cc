// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/backward_trace.h"

#include <ATen/ops/empty_strided.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/aotautograd/functional_tensor.h"
#include "aot/aotautograd/joint.h"
#include "aot/aotautograd/materialized_grads.h"
#include "aot/aotautograd/version_checks.h"
#include "aot/aotautograd/view_and_mutation.h"
#include "aot/capture/effects.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/tensor_data.h"
#include "serialization/metadata/input_binding.h"

namespace cotan::aot {
namespace {

// Returns whether a leaf was made before the trace and is none of its inputs.
bool IsCaptured(const at::Tensor& leaf) {
  const ProxyTensorImpl* proxy = ProxyOf(leaf);
  return proxy == nullptr || proxy->epoch()->kind == TraceEpoch::Kind::kConstruction;
}

class BackwardTracer {
 public:
  explicit BackwardTracer(JointTrace& trace) : trace_(trace) {}

  absl::Status Run();

 private:
  // Returns whether there are tangents and gradients. An output may require grad although no input
  // does: the tensor was made inside the function, and its gradient is not an output.
  bool NeedsBackward() const;
  // Returns whether the backward has a gradient output for the program argument: it required grad
  // at entry or is a new leaf.
  bool IsSource(size_t argument) const;
  // Returns whether a source gets a gradient; false for a view made under no_grad.
  bool PassesGradient(size_t argument) const;
  // Returns whether the tangent is that of an input whose write is hidden from autograd, or of an
  // intermediate base all of whose views are made under no_grad.
  bool IsTangentAlwaysUndefined(const TangentMeta& tangent) const;
  // Returns whether the backward begins at the value of the tangent.
  bool IsRoot(const TangentMeta& tangent) const;
  // Reports captured leaves that the gradients of outputs reach: the program has no gradients of constants.
  void ReportCapturedLeaves();
  // Reports inputs that share memory with another and become leaves, or get a new grad_fn while
  // detached from their base.
  void ReportNewGradFnsInBases();
  // Reports leaves with a gradient with respect to the storage that set_ replaces: in autograd the
  // leaf is another one after it.
  void ReportUseBeforeNewStorage(const std::vector<at::Tensor>& roots);
  void AddTangent(const TangentMeta& tangent);
  void AddGradients(const std::vector<at::Tensor>& gradients);
  // Adds the arguments that the backward writes as outputs.
  void AddBackwardMutations(const std::vector<int>& arguments);
  // Returns, for each argument and then each output, whether eager saves it without a check of its version. False for
  // states, for arguments that the function writes, and for outputs that share memory with others.
  std::vector<bool> WithoutVersionCheck(const std::vector<at::Tensor>& roots) const;
  // Marks the graph inputs and outputs of those that the backward reads as they are.
  void MarkWithoutVersionCheck(const std::vector<bool>& unchecked, size_t num_forward_nodes);
  // Returns the number of mutations of each output; 0 for one that is not a functional tensor or shares memory with an
  // argument, whose mutations AddBackwardMutations() handles.
  std::vector<uint64_t> OutputMutationCounts() const;
  void ReportWrittenOutputs(const std::vector<uint64_t>& before);
  // Converts indexes of program arguments to those of the caller's inputs; bases have none.
  std::vector<int> CallerInputs(const std::vector<int>& arguments) const;

  JointTrace& trace_;
};

bool BackwardTracer::NeedsBackward() const {
  bool has_sources = false;
  for (size_t i = 0; i < trace_.arguments.size(); ++i) has_sources = has_sources || IsSource(i);
  return has_sources && trace_.options.backward != TraceOptions::Backward::kNone && trace_.facts.is_train &&
         !trace_.facts.tangents.empty();
}

absl::Status BackwardTracer::Run() {
  ReportCapturedLeaves();
  ReportNewGradFnsInBases();
  if (!NeedsBackward()) {
    // If all outputs that require grad are views of inputs, there is no backward; is_train stays
    // true, because these outputs have a grad_fn.
    const bool is_train = trace_.facts.is_train && trace_.options.backward != TraceOptions::Backward::kNone &&
                          trace_.facts.tangents.empty();
    trace_.facts.is_train = trace_.first.facts.is_train = is_train;
    return absl::OkStatus();
  }
  std::vector<at::Tensor> roots, tangents, sources;
  std::vector<at::Tensor> by_tangent;  // undefined for one without a root
  for (const TangentMeta& tangent : trace_.facts.tangents) {
    AddTangent(tangent);
    by_tangent.push_back(IsRoot(tangent) ? trace_.TensorOf(tangent.source) : at::Tensor());
    if (!by_tangent.back().defined()) continue;
    roots.push_back(by_tangent.back());
    tangents.push_back(trace_.tangents.back());
  }
  trace_.program.result_dependencies = ComputedFrom(by_tangent);
  for (size_t i = 0; i < trace_.arguments.size(); ++i) {
    if (IsSource(i) && PassesGradient(i)) sources.push_back(trace_.program_arguments.arguments[i].primal);
  }
  ReportUseBeforeNewStorage(roots);
  const std::vector<uint64_t> before = MutationCounts(trace_.arguments);
  const std::vector<uint64_t> outputs_before = OutputMutationCounts();
  InstallEffectToken(trace_.recorder, /*index=*/1);
  MaterializedGrads materialized(trace_.recorder);
  if (roots.size() > 1 || trace_.options.takes_tangent_flags) materialized.AddHooks(roots);
  const std::vector<bool> unchecked = WithoutVersionCheck(roots);
  const size_t num_forward_nodes = trace_.recorder.graph().nodes().size();
  std::vector<at::Tensor> gradients(sources.size());
  if (!roots.empty() && !sources.empty()) gradients = Gradients(roots, tangents, sources);
  materialized.ReplaceClones();
  trace_.has_backward_effects = trace_.AddTokenOutput(/*index=*/1);
  AddGradients(gradients);
  AddBackwardMutations(BackwardMutatedInputs(before, MutationCounts(trace_.arguments)));
  ReportWrittenOutputs(outputs_before);
  MarkWithoutVersionCheck(unchecked, num_forward_nodes);
  return absl::OkStatus();
}

bool BackwardTracer::IsSource(size_t argument) const {
  return trace_.program_arguments.arguments[argument].requires_grad ||
         trace_.facts.input_info[argument].history == GradFnChange::kNewLeaf;
}

bool BackwardTracer::PassesGradient(size_t argument) const {
  return trace_.program_arguments.arguments[argument].input_without_gradient < 0;
}

bool BackwardTracer::IsTangentAlwaysUndefined(const TangentMeta& tangent) const {
  if (tangent.source.kind == ForwardTensor::Kind::kIntermediateBase) {
    const auto passes_on = [&](const OutputAliasInfo& info) {
      const bool is_view = info.output_type == OutputType::kAliasOfIntermediate ||
                           info.output_type == OutputType::kAliasOfIntermediateSaveAsOutput;
      return is_view && info.base_index == tangent.source.index && info.requires_grad_for_backward;
    };
    return std::none_of(trace_.facts.output_info.begin(), trace_.facts.output_info.end(), passes_on);
  }
  if (tangent.source.kind != ForwardTensor::Kind::kMutatedInput) return false;
  return trace_.facts.input_info[static_cast<size_t>(tangent.source.index)].history == GradFnChange::kKept;
}

bool BackwardTracer::IsRoot(const TangentMeta& tangent) const {
  return !IsTangentAlwaysUndefined(tangent) && IsDifferentiable(trace_.TensorOf(tangent.source));
}

void BackwardTracer::ReportCapturedLeaves() {
  if (trace_.options.backward == TraceOptions::Backward::kNone) return;
  std::vector<at::Tensor> roots;
  std::vector<torch::autograd::Edge> edges;  // the node of a leaf lives as long as an edge to it
  for (const TangentMeta& tangent : trace_.facts.tangents) {
    if (!IsRoot(tangent)) continue;
    roots.push_back(trace_.TensorOf(tangent.source));
    edges.push_back(torch::autograd::impl::gradient_edge(roots.back()));
  }
  for (torch::autograd::Node* node : ReachableNodes(roots)) {
    const auto* accumulate = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    if (accumulate == nullptr || !accumulate->variable.defined() || !IsCaptured(accumulate->variable)) continue;
    trace_.recorder.ReportUnsupported(
        absl::StrCat("a captured tensor (", c10::str(accumulate->variable.sizes()), ")"),
        "it requires grad, and the program has gradients of arguments and registered parameters only; make it one of "
        "these, or use it without gradient (detach(), NoGradGuard)");
  }
}

void BackwardTracer::ReportNewGradFnsInBases() {
  const InputBinding& binding = trace_.first.bound.binding;
  if (!binding.has_bases()) return;
  for (int input : binding.KeptInputs(static_cast<int>(trace_.first.facts.input_info.size()))) {
    const int unique = binding.has_duplicates() ? binding.add_dupe_map[static_cast<size_t>(input)] : input;
    const auto* view = std::get_if<InputBinding::BaseView>(&binding.inner_inputs[static_cast<size_t>(unique)]);
    const GradFnChange history = trace_.first.facts.input_info[static_cast<size_t>(input)].history;
    if (view == nullptr) continue;
    if (history == GradFnChange::kNewLeaf) {
      trace_.recorder.ReportUnsupported(
          absl::StrCat("input ", input),
          "it is made to require grad (requires_grad_) and shares memory that is written to with another "
          "input");
    } else if (history == GradFnChange::kNew && view->detached) {
      trace_.recorder.ReportUnsupported(
          absl::StrCat("input ", input),
          "it is detached from another input, whose memory it shares, and written with what requires grad");
    }
  }
}

void BackwardTracer::ReportUseBeforeNewStorage(const std::vector<at::Tensor>& roots) {
  for (const auto& [argument, edge] : trace_.edges_before_new_storage) {
    if (!IsReachable(roots, edge.function.get())) continue;
    trace_.recorder.ReportUnsupported(absl::StrCat("'", trace_.GraphInputOf(argument).name, "'"),
                                      "it has a gradient with respect to the storage that it had before set_");
  }
}

void BackwardTracer::AddTangent(const TangentMeta& tangent) {
  const at::Tensor root = trace_.TensorOf(tangent.source);
  const int index = static_cast<int>(trace_.tangents.size());
  const bool is_loss =
      tangent.source.kind == ForwardTensor::Kind::kOutput && tangent.source.index == trace_.LossOutput();
  const at::Tensor example = [&] {
    const RealScope real;
    const at::Tensor dense = ExampleTangent(root, is_loss, trace_.options.seed, index);
    std::vector<int64_t> strides;
    for (const SymInt& stride : tangent.expected.strides) strides.push_back(stride.constant());
    return at::empty_strided(dense.sizes(), strides, dense.options()).copy_(dense);
  }();
  trace_.program.reference.tangents.push_back(ToTensorData(example));
  trace_.tangents.push_back(trace_.recorder.AddInput(example, InputKind::kTangent, index,
                                                     absl::StrCat("tangent.", trace_.NameOf(tangent.source))));
}

void BackwardTracer::AddGradients(const std::vector<at::Tensor>& gradients) {
  std::vector<bool> has_gradient(trace_.arguments.size(), false);
  size_t next = 0;
  for (size_t i = 0; i < trace_.arguments.size(); ++i) {
    const ProgramArgument& argument = trace_.program_arguments.arguments[i];
    if (!IsSource(i)) continue;
    const at::Tensor gradient = PassesGradient(i) ? gradients[next++] : at::Tensor();
    has_gradient[i] = gradient.defined();
    const ValueId value = trace_.recorder.ValueOf(gradient);
    trace_.recorder.graph().AddOutput(value, OutputKind::kGradient, argument.graph_input,
                                      trace_.GraphInputOf(static_cast<int>(i)).name);
    if (gradient.defined() && trace_.options.store_gradients) {
      trace_.program.reference.gradients.push_back(ToTensorData(trace_.recorder.RealOf(gradient)));
    }
  }
  for (const ProgramArgument& argument : trace_.program_arguments.arguments) {
    const int input = argument.input_without_gradient;
    if (input >= 0) trace_.program.no_grad_view_inputs.push_back(input);
  }
  trace_.facts.indices_of_inputs_to_detach = InputsToDetach(trace_.facts, has_gradient);
  trace_.first.facts.indices_of_inputs_to_detach = CallerInputs(trace_.facts.indices_of_inputs_to_detach);
}

void BackwardTracer::AddBackwardMutations(const std::vector<int>& arguments) {
  for (int i : arguments) {
    const GraphInput input = trace_.GraphInputOf(i);
    if (MutationTypeOf(trace_.facts.input_info[static_cast<size_t>(i)]) != MutationType::kNotMutated) {
      trace_.recorder.ReportUnsupported(absl::StrCat("'", input.name, "'"),
                                        "both the function and its backward write to it");
    }
    const ValueId value = trace_.recorder.ValueOf(trace_.arguments[static_cast<size_t>(i)]);
    const int graph_input = trace_.program_arguments.arguments[static_cast<size_t>(i)].graph_input;
    trace_.recorder.graph().AddOutput(value, OutputKind::kBackwardUpdate, graph_input, input.name);
  }
  trace_.facts.backward_mutated_inputs = arguments;
  trace_.first.facts.backward_mutated_inputs = CallerInputs(arguments);
}

std::vector<bool> BackwardTracer::WithoutVersionCheck(const std::vector<at::Tensor>& roots) const {
  std::vector<at::Tensor> candidates;
  for (size_t i = 0; i < trace_.arguments.size(); ++i) {
    const bool is_input = trace_.GraphInputOf(static_cast<int>(i)).kind == InputKind::kUserInput;
    const bool is_written = MutationTypeOf(trace_.facts.input_info[i]) != MutationType::kNotMutated;
    candidates.push_back(is_input && !is_written ? trace_.arguments[i] : at::Tensor());
  }
  for (size_t i = 0; i < trace_.outputs.size(); ++i) {
    const bool is_fresh = trace_.facts.output_info[i].output_type == OutputType::kNonAlias;
    candidates.push_back(is_fresh ? trace_.outputs[i] : at::Tensor());
  }
  return SavedWithoutVersionCheck(roots, candidates);
}

void BackwardTracer::MarkWithoutVersionCheck(const std::vector<bool>& unchecked, size_t num_forward_nodes) {
  Graph& graph = trace_.recorder.graph();
  const size_t num_arguments = trace_.arguments.size();
  for (size_t i = 0; i < num_arguments; ++i) {
    GraphInput& input = trace_.GraphInputOf(static_cast<int>(i));
    input.without_version_check = unchecked[i] && IsReadByBackwardAlone(graph, num_forward_nodes, input.value);
  }
  for (GraphOutput& output : graph.outputs()) {
    if (output.kind != OutputKind::kUserOutput) continue;
    output.without_version_check = unchecked[num_arguments + static_cast<size_t>(output.index)] &&
                                   IsReadByBackwardAlone(graph, num_forward_nodes, output.value);
  }
}

std::vector<uint64_t> BackwardTracer::OutputMutationCounts() const {
  std::vector<uint64_t> counts;
  for (const at::Tensor& output : trace_.outputs) {
    counts.push_back(0);
    if (!output.defined() || !at::functionalization::impl::isFunctionalTensor(output)) continue;
    const auto shares = [&](const at::Tensor& argument) { return argument.is_alias_of(output); };
    if (std::any_of(trace_.arguments.begin(), trace_.arguments.end(), shares)) continue;
    counts.back() = FunctionalWrapperOf(output)->mutation_counter();
  }
  return counts;
}

void BackwardTracer::ReportWrittenOutputs(const std::vector<uint64_t>& before) {
  const std::vector<uint64_t> after = OutputMutationCounts();
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] == before[i]) continue;
    trace_.recorder.ReportUnsupported(absl::StrCat("'", trace_.output_names[i], "'"),
                                      "the backward writes to it; let the backward write to a copy");
  }
}

std::vector<int> BackwardTracer::CallerInputs(const std::vector<int>& arguments) const {
  const InputBinding& binding = trace_.first.bound.binding;
  std::vector<int> result;
  for (int i = 0; i < static_cast<int>(trace_.first.facts.input_info.size()); ++i) {
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

}  // namespace

absl::Status TraceBackward(JointTrace& trace) { return BackwardTracer(trace).Run(); }

}  // namespace cotan::aot
