// SPDX-License-Identifier: Apache-2.0

#include "aot/method_stages.h"

#include <fnmatch.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/undefined_tangents.h"
#include "aot/blocks/outline_updates.h"
#include "aot/emit/emit.h"
#include "aot/lowering/complex/complex.h"
#include "aot/lowering/lower.h"
#include "aot/lowering/op_table.h"
#include "aot/memory/repeat_dequantization.h"
#include "aot/orders.h"
#include "aot/partitioner/forward_only.h"
#include "aot/partitioner/partition.h"
#include "aot/partitioner/saved_values.h"
#include "aot/partitioner/structural_tangents.h"
#include "aot/references/reference.h"
#include "aot/references/tolerance.h"
#include "aot/saved_tensor_hooks/pack_saved_values.h"
#include "aot/saved_tensor_hooks/traced_pair.h"
#include "aot/transforms/sync_batch_norm.h"
#include "base/status_macros.h"
#include "base/version.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kBackward = "backward";
constexpr absl::string_view kApplyOptimizer = "apply_optimizer";
constexpr absl::string_view kSizes = ".sizes";  // after the name of a method: its sizing methods

// --- saved values --------------------------------------------------------------------

// Packs the saved values of a function or of a block, if there are saved-tensor hooks.
absl::Status Pack(const Compilation& compilation, bool is_block, Partitioned& parts) {
  const SavedTensorHooks& hooks = compilation.options.saved_tensor_hooks;
  if (!hooks.is_set()) return absl::OkStatus();
  const PairTracer trace = [&hooks](const TensorType& type, const std::string& name) {
    return TracePair(hooks, type, name);
  };
  PackedSelection selection{
      .filter = hooks.filter, .min_elements = hooks.min_elements, .on_host = hooks.on_host, .is_block = is_block};
  if (compilation.blocks != nullptr) {
    selection.is_saved_by_block = [&compilation](const Node& call, size_t output) {
      return compilation.blocks->IsSavedByBlock(call, output);
    };
  }
  return PackSavedValues(selection, trace, parts);
}

// Cuts a joint graph, and packs the saved values if there are saved-tensor hooks.
absl::StatusOr<Partitioned> CutAndPack(const Graph& joint, const Compilation& compilation) {
  COTAN_ASSIGN_OR_RETURN(Partitioned parts, Partition(joint, PartitionOptionsOf(compilation.options)));
  COTAN_RETURN_IF_ERROR(Pack(compilation, /*is_block=*/false, parts));
  return parts;
}

// Packs the values that live from the forward to the backward of a joint graph.
absl::Status PackInside(MethodDraft& draft, const Compilation& compilation) {
  if (!compilation.options.saved_tensor_hooks.is_set()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const Partitioned parts, CutAndPack(draft.graph, compilation));
  draft.graph = Rejoin(draft.graph, parts);
  draft.dump.Write("saved_tensor_hooks", draft.graph);
  return absl::OkStatus();
}

// --- updates -------------------------------------------------------------------------

