// SPDX-License-Identifier: Apache-2.0

#include "aot/compile_methods.h"

#include <torch/version.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/aotautograd/tracer.h"
#include "aot/aotautograd/undefined_tangents.h"
#include "aot/aotautograd/wrap_method.h"
#include "aot/dump.h"
#include "aot/emit/emit.h"
#include "aot/lowering/complex/complex.h"
#include "aot/lowering/lower.h"
#include "aot/lowering/op_table.h"
#include "aot/partitioner/partition.h"
#include "aot/partitioner/saved_values.h"
#include "aot/partitioner/structural_tangents.h"
#include "aot/references/reference.h"
#include "base/status_macros.h"
#include "base/version.h"

namespace cotan::aot {
namespace {

using Backward = TraceOptions::Backward;

bool HasLoss(const CompileOptions& options) { return options.loss_output.has_value() || options.loss != nullptr; }

// Returns the model followed by the loss function, if there is one.
TensorFunction WithLoss(const TensorFunction& forward, const CompileOptions& options) {
  if (options.loss == nullptr) return forward;
  return [forward, &options](const std::vector<at::Tensor>& inputs) {
    const auto targets = inputs.end() - static_cast<std::ptrdiff_t>(options.targets.size());
    std::vector<at::Tensor> outputs = forward({inputs.begin(), targets});
    outputs.push_back(options.loss(outputs, {targets, inputs.end()}));
    return outputs;
  };
}

// Returns the ops that cannot be lowered, among those that are left after clean-up.
std::vector<std::string> UnsupportedLiveOps(const Graph& traced) {
  Graph live = traced;
  RemoveMaterializeGrads(live);
  if (const Graph whole = live; !CleanUp(live).ok()) live = whole;
  const absl::Status split = SplitComplex(live);
  if (!split.ok()) return {std::string(split.message())};
  return UnsupportedOps(live);
}

// --- The stages of every method -------------------------------------------------

// A method between trace and artifact.
struct TracedMethod {
  std::string name;
  TracedProgram traced;
  Graph graph;  // lowered
  GraphDump dump;
};

// Returns the trace of the cache in compilation.log, otherwise a new one.
absl::StatusOr<TracedProgram> TraceCached(const TensorFunction& function, absl::Span<const ModuleState> states,
                                          const std::vector<at::Tensor>& inputs, const TraceOptions& trace,
                                          const Compilation& compilation) {
  TraceCache* memo = compilation.log == nullptr ? nullptr : compilation.log->memo;
  if (memo == nullptr) return Trace(function, states, inputs, trace);
  if (const auto it = memo->find(trace.name); it != memo->end()) return it->second;
  COTAN_ASSIGN_OR_RETURN(TracedProgram traced, Trace(function, states, inputs, trace));
  return memo->emplace(trace.name, std::move(traced)).first->second;
}

// Traces, cleans up and lowers a method.
absl::StatusOr<TracedMethod> TraceAndLower(const TensorFunction& function, absl::Span<const ModuleState> states,
                                           const std::vector<at::Tensor>& inputs, TraceOptions trace,
                                           Compilation& compilation) {
  trace.seed = compilation.options.seed;
  trace.autocast = compilation.options.autocast;
  trace.keep_input_mutations = compilation.options.keep_input_mutations;
  trace.undefined_outputs_are_none = compilation.options.undefined_outputs_are_none;
  trace.decompositions = &compilation.options.decompositions;
  trace.unsupported_ops = UnsupportedLiveOps;
  if (!trace.in_spec.has_value()) trace.in_spec = compilation.in_spec;
  if (!trace.out_spec.has_value()) trace.out_spec = compilation.out_spec;
  TracedMethod draft{trace.name, {}, {}, GraphDump(compilation.options.dump_dir, trace.name)};
  COTAN_ASSIGN_OR_RETURN(draft.traced, TraceCached(function, states, inputs, trace, compilation));
  draft.dump.Write("trace", draft.traced.graph);
  if (compilation.log != nullptr) compilation.log->traces.push_back(draft.traced.graph);
  if (compilation.traces_only()) return draft;
  Graph cleaned = draft.traced.graph;
  COTAN_RETURN_IF_ERROR(GuardUndefinedTangents(cleaned));
  COTAN_RETURN_IF_ERROR(CleanUp(cleaned, draft.dump.Function()));
  COTAN_ASSIGN_OR_RETURN(draft.graph, LowerToPrims(cleaned));
  draft.dump.Write("lower", draft.graph);
  if (draft.traced.rng_blocks != SymInt(0)) {
    COTAN_RETURN_IF_ERROR(AppendRngAdvance(draft.graph, draft.traced.rng_blocks));
  }
  return draft;
}

// Sets gradient_inputs and structural_tangents. Graph inputs are ordered states, bases; the arguments of
// a program bases, states.
void DescribeGradients(const Graph& backward, const TracedProgram& traced, serialization::Method& method) {
  const auto num_bases = traced.input_binding.has_value() ? static_cast<int>(traced.input_binding->num_bases()) : 0;
  int num_states = 0;
  for (const GraphInput& input : traced.graph.inputs()) {
    num_states += input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer ? 1 : 0;
  }
  for (const GraphOutput& output : backward.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    int argument = output.index;
    if (argument < num_states) {
      argument += num_bases;
    } else if (argument < num_states + num_bases) {
      argument -= num_states;
    }
    method.add_gradient_inputs(static_cast<uint32_t>(argument));
  }
  const std::vector<std::vector<int>> idle = StructuralTangents(traced.graph, backward);
  for (size_t gradient = 0; gradient < idle.size(); ++gradient) {
    if (idle[gradient].empty()) continue;
    serialization::StructuralTangents& entry = *method.add_structural_tangents();
    entry.set_gradient(static_cast<uint32_t>(gradient));
    for (const int tangent : idle[gradient]) entry.add_tangents(static_cast<uint32_t>(tangent));
  }
}

// Emits an optimized graph and adds it to the artifact. `graph` is the graph of `draft` or a part
// of it; `backward` is the name of the method that reads its saved values, or empty.
absl::Status Finish(Graph graph, const std::string& name, const std::string& backward, TracedMethod& draft,
                    Compilation& compilation) {
  graph.name = name;
  compilation.artifact.AddTracedStates(draft.traced, graph);
  COTAN_ASSIGN_OR_RETURN(serialization::Method method, Emit(graph, compilation.artifact.states()));
  method.set_name(name);
  method.set_backward_method(backward);
  if (name == "backward") DescribeGradients(graph, draft.traced, method);
  if (name != "backward") {
    method.set_traced_without_grad(!draft.traced.grad_enabled);
    for (const int input : draft.traced.no_grad_view_inputs) {
      method.add_no_grad_view_inputs(static_cast<uint32_t>(input));
    }
    *method.mutable_metadata() = draft.traced.metadata;
    if (draft.traced.program_metadata.has_value()) {
      *method.mutable_program_metadata() = *draft.traced.program_metadata;
      *method.mutable_input_binding() = *draft.traced.input_binding;
    }
    if (!backward.empty()) {
      const serialization::SavedForBackward saved = DescribeSaved(graph);
      *method.mutable_metadata()->mutable_saved() = saved;
      if (method.has_program_metadata()) *method.mutable_program_metadata()->mutable_saved() = saved;
    }
    *method.mutable_signature() = draft.traced.signature;
    if (draft.traced.rng_blocks != SymInt(0)) {
      method.set_rng_blocks(draft.traced.rng_blocks.ToString());
    }
  }
  if (compilation.wrappers != nullptr && name == "backward") WrapBackward(*compilation.wrappers, method);
  if (compilation.wrappers != nullptr && name != "backward") {
    COTAN_RETURN_IF_ERROR(WrapForward(*compilation.wrappers, method));
  }
  compilation.summaries.push_back({name, static_cast<int>(draft.traced.graph.nodes().size()), method.ops_size()});
  compilation.artifact.AddMethod(std::move(method));
  return draft.dump.status();
}

// Returns the tangents of the reference run for the backward; its is_defined flags are all true.
std::vector<TensorData> TangentsOfRun(const ReferenceRun& run, const Graph& backward) {
  std::vector<TensorData> tangents = run.tangents;
  for (const GraphInput& input : backward.inputs()) {
    const bool is_flag = input.kind == InputKind::kTangent && input.index >= static_cast<int>(run.tangents.size());
    if (is_flag) tangents.push_back({DType::kBool, {}, std::string(1, '\1')});
  }
  return tangents;
}

// Optimizes, emits and adds a method that is one graph.
absl::Status OptimizeAndFinish(const std::string& name, TracedMethod& draft, Compilation& compilation) {
  COTAN_RETURN_IF_ERROR(Optimize(draft.graph, draft.dump.Function()));
  return Finish(draft.graph, name, "", draft, compilation);
}

// Adds the reference run of a method to the artifact, if references are stored.
void AddReference(const std::string& method, const TracedProgram& traced,
                  const std::vector<ExpectedState>& states_after, Compilation& compilation) {
  if (!compilation.options.store_references) return;
  compilation.artifact.AddReference(method, traced.reference.inputs, traced.reference.outputs, states_after);
}

// --- The methods --------------------------------------------------------------------

// Returns the tuple (spec, more).
TreeSpec Pair(const TreeSpec& spec, TreeSpec more) {
  return {.kind = TreeSpec::Kind::kTuple, .children = {spec, std::move(more)}, .keys = {}};
}

// Returns the trace options of a method with a loss.
TraceOptions LossTrace(const std::string& name, size_t num_inputs, const Compilation& compilation) {
  const CompileOptions& options = compilation.options;
  TraceOptions trace;
  trace.name = name;
  trace.backward = Backward::kLoss;
  trace.loss_output = options.loss_output.value_or(-1);  // the result of a loss function is last
  for (size_t i = 0; i < num_inputs; ++i) trace.input_names.push_back(absl::StrCat("input.", i));
  for (size_t i = 0; i < options.targets.size(); ++i) {
    trace.input_names.push_back(absl::StrCat("target.", i));
  }
  if (options.loss == nullptr) return trace;
  if (compilation.in_spec.has_value() && !options.targets.empty()) {
    trace.in_spec = Pair(*compilation.in_spec, TreeSpec::FlatTuple(static_cast<int>(options.targets.size())));
  }
  if (compilation.out_spec.has_value()) trace.out_spec = Pair(*compilation.out_spec, TreeSpec());
  return trace;
}

// Returns the joint graph of model and loss with the tangent set to 1, or to the loss scale.
absl::StatusOr<TracedMethod> DraftLossStep(const std::string& name, TraceableModule& module,
                                           const std::vector<at::Tensor>& examples, Compilation& compilation) {
  const CompileOptions& options = compilation.options;
  std::vector<at::Tensor> inputs = examples;
  inputs.insert(inputs.end(), options.targets.begin(), options.targets.end());
  module.Train(true);
  COTAN_ASSIGN_OR_RETURN(TracedMethod draft, TraceAndLower(WithLoss(module.forward(), options), module.states(), inputs,
                                                           LossTrace(name, examples.size(), compilation), compilation));
  if (compilation.traces_only()) return draft;
  if (options.optimizer->loss_scaling.has_value()) {
    COTAN_ASSIGN_OR_RETURN(const NewStates scale,
                           ScaleLoss(*options.optimizer->loss_scaling, /*tangent_index=*/0, draft.graph));
    compilation.artifact.AddStates(scale);
  }
  COTAN_RETURN_IF_ERROR(SeedLoss(draft.graph, /*tangent_index=*/0));
  return draft;
}

absl::Status AddTrainStep(TraceableModule& module, const std::vector<at::Tensor>& examples, Compilation& compilation) {
  const OptimizerConfig& optimizer = *compilation.options.optimizer;
  COTAN_ASSIGN_OR_RETURN(TracedMethod draft, DraftLossStep("train_step", module, examples, compilation));
  if (compilation.traces_only()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const NewStates slots, AppendOptimizer(optimizer, draft.graph));
  draft.dump.Write("optimizer", draft.graph);
  compilation.artifact.AddTracedStates(draft.traced, draft.graph);
  compilation.artifact.AddStates(slots);
  COTAN_RETURN_IF_ERROR(OptimizeAndFinish("train_step", draft, compilation));

  // The recorded gradients are those of the unscaled loss, which rounds differently in f16.
  const bool is_scaled = optimizer.loss_scaling.has_value();
  AddReference("train_step", draft.traced,
               is_scaled ? std::vector<ExpectedState>() : ExpectedAfterStep(draft.traced, optimizer), compilation);
  return absl::OkStatus();
}

absl::Status AddAccumulation(TraceableModule& module, const std::vector<at::Tensor>& examples,
                             Compilation& compilation) {
  COTAN_ASSIGN_OR_RETURN(TracedMethod draft, DraftLossStep("accumulate", module, examples, compilation));
  if (compilation.traces_only()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const NewStates accumulators, AppendAccumulation(draft.graph));
  compilation.artifact.AddTracedStates(draft.traced, draft.graph);
  compilation.artifact.AddStates(accumulators);
  COTAN_RETURN_IF_ERROR(OptimizeAndFinish("accumulate", draft, compilation));
  AddReference("accumulate", draft.traced, ExpectedAfterRun(draft.traced), compilation);

  std::vector<NamedType> parameters;
  for (const GraphOutput& output : draft.traced.graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    const GraphInput& input = draft.traced.graph.inputs()[static_cast<size_t>(output.index)];
    if (input.kind != InputKind::kParameter) continue;
    parameters.push_back({input.name, draft.traced.graph.value(input.value).type});
  }
  COTAN_ASSIGN_OR_RETURN(ApplyOptimizer apply, BuildApplyOptimizer(*compilation.options.optimizer, parameters));
  compilation.artifact.AddStates(apply.states);
  TracedMethod apply_draft{"apply_optimizer", {}, {}, GraphDump(compilation.options.dump_dir, "apply_optimizer")};
  apply_draft.graph = std::move(apply.graph);
  return OptimizeAndFinish("apply_optimizer", apply_draft, compilation);
}

}  // namespace

absl::Status CheckOptions(const CompileOptions& options) {
  if (options.loss_output.has_value() && options.loss != nullptr) {
    return absl::InvalidArgumentError("give either loss_output or a loss function, not both");
  }
  if (options.loss == nullptr && !options.targets.empty()) {
    return absl::InvalidArgumentError("targets are the inputs of a loss function, but CompileOptions.loss is not set");
  }
  if (options.accumulate_gradients && !options.optimizer.has_value()) {
    return absl::InvalidArgumentError("accumulate_gradients needs an optimizer");
  }
  return absl::OkStatus();
}

absl::Status AddForwardBackward(const TensorFunction& function, absl::Span<const ModuleState> states,
                                const std::vector<at::Tensor>& examples, bool grad_enabled, Compilation& compilation) {
  TraceOptions trace{.name = "forward", .backward = Backward::kOutputs, .grad_enabled = grad_enabled};
  if (compilation.wrappers != nullptr) {
    trace.input_names = FlatNames(compilation.wrappers->inputs, InputNames(*compilation.wrappers));
  }
  COTAN_ASSIGN_OR_RETURN(TracedMethod draft, TraceAndLower(function, states, examples, std::move(trace), compilation));
  if (compilation.traces_only()) return absl::OkStatus();
  const ReferenceRun& run = draft.traced.reference;
  if (run.tangents.empty()) {
    COTAN_RETURN_IF_ERROR(OptimizeAndFinish("forward", draft, compilation));
    AddReference("forward", draft.traced, ExpectedAfterRun(draft.traced), compilation);
    return absl::OkStatus();
  }
  COTAN_ASSIGN_OR_RETURN(Partitioned parts, Partition(draft.graph, compilation.options.save_policy));
  GraphDump backward_dump(compilation.options.dump_dir, "backward");
  draft.dump.Write("partition", parts.forward);
  backward_dump.Write("partition", parts.backward);
  COTAN_RETURN_IF_ERROR(OptimizePair(parts.forward, parts.backward, draft.dump.Function(), backward_dump.Function()));
  COTAN_RETURN_IF_ERROR(backward_dump.status());
  std::vector<TensorData> tangents = TangentsOfRun(run, parts.backward);
  COTAN_RETURN_IF_ERROR(Finish(std::move(parts.forward), "forward", "backward", draft, compilation));
  COTAN_RETURN_IF_ERROR(Finish(std::move(parts.backward), "backward", "", draft, compilation));
  AddReference("forward", draft.traced, ExpectedAfterRun(draft.traced), compilation);
  if (compilation.options.store_references) {
    compilation.artifact.AddReference("backward", tangents, run.gradients, {});
  }
  return absl::OkStatus();
}

absl::Status AddEval(TraceableModule& module, const std::vector<at::Tensor>& examples, Compilation& compilation) {
  module.Train(false);
  COTAN_ASSIGN_OR_RETURN(TracedMethod draft, TraceAndLower(module.forward(), module.states(), examples,
                                                           {.name = "eval", .grad_enabled = false}, compilation));
  if (compilation.traces_only()) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(OptimizeAndFinish("eval", draft, compilation));
  AddReference("eval", draft.traced, ExpectedAfterRun(draft.traced), compilation);
  return absl::OkStatus();
}

absl::Status AddTrainMethods(TraceableModule& module, const std::vector<at::Tensor>& examples,
                             Compilation& compilation) {
  const CompileOptions& options = compilation.options;
  if (options.methods.train_step && HasLoss(options) && options.optimizer.has_value()) {
    COTAN_RETURN_IF_ERROR(AddTrainStep(module, examples, compilation));
    if (options.accumulate_gradients) COTAN_RETURN_IF_ERROR(AddAccumulation(module, examples, compilation));
  }
  if (!options.methods.forward_backward) return absl::OkStatus();
  module.Train(true);
  return AddForwardBackward(module.forward(), module.states(), examples, /*grad_enabled=*/true, compilation);
}

std::string Producer() { return absl::StrCat("cotan ", kVersion, ", LibTorch ", TORCH_VERSION); }

absl::StatusOr<CompiledModel> Build(Compilation compilation) {
  if (compilation.traces_only()) return CompiledModel("", {});
  COTAN_ASSIGN_OR_RETURN(std::string bytes, std::move(compilation.artifact).Build(Producer()));
  return CompiledModel(std::move(bytes), std::move(compilation.summaries));
}

}  // namespace cotan::aot