// Returns the optimizer; a group that matches a further name of a tied parameter also matches its first name, which is
// that in the graph.
OptimizerConfig OptimizerOf(const TracedProgram& traced, const CompileOptions& options) {
  OptimizerConfig config = *options.optimizer;
  for (ParameterGroup& group : config.groups) {
    const std::vector<std::string> given = group.patterns;
    const auto matches = [&given](const std::string& name) {
      return absl::c_any_of(given,
                            [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
    };
    for (const TracedState& state : traced.states) {
      if (absl::c_any_of(state.aliases, matches)) group.patterns.push_back(state.name);
    }
  }
  return config;
}

// Sets the tangent of the loss to 1, or to the loss scale.
absl::Status SeedTangent(Graph& graph, Compilation& compilation) {
  const std::optional<LossScaling>& scaling = compilation.options.optimizer->loss_scaling;
  if (scaling.has_value()) {
    COTAN_ASSIGN_OR_RETURN(const NewStates scale, ScaleLoss(*scaling, /*tangent_index=*/0, graph));
    compilation.artifact.AddStates(scale);
  }
  return SeedLoss(graph, /*tangent_index=*/0);
}

// Returns what the ranks average in a method; none without data_parallel.
std::optional<DataParallelStep> ParallelStepOf(const CompileOptions& options) {
  if (!options.data_parallel.has_value()) return std::nullopt;
  return DataParallelStep{*options.data_parallel};
}

// Returns the index of the user output that is the loss.
int LossOutputOf(const Graph& graph, const CompileOptions& options) {
  const int index = options.loss.output.value_or(-1);  // the result of a loss function is last
  if (index >= 0) return index;
  const auto is_user_output = [](const GraphOutput& output) { return output.kind == OutputKind::kUserOutput; };
  return index + static_cast<int>(std::count_if(graph.outputs().begin(), graph.outputs().end(), is_user_output));
}

absl::Status AddOptimizer(TracedMethod& method, Compilation& compilation) {
  MethodDraft& step = method.drafts[0];
  std::optional<OutlinedUpdates> sharing;
  if (compilation.blocks != nullptr) sharing.emplace(step.graph, *compilation.blocks);
  std::optional<DataParallelStep> parallel = ParallelStepOf(compilation.options);
  if (parallel.has_value()) parallel->loss_output = LossOutputOf(step.graph, compilation.options);
  COTAN_ASSIGN_OR_RETURN(const NewStates slots, AppendOptimizer(OptimizerOf(method.traced, compilation.options),
                                                                step.graph, sharing.has_value() ? &*sharing : nullptr,
                                                                parallel.has_value() ? &*parallel : nullptr));
  step.dump.Write("optimizer", step.graph);
  compilation.artifact.AddTracedStates(method.traced, step.graph);
  compilation.artifact.AddStates(slots);
  return absl::OkStatus();
}

// Returns the parameters that the trace has gradients of.
std::vector<NamedType> TrainedParameters(const Graph& traced) {
  std::vector<NamedType> parameters;
  for (const GraphOutput& output : traced.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    const GraphInput& input = traced.inputs()[static_cast<size_t>(output.index)];
    if (input.kind != InputKind::kParameter) continue;
    parameters.push_back({input.name, traced.value(input.value).type});
  }
  return parameters;
}

// Appends the accumulation to "accumulate" and adds "apply_optimizer".
absl::Status AddAccumulation(TracedMethod& method, Compilation& compilation) {
  Graph& graph = method.drafts[0].graph;
  COTAN_ASSIGN_OR_RETURN(const NewStates accumulators, AppendAccumulation(graph));
  compilation.artifact.AddTracedStates(method.traced, graph);
  compilation.artifact.AddStates(accumulators);
  const std::optional<DataParallelStep> parallel = ParallelStepOf(compilation.options);
  COTAN_ASSIGN_OR_RETURN(ApplyOptimizer apply, BuildApplyOptimizer(OptimizerOf(method.traced, compilation.options),
                                                                   TrainedParameters(method.traced.graph),
                                                                   parallel.has_value() ? &*parallel : nullptr));
  compilation.artifact.AddStates(apply.states);
  method.drafts.push_back({.name = std::string(kApplyOptimizer),
                           .is_traced = false,
                           .graph = std::move(apply.graph),
                           .dump = GraphDump(compilation.options.debug.dump_dir, std::string(kApplyOptimizer))});
  return absl::OkStatus();
}

// --- emission ------------------------------------------------------------------------

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

// Sets result_dependencies.
void DescribeResults(const TracedProgram& traced, serialization::Method& forward) {
  for (size_t result = 0; result < traced.result_dependencies.size(); ++result) {
    const std::vector<int>& sources = traced.result_dependencies[result];
    if (sources.empty()) continue;
    serialization::ResultDependencies& entry = *forward.add_result_dependencies();
    entry.set_result(static_cast<uint32_t>(result));
    for (const int source : sources) entry.add_sources(static_cast<uint32_t>(source));
  }
}

// Adds what a caller of the method needs to know of the trace.
void DescribeTrace(const MethodDraft& draft, const TracedProgram& traced, serialization::Method& method) {
  method.set_traced_without_grad(!traced.grad_enabled);
  method.set_backward_refusal(traced.backward_refusal);
  for (const int input : traced.no_grad_view_inputs) {
    method.add_no_grad_view_inputs(static_cast<uint32_t>(input));
  }
  *method.mutable_metadata() = traced.metadata;
  if (traced.program_metadata.has_value()) {
    *method.mutable_program_metadata() = *traced.program_metadata;
    *method.mutable_input_binding() = *traced.input_binding;
  }
  if (!draft.backward.empty()) {
    DescribeResults(traced, method);
    const serialization::SavedForBackward saved = DescribeSaved(draft.graph);
    *method.mutable_metadata()->mutable_saved() = saved;
    if (method.has_program_metadata()) *method.mutable_program_metadata()->mutable_saved() = saved;
  }
  *method.mutable_signature() = traced.signature;
  if (traced.rng_blocks != SymInt(0)) method.set_rng_blocks(traced.rng_blocks.ToString());
}

// Describes how a sizing method, whose inputs are the caller's arguments and `continued` of its own, goes on.
void DescribeContinuation(const MethodDraft& draft, serialization::Method& method) {
  int num_arguments = 0;
  for (const GraphInput& input : draft.graph.inputs()) num_arguments += input.kind == InputKind::kUserInput ? 1 : 0;
  serialization::Continuation& continuation = *method.mutable_continuation();
  continuation.set_method(draft.continuation);
  for (int i = 0; i < num_arguments; ++i) {
    serialization::ContinuedInput& argument = *continuation.add_inputs();
    argument.set_index(static_cast<uint32_t>(i));
    argument.set_from_inputs(true);
  }
  for (const ContinuedValue& value : draft.continued) {
    serialization::ContinuedInput& input = *continuation.add_inputs();
    input.set_index(static_cast<uint32_t>(value.index + (value.from_inputs ? num_arguments : 0)));
    input.set_from_inputs(value.from_inputs);
    input.set_count(static_cast<uint32_t>(value.count + 1));
  }
}

// Emits a draft and adds it to the artifact.
absl::Status EmitDraft(MethodDraft& draft, const TracedProgram& traced, Compilation& compilation) {
  draft.graph.name = draft.name;
  compilation.artifact.AddTracedStates(traced, draft.graph);
  COTAN_ASSIGN_OR_RETURN(serialization::Method method, Emit(draft.graph, compilation.artifact.states()));
  RepeatDequantization(method);
  method.set_name(draft.name);
  method.set_backward_method(draft.backward);
  method.set_differentiable_backward(draft.differentiable_backward);
  if (draft.is_backward) {
    DescribeGradients(draft.graph, traced, method);
  } else if (!draft.continuation.empty()) {
    DescribeContinuation(draft, method);
  } else {
    DescribeTrace(draft, traced, method);
  }
  // A differentiable backward is called with flat values.
  const bool is_wrapped = compilation.wrappers != nullptr && (draft.name == kForward || draft.name == kBackward);
  if (is_wrapped && draft.is_backward) WrapBackward(*compilation.wrappers, method);
  if (is_wrapped && !draft.is_backward) {
    COTAN_RETURN_IF_ERROR(WrapForward(*compilation.wrappers, method));
  }
  compilation.summaries.push_back({.name = draft.name,
                                   .traced_ops = static_cast<int>(traced.graph.nodes().size()),
                                   .runtime_ops = method.ops_size(),
                                   .backward_refusal = method.backward_refusal()});
  compilation.artifact.AddMethod(std::move(method));
  return draft.dump.status();
}

// --- references ----------------------------------------------------------------------

// Returns the tangents of the reference run for the backward; its is_defined flags are all true.
std::vector<TensorData> TangentsOfRun(const ReferenceRun& run, const Graph& backward) {
  std::vector<TensorData> tangents = run.tangents;
  for (const GraphInput& input : backward.inputs()) {
    const bool is_flag = input.kind == InputKind::kTangent && input.index >= static_cast<int>(run.tangents.size());
    if (is_flag) tangents.push_back({DType::kBool, {}, std::string(1, '\1')});
  }
  return tangents;
}

// Returns the states after the reference run of a method; none if they are not comparable.
std::vector<ExpectedState> StatesAfter(const std::string& method, const TracedProgram& traced,
                                       const CompileOptions& options) {
  // The recorded gradients are those of values that were not packed.
  if (method != kTrainStep || options.saved_tensor_hooks.is_set()) return ExpectedAfterRun(traced);
  // The recorded gradients are those of the unscaled loss, which rounds differently in f16.
  if (options.optimizer->loss_scaling.has_value()) return {};
  return ExpectedAfterStep(traced, OptimizerOf(traced, options));
}

// --- lowering ------------------------------------------------------------------------

absl::StatusOr<Graph> Lower(const Graph& traced, const Compilation& compilation, GraphDump& dump) {
  Graph cleaned = traced;
  COTAN_RETURN_IF_ERROR(GuardUndefinedTangents(cleaned));
  COTAN_RETURN_IF_ERROR(CleanUp(cleaned, dump.Function()));
  const std::optional<DataParallelOptions>& parallel = compilation.options.data_parallel;
  if (parallel.has_value() && parallel->sync_batch_norm) SynchronizeBatchNorm(cleaned);
  BlockLowerer* const blocks = compilation.blocks;
  return LowerToPrims(cleaned, blocks == nullptr ? nullptr : blocks->ForGraph().get());
}

// Makes the forward of a trace whose backward cannot be lowered for the reason `error`.
absl::Status LeaveOutBackward(const absl::Status& error, TracedProgram& traced) {
  COTAN_ASSIGN_OR_RETURN(traced.graph, ForwardOnly(traced.graph));
  traced.backward_refusal = std::string(error.message());
  traced.reference.tangents.clear();
  traced.reference.gradients.clear();
  return absl::OkStatus();
}

}  // namespace

PartitionOptions PartitionOptionsOf(const CompileOptions& options) {
  return {.partitioner = options.partitioner,
          .activation_memory_budget = options.activation_memory_budget,
          .save_policy = options.save_policy};
}

std::string Producer() { return absl::StrCat("cotan ", kVersion, ", LibTorch ", TORCH_VERSION); }

std::vector<std::string> UnsupportedLiveOps(const Graph& traced) {
  Graph live = traced;
  RemoveGradientMarkers(live);
  if (const Graph whole = live; !CleanUp(live).ok()) live = whole;
  const absl::Status split = SplitComplex(live);
  if (!split.ok()) return {std::string(split.message())};
  return UnsupportedOps(live);
}

std::vector<std::string> UnsupportedForwardOps(const Graph& traced) {
  std::vector<std::string> ops = UnsupportedLiveOps(traced);
  if (ops.empty() || !HasBackward(traced)) return ops;
  const absl::StatusOr<Graph> forward = ForwardOnly(traced);
  if (!forward.ok() || !UnsupportedLiveOps(*forward).empty()) return ops;
  return {};
}

absl::StatusOr<TracedMethod> LowerMethod(absl::string_view name, TracedProgram traced, const Compilation& compilation) {
  TracedMethod method{std::move(traced), {}};
  const std::string& dump_dir = compilation.options.debug.dump_dir;
  MethodDraft& draft = method.drafts.emplace_back(
      MethodDraft{.name = std::string(name), .dump = GraphDump(dump_dir, std::string(name))});
  draft.dump.Write("trace", method.traced.graph);
  absl::StatusOr<Graph> lowered = Lower(method.traced.graph, compilation, draft.dump);
  if (absl::IsUnimplemented(lowered.status()) && name == kForward && HasBackward(method.traced.graph)) {
    COTAN_RETURN_IF_ERROR(LeaveOutBackward(lowered.status(), method.traced));
    lowered = Lower(method.traced.graph, compilation, draft.dump);
  }
  COTAN_RETURN_IF_ERROR(lowered.status());
  draft.graph = *std::move(lowered);
  draft.dump.Write("lower", draft.graph);
  if (method.traced.rng_blocks != SymInt(0)) {
    COTAN_RETURN_IF_ERROR(AppendRngAdvance(draft.graph, method.traced.rng_blocks));
  }
  return method;
}

absl::Status AddUpdates(TracedMethod& method, Compilation& compilation) {
  const std::string& name = method.drafts[0].name;
  if (name != kTrainStep && name != kAccumulate) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(PackInside(method.drafts[0], compilation));
  COTAN_RETURN_IF_ERROR(SeedTangent(method.drafts[0].graph, compilation));
  return name == kTrainStep ? AddOptimizer(method, compilation) : AddAccumulation(method, compilation);
}

absl::Status PackBlockValues(const Compilation& compilation, Partitioned& block) {
  return Pack(compilation, /*is_block=*/true, block);
}

absl::Status PartitionForward(TracedMethod& method, const Compilation& compilation) {
  MethodDraft& forward = method.drafts[0];
  const bool is_split = absl::EndsWith(forward.name, kForward);
  if (!is_split || method.traced.reference.tangents.empty()) return absl::OkStatus();
  const std::string name = BackwardName(forward.name);
  COTAN_ASSIGN_OR_RETURN(Partitioned parts, CutAndPack(forward.graph, compilation));
  MethodDraft backward{.name = name,
                       .is_backward = true,
                       .graph = std::move(parts.backward),
                       .dump = GraphDump(compilation.options.debug.dump_dir, name)};
  forward.backward = backward.name;
  forward.graph = std::move(parts.forward);
  forward.dump.Write("partition", forward.graph);
  backward.dump.Write("partition", backward.graph);
  method.drafts.push_back(std::move(backward));
  return absl::OkStatus();
}

absl::Status CutMethodAtSizes(TracedMethod& method, const Compilation& compilation) {
  MethodDraft& called = method.drafts[0];
  for (const MethodDraft& draft : method.drafts) {
    if (&draft == &called || !HasLeadingRows(draft.graph)) continue;
    return absl::UnimplementedError(
        absl::StrCat("method '", draft.name, "': sizes of it depend on data that '", called.name, "' does not count"));
  }
  COTAN_ASSIGN_OR_RETURN(std::vector<SizingGraph> sizing, CutAtSizes(called.graph));
  if (sizing.empty()) return absl::OkStatus();
  called.dump.Write("cut_at_sizes", called.graph);
  const std::string called_name = called.name;
  const auto name_of = [&](size_t part) {
    if (part == sizing.size()) return called_name;
    return absl::StrCat(called_name, kSizes, part == 0 ? "" : absl::StrCat(".", part));
  };
  for (size_t part = 0; part < sizing.size(); ++part) {
    MethodDraft draft{.name = name_of(part),
                      .continuation = name_of(part + 1),
                      .continued = std::move(sizing[part].continued),
                      .graph = std::move(sizing[part].graph),
                      .dump = GraphDump(compilation.options.debug.dump_dir, name_of(part))};
    draft.dump.Write("cut_at_sizes", draft.graph);
    method.drafts.push_back(std::move(draft));
  }
  return absl::OkStatus();
}

absl::Status OptimizeMethod(TracedMethod& method, const LayoutPreferences& layouts) {
  MethodDraft& first = method.drafts[0];
  size_t next = 0;
  if (!first.backward.empty()) {
    MethodDraft& backward = method.drafts[1];
    COTAN_RETURN_IF_ERROR(
        OptimizePair(first.graph, backward.graph, layouts, first.dump.Function(), backward.dump.Function()));
    next = 2;
  }
  for (; next < method.drafts.size(); ++next) {
    COTAN_RETURN_IF_ERROR(Optimize(method.drafts[next].graph, layouts, method.drafts[next].dump.Function()));
  }
  return absl::OkStatus();
}

absl::Status EmitMethod(TracedMethod& method, Compilation& compilation) {
  static const TracedProgram& no_trace = *new TracedProgram;
  for (MethodDraft& draft : method.drafts) {
    COTAN_RETURN_IF_ERROR(EmitDraft(draft, draft.is_traced ? method.traced : no_trace, compilation));
  }
  return absl::OkStatus();
}

void RecordReferences(const TracedMethod& method, Compilation& compilation) {
  if (!compilation.options.debug.store_references) return;
  const MethodDraft& first = method.drafts[0];
  const ReferenceRun& run = method.traced.reference;
  const DType half = HalfDType(method.traced.graph);
  compilation.artifact.AddReference(first.name, run.inputs, run.outputs,
                                    StatesAfter(first.name, method.traced, compilation.options), half);
  if (first.backward.empty() || compilation.options.saved_tensor_hooks.is_set()) return;
  compilation.artifact.AddReference(first.backward, TangentsOfRun(run, method.drafts[1].graph), run.gradients, {},
                                    half);
}

}  // namespace cotan::aot
