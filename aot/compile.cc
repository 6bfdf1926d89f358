#include "aot/compile.h"

#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "aot/artifact_builder.h"
#include "aot/cache/compile_cache.h"
#include "aot/cache/compile_key.h"
#include "aot/dump.h"
#include "aot/dynamic/compile_at_sizes.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "aot/emit/emit.h"
#include "aot/joint/reference.h"
#include "aot/lower/complex.h"
#include "aot/lower/lower.h"
#include "aot/lower/op_table.h"
#include "aot/partition/partition.h"
#include "aot/partition/saved_values.h"
#include "aot/trace/tensor_data.h"
#include "aot/trace/tracer.h"
#include "aot/wrap_method.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using Backward = TraceOptions::Backward;

// What the methods of one model have in common while they are compiled.
struct Compilation {
  const CompileOptions& options;
  ArtifactBuilder artifact;
  TraceLog* log = nullptr;  // if not null: keeps the traces
  std::vector<MethodSummary> summaries = {};
  const WrapperStructure* wrappers = nullptr;  // null: no tensor is of a wrapper type

  // Whether methods are traced and not compiled.
  bool traces_only() const { return log != nullptr && log->traces_only; }
};

bool HasLoss(const CompileOptions& options) { return options.loss_output.has_value() || options.loss != nullptr; }

absl::Status CheckOptions(const CompileOptions& options) {
  if (options.loss_output.has_value() && options.loss != nullptr) {
    return absl::InvalidArgumentError("give either loss_output or a loss function, not both");
  }
  if (options.loss == nullptr && !options.targets.empty()) {
    return absl::InvalidArgumentError("targets are the inputs of a loss function, and there is none");
  }
  if (options.accumulate_gradients && !options.optimizer.has_value()) {
    return absl::InvalidArgumentError("accumulate_gradients needs an optimizer");
  }
  return absl::OkStatus();
}

// The model followed by the loss function, if there is one.
TensorFunction WithLoss(const TensorFunction& forward, const CompileOptions& options) {
  if (options.loss == nullptr) return forward;
  return [forward, &options](const std::vector<at::Tensor>& inputs) {
    const auto targets = inputs.end() - static_cast<std::ptrdiff_t>(options.targets.size());
    std::vector<at::Tensor> outputs = forward({inputs.begin(), targets});
    outputs.push_back(options.loss(outputs, {targets, inputs.end()}));
    return outputs;
  };
}

std::vector<std::string> UnsupportedLiveOps(const Graph& traced) {
  Graph live = traced;
  if (!CleanUp(live).ok()) live = traced;
  const absl::Status split = SplitComplex(live);
  if (!split.ok()) return {std::string(split.message())};
  return UnsupportedOps(live);
}

// --- The stages of every method -------------------------------------------------

// A traced method on its way to the artifact.
struct Draft {
  std::string name;
  TracedProgram traced;
  Graph graph;  // lowered
  GraphDump dump;
  bool grad_enabled = true;  // when it was traced
};

// The trace that the log remembers, otherwise a new one.
absl::StatusOr<TracedProgram> TraceOnce(const TensorFunction& function, absl::Span<const ModuleState> states,
                                        const std::vector<at::Tensor>& inputs, const TraceOptions& trace,
                                        const Compilation& compilation) {
  TraceMemo* memo = compilation.log == nullptr ? nullptr : compilation.log->memo;
  if (memo == nullptr) return Trace(function, states, inputs, trace);
  if (const auto it = memo->find(trace.name); it != memo->end()) return it->second;
  COTAN_ASSIGN_OR_RETURN(TracedProgram traced, Trace(function, states, inputs, trace));
  return memo->emplace(trace.name, std::move(traced)).first->second;
}

// Trace, clean up, lower.
absl::StatusOr<Draft> TraceAndLower(const TensorFunction& function, absl::Span<const ModuleState> states,
                                    const std::vector<at::Tensor>& inputs, TraceOptions trace,
                                    Compilation& compilation) {
  trace.seed = compilation.options.seed;
  trace.autocast = compilation.options.autocast;
  trace.keep_input_mutations = compilation.options.keep_input_mutations;
  trace.undefined_outputs_are_none = compilation.options.undefined_outputs_are_none;
  trace.unsupported_ops = UnsupportedLiveOps;
  Draft draft{trace.name, {}, {}, GraphDump(compilation.options.dump_dir, trace.name), trace.grad_enabled};
  COTAN_ASSIGN_OR_RETURN(draft.traced, TraceOnce(function, states, inputs, trace, compilation));
  draft.dump.Write("trace", draft.traced.graph);
  if (compilation.log != nullptr) compilation.log->traces.push_back(draft.traced.graph);
  if (compilation.traces_only()) return draft;
  Graph cleaned = draft.traced.graph;
  COTAN_RETURN_IF_ERROR(CleanUp(cleaned, draft.dump.Function()));
  COTAN_ASSIGN_OR_RETURN(draft.graph, LowerToPrims(cleaned));
  draft.dump.Write("lower", draft.graph);
  if (draft.traced.rng_blocks != SymInt(0)) {
    COTAN_RETURN_IF_ERROR(AppendRngAdvance(draft.graph, draft.traced.rng_blocks));
  }
  return draft;
}

// Whose gradients the backward returns. Among the inputs of a traced graph states
// lie before bases, among the program's arguments behind them.
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
}

// Emit an optimized graph, add it to the artifact. `graph` is the draft's, or a
// part of it; `backward` names the method that takes what this one saves.
absl::Status Finish(Graph graph, const std::string& name, const std::string& backward, Draft& draft,
                    Compilation& compilation) {
  graph.name = name;
  compilation.artifact.AddTracedStates(draft.traced, graph);
  COTAN_ASSIGN_OR_RETURN(serialization::Method method, Emit(graph, compilation.artifact.states()));
  method.set_name(name);
  method.set_backward_method(backward);
  if (name == "backward") DescribeGradients(graph, draft.traced, method);
  if (name != "backward") {
    method.set_traced_without_grad(!draft.grad_enabled);
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

// The same for a method that is one graph.
absl::Status OptimizeAndFinish(const std::string& name, Draft& draft, Compilation& compilation) {
  COTAN_RETURN_IF_ERROR(Optimize(draft.graph, draft.dump.Function()));
  return Finish(draft.graph, name, "", draft, compilation);
}

void AddReference(const std::string& method, const TracedProgram& traced,
                  const std::vector<ExpectedState>& states_after, Compilation& compilation) {
  if (!compilation.options.store_references) return;
  compilation.artifact.AddReference(method, traced.reference.inputs, traced.reference.outputs, states_after);
}

// --- The methods --------------------------------------------------------------------

TraceOptions LossTrace(const std::string& name, size_t num_inputs, const CompileOptions& options) {
  TraceOptions trace;
  trace.name = name;
  trace.backward = Backward::kLoss;
  trace.loss_output = options.loss_output.value_or(-1);  // a loss function's comes last
  for (size_t i = 0; i < num_inputs; ++i) trace.input_names.push_back(absl::StrCat("input.", i));
  for (size_t i = 0; i < options.targets.size(); ++i) {
    trace.input_names.push_back(absl::StrCat("target.", i));
  }
  return trace;
}

// The joint graph of model and loss, its tangent set to 1.
absl::StatusOr<Draft> DraftLossStep(const std::string& name, TraceableModule& module,
                                    const std::vector<at::Tensor>& examples, Compilation& compilation) {
  const CompileOptions& options = compilation.options;
  std::vector<at::Tensor> inputs = examples;
  inputs.insert(inputs.end(), options.targets.begin(), options.targets.end());
  module.Train(true);
  COTAN_ASSIGN_OR_RETURN(Draft draft, TraceAndLower(WithLoss(module.forward(), options), module.states(), inputs,
                                                    LossTrace(name, examples.size(), options), compilation));
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
  COTAN_ASSIGN_OR_RETURN(Draft draft, DraftLossStep("train_step", module, examples, compilation));
  if (compilation.traces_only()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const NewStates slots, AppendOptimizer(optimizer, draft.graph));
  draft.dump.Write("optimizer", draft.graph);
  compilation.artifact.AddTracedStates(draft.traced, draft.graph);
  compilation.artifact.AddStates(slots);
  COTAN_RETURN_IF_ERROR(OptimizeAndFinish("train_step", draft, compilation));

  // The recorded gradients are those of the loss without a scale, which f16 rounds otherwise.
  const bool is_scaled = optimizer.loss_scaling.has_value();
  AddReference("train_step", draft.traced,
               is_scaled ? std::vector<ExpectedState>() : ExpectedAfterStep(draft.traced, optimizer), compilation);
  return absl::OkStatus();
}

absl::Status AddAccumulation(TraceableModule& module, const std::vector<at::Tensor>& examples,
                             Compilation& compilation) {
  COTAN_ASSIGN_OR_RETURN(Draft draft, DraftLossStep("accumulate", module, examples, compilation));
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
  Draft apply_draft{"apply_optimizer", {}, {}, GraphDump(compilation.options.dump_dir, "apply_optimizer"), true};
  apply_draft.graph = std::move(apply.graph);
  return OptimizeAndFinish("apply_optimizer", apply_draft, compilation);
}

absl::Status AddForwardBackward(const TensorFunction& function, absl::Span<const ModuleState> states,
                                const std::vector<at::Tensor>& examples, bool grad_enabled, Compilation& compilation) {
  TraceOptions trace{.name = "forward", .backward = Backward::kOutputs, .grad_enabled = grad_enabled};
  if (compilation.wrappers != nullptr) {
    trace.input_names = FlatNames(compilation.wrappers->inputs, InputNames(*compilation.wrappers));
  }
  COTAN_ASSIGN_OR_RETURN(Draft draft, TraceAndLower(function, states, examples, std::move(trace), compilation));
  if (compilation.traces_only()) return absl::OkStatus();
  const ReferenceRun& run = draft.traced.reference;
  if (run.tangents.empty()) {
    COTAN_RETURN_IF_ERROR(OptimizeAndFinish("forward", draft, compilation));
    AddReference("forward", draft.traced, ExpectedAfterRun(draft.traced), compilation);
    return absl::OkStatus();
  }
  COTAN_ASSIGN_OR_RETURN(Partitioned parts, Partition(draft.graph));
  COTAN_RETURN_IF_ERROR(OptimizePair(parts.forward, parts.backward, draft.dump.Function()));
  COTAN_RETURN_IF_ERROR(Finish(std::move(parts.forward), "forward", "backward", draft, compilation));
  COTAN_RETURN_IF_ERROR(Finish(std::move(parts.backward), "backward", "", draft, compilation));
  AddReference("forward", draft.traced, ExpectedAfterRun(draft.traced), compilation);
  if (compilation.options.store_references) {
    compilation.artifact.AddReference("backward", run.tangents, run.gradients, {});
  }
  return absl::OkStatus();
}

absl::Status AddEval(TraceableModule& module, const std::vector<at::Tensor>& examples, Compilation& compilation) {
  module.Train(false);
  COTAN_ASSIGN_OR_RETURN(Draft draft, TraceAndLower(module.forward(), module.states(), examples,
                                                    {.name = "eval", .grad_enabled = false}, compilation));
  if (compilation.traces_only()) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(OptimizeAndFinish("eval", draft, compilation));
  AddReference("eval", draft.traced, ExpectedAfterRun(draft.traced), compilation);
  return absl::OkStatus();
}

// All methods of a module in train mode.
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

// Null if there is none.
const InitialState* StateOf(const pt2::Model& model, const std::string& name) {
  const auto found = std::find_if(model.states().begin(), model.states().end(),
                                  [&](const InitialState& state) { return state.name == name; });
  return found == model.states().end() ? nullptr : &*found;
}

// Whether all states of a model in eval mode are those of the same in train mode.
absl::Status CheckEvalStates(const pt2::Model& eval_model, const pt2::Model& model) {
  for (const InitialState& state : eval_model.states()) {
    const InitialState* found = StateOf(model, state.name);
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the eval model has '", state.name, "', and the model has not: they are not the same module"));
    }
    if (TypeOf(found->value) == TypeOf(state.value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", state.name, "' has another dtype or other sizes in the eval model"));
  }
  return absl::OkStatus();
}

ModuleOptions ModuleOptionsOf(const CompileOptions& options) {
  return {.seed = options.seed, .frozen = options.frozen, .initial_values = options.initial_values};
}

std::string Producer() { return absl::StrCat("cotan, LibTorch ", TORCH_VERSION); }

absl::StatusOr<CompiledModel> Build(Compilation compilation) {
  if (compilation.traces_only()) return CompiledModel("", {});
  COTAN_ASSIGN_OR_RETURN(std::string bytes, std::move(compilation.artifact).Build(Producer()));
  return CompiledModel(std::move(bytes), std::move(compilation.summaries));
}

// Behind the cache, which keeps artifacts as they are without a limit.
absl::StatusOr<CompiledModel> LimitMemory(absl::StatusOr<CompiledModel> compiled, const CompileOptions& options) {
  if (!compiled.ok() || !options.max_memory.has_value()) return compiled;
  std::string file = compiled->bytes();
  COTAN_ASSIGN_OR_RETURN(std::vector<MethodMemory> memory,
                         FitFileIntoMemory(options.max_memory->bytes, options.max_memory->target, file));
  std::vector<MethodSummary> methods = compiled->methods();
  for (MethodSummary& method : methods) {
    const auto found = std::find_if(memory.begin(), memory.end(),
                                    [&](const MethodMemory& fitted) { return fitted.name == method.name; });
    if (found == memory.end()) continue;
    method.runtime_ops = found->num_ops;
    method.memory = std::move(*found);
  }
  compiled->Replace(std::move(file), std::move(methods));
  return compiled;
}

// One of the ways to compile, with sizes that are fixed.
using CompileFixed = std::function<absl::StatusOr<CompiledModel>(
    const std::vector<at::Tensor>& examples, const CompileOptions& options, const DimVector& values, TraceLog* log)>;

// --- The cache ------------------------------------------------------------------

std::string KeyOf(const TraceMemo& memo, const CompileOptions& options) {
  std::vector<KeyedTrace> traces;
  for (const auto& [name, traced] : memo) traces.push_back({name, &traced});
  return CompileKey(traces, {.optimizer = options.optimizer,
                             .accumulate_gradients = options.accumulate_gradients,
                             .store_references = options.store_references,
                             .seed = options.seed,
                             .producer = Producer()});
}

// An entry is a line for each method, an empty line, and the artifact.
std::string EntryOf(const CompiledModel& model) {
  const auto append_method = [](std::string* out, const MethodSummary& method) {
    absl::StrAppend(out, method.name, " ", method.traced_ops, " ", method.runtime_ops, "\n");
  };
  return absl::StrCat(absl::StrJoin(model.methods(), "", append_method), "\n", model.bytes());
}

absl::StatusOr<CompiledModel> ModelOf(absl::string_view entry) {
  std::vector<MethodSummary> methods;
  while (true) {
    const std::pair<absl::string_view, absl::string_view> split = absl::StrSplit(entry, absl::MaxSplits('\n', 1));
    entry = split.second;
    if (split.first.empty()) return CompiledModel(std::string(entry), std::move(methods));
    const std::vector<absl::string_view> words = absl::StrSplit(split.first, ' ');
    MethodSummary& method = methods.emplace_back();
    if (words.size() != 3 || !absl::SimpleAtoi(words[1], &method.traced_ops) ||
        !absl::SimpleAtoi(words[2], &method.runtime_ops)) {
      return absl::DataLossError(absl::StrCat("compile cache: '", split.first, "' is no summary of a method"));
    }
    method.name = std::string(words[0]);
  }
}

// Traces, and compiles what the cache does not have. Traces alone need no cache.
absl::StatusOr<CompiledModel> CompileThroughCache(const CompileFixed& compile, const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const DimVector& values,
                                                  TraceLog* log) {
  if (options.cache_dir.empty() || (log != nullptr && log->traces_only)) {
    return compile(examples, options, values, log);
  }
  if (!options.dump_dir.empty()) {
    COTAN_ASSIGN_OR_RETURN(CompiledModel model, compile(examples, options, values, log));
    model.set_cache({CacheOutcome::Kind::kBypassed, "dump_dir asks for the stages, which an entry does not have"});
    return model;
  }
  COTAN_ASSIGN_OR_RETURN(const CompileCache cache, CompileCache::Open(options.cache_dir));
  TraceMemo memo;
  TraceLog traces{.traces_only = true, .memo = &memo};
  COTAN_RETURN_IF_ERROR(compile(examples, options, values, &traces).status());
  if (log != nullptr) log->traces = std::move(traces.traces);
  const std::string key = KeyOf(memo, options);
  CacheOutcome outcome;
  const std::string entry = cache.Find(key, outcome);
  if (outcome.kind == CacheOutcome::Kind::kHit) {
    COTAN_ASSIGN_OR_RETURN(CompiledModel model, ModelOf(entry));
    model.set_cache(std::move(outcome));
    return model;
  }
  TraceLog remembered{.memo = &memo};
  COTAN_ASSIGN_OR_RETURN(CompiledModel model, compile(examples, options, values, &remembered));
  const absl::Status stored = cache.Store(key, EntryOf(model));
  // The artifact is as good without an entry.
  if (!stored.ok()) absl::StrAppend(&outcome.reason, "the entry cannot be written: ", stored.message());
  model.set_cache(std::move(outcome));
  return model;
}

// --- Dynamic dimensions ---------------------------------------------------------

// The sizes of the examples, then of the targets.
std::vector<DimVector> ArgumentSizes(const std::vector<at::Tensor>& examples, const CompileOptions& options) {
  std::vector<at::Tensor> arguments = examples;
  arguments.insert(arguments.end(), options.targets.begin(), options.targets.end());
  return SizesOf(arguments);
}

absl::StatusOr<CompiledModel> CompileDynamic(const DynamicShapes& shapes, RangeEnds ends,
                                             const std::vector<at::Tensor>& examples, const CompileOptions& options,
                                             const CompileFixed& compile) {
  std::vector<at::Tensor> arguments = examples;
  arguments.insert(arguments.end(), options.targets.begin(), options.targets.end());
  std::vector<MethodSummary> summaries;
  CacheOutcome outcome;
  const auto compile_at = [&](const DimVector& values, bool is_first, TraceLog& log) -> absl::StatusOr<std::string> {
    COTAN_ASSIGN_OR_RETURN(std::vector<at::Tensor> resized, ResizeExamples(arguments, shapes, values));
    const auto targets = resized.begin() + static_cast<std::ptrdiff_t>(examples.size());
    CompileOptions fixed = options;
    fixed.dynamic_dims.clear();
    fixed.targets.assign(targets, resized.end());
    resized.erase(targets, resized.end());
    fixed.store_references = options.store_references && is_first;
    if (!is_first) fixed.dump_dir.clear();
    COTAN_ASSIGN_OR_RETURN(const CompiledModel model, CompileThroughCache(compile, resized, fixed, values, &log));
    if (is_first) summaries = model.methods();
    if (!log.traces_only && (is_first || outcome.kind == CacheOutcome::Kind::kHit)) outcome = model.cache();
    return model.bytes();
  };
  COTAN_ASSIGN_OR_RETURN(std::string bytes, CompileAtSizes(shapes, ends, compile_at));
  CompiledModel model(std::move(bytes), std::move(summaries));
  model.set_cache(std::move(outcome));
  return model;
}

// As the options declare them; fixed sizes if they declare none.
absl::StatusOr<CompiledModel> CompileDeclared(const std::vector<at::Tensor>& examples, const CompileOptions& options,
                                              const CompileFixed& compile) {
  if (options.dynamic_dims.empty()) return CompileThroughCache(compile, examples, options, {}, nullptr);
  COTAN_ASSIGN_OR_RETURN(const DynamicShapes shapes,
                         ResolveDynamicDims(options.dynamic_dims, ArgumentSizes(examples, options)));
  return CompileDynamic(shapes, RangeEnds::kTraced, examples, options, compile);
}

absl::StatusOr<CompiledModel> CompileFixedModule(const ModuleFactory& factory, const std::vector<at::Tensor>& examples,
                                                 const CompileOptions& options, TraceLog* log) {
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  COTAN_ASSIGN_OR_RETURN(TraceableModule module, TraceableModule::Create(factory, ModuleOptionsOf(options)));
  Compilation compilation{options, ArtifactBuilder(options.seed), log};
  COTAN_RETURN_IF_ERROR(AddTrainMethods(module, examples, compilation));
  if (options.methods.eval) COTAN_RETURN_IF_ERROR(AddEval(module, examples, compilation));
  return Build(std::move(compilation));
}

absl::StatusOr<CompiledModel> CompileFixedPt2(const pt2::Model& model, const std::vector<at::Tensor>& examples,
                                              const CompileOptions& options, const pt2::Model* eval_model,
                                              const std::vector<at::Tensor>& eval_examples, TraceLog* log) {
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  COTAN_ASSIGN_OR_RETURN(TraceableModule module,
                         TraceableModule::FromFunction(model.function(), model.states(), ModuleOptionsOf(options)));
  Compilation compilation{options, ArtifactBuilder(options.seed), log};
  COTAN_RETURN_IF_ERROR(AddTrainMethods(module, examples, compilation));
  if (eval_model != nullptr && options.methods.eval) {
    COTAN_RETURN_IF_ERROR(CheckEvalStates(*eval_model, model));
    ModuleOptions eval_options;
    for (const InitialState& state : eval_model->states()) {
      eval_options.initial_values.emplace_back(state.name, StateOf(model, state.name)->value);
    }
    COTAN_ASSIGN_OR_RETURN(TraceableModule eval,
                           TraceableModule::FromFunction(eval_model->function(), eval_model->states(), eval_options));
    COTAN_RETURN_IF_ERROR(AddEval(eval, eval_examples, compilation));
  }
  return Build(std::move(compilation));
}

absl::StatusOr<CompiledModel> CompileFixedFunction(const TensorFunction& function,
                                                   const std::vector<at::Tensor>& examples,
                                                   const CompileOptions& options, TraceLog* log) {
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  Compilation compilation{options, ArtifactBuilder(options.seed), log};
  COTAN_RETURN_IF_ERROR(AddForwardBackward(function, {}, examples, at::GradMode::is_enabled(), compilation));
  return Build(std::move(compilation));
}

// What the archive says of the sizes of its inputs, for these examples; no
// symbols if all sizes are fixed. Of targets it says nothing: as many rows as the
// first input has in its batch are rows of a batch.
absl::StatusOr<DynamicShapes> ShapesOf(const pt2::Model& model, const std::vector<at::Tensor>& examples,
                                       const CompileOptions& options) {
  DynamicShapes shapes;
  shapes.sizes = model.InputSizes();
  if (shapes.sizes.size() != examples.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the model takes ", shapes.sizes.size(), " tensors, and there are ",
                                                   examples.size(), " examples"));
  }
  for (const pt2::Symbol& symbol : model.program().symbols) {
    shapes.symbols.push_back({symbol.name, std::max<int64_t>(symbol.min, 1),
                              std::min(symbol.max.value_or(kNoMaximum), kNoMaximum), /*example=*/0});
  }
  COTAN_RETURN_IF_ERROR(SolveExamples(SizesOf(examples), shapes));
  const SymInt batch = shapes.sizes.empty() || shapes.sizes[0].empty() ? SymInt(0) : shapes.sizes[0][0];
  for (const at::Tensor& target : options.targets) {
    SymIntVector& sizes = shapes.sizes.emplace_back(target.sizes().begin(), target.sizes().end());
    if (!sizes.empty() && !batch.is_constant() && target.size(0) == examples[0].size(0)) sizes[0] = batch;
  }
  return KeepUsedSymbols(std::move(shapes));
}

}  // namespace

absl::StatusOr<CompiledModel> CompileModuleFactory(const ModuleFactory& factory,
                                                   const std::vector<at::Tensor>& examples,
                                                   const CompileOptions& options) {
  const CompileFixed compile = [&](const std::vector<at::Tensor>& resized, const CompileOptions& fixed,
                                   const DimVector&,
                                   TraceLog* log) { return CompileFixedModule(factory, resized, fixed, log); };
  return LimitMemory(CompileDeclared(examples, options, compile), options);
}

absl::StatusOr<CompiledModel> CompileFlatFunction(const TensorFunction& function,
                                                  const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const WrapperStructure& wrappers) {
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  if (!options.dynamic_dims.empty()) return absl::UnimplementedError("dynamic dimensions of wrapper types");
  Compilation compilation{options, ArtifactBuilder(options.seed)};
  compilation.wrappers = &wrappers;
  COTAN_RETURN_IF_ERROR(AddForwardBackward(function, {}, examples, at::GradMode::is_enabled(), compilation));
  COTAN_ASSIGN_OR_RETURN(CompiledModel model, Build(std::move(compilation)));
  if (!options.cache_dir.empty()) {
    model.set_cache({CacheOutcome::Kind::kBypassed, "the key tells nothing of wrapper types"});
  }
  return LimitMemory(std::move(model), options);
}

absl::StatusOr<CompiledModel> CompileTensorFunction(const TensorFunction& function,
                                                    const std::vector<at::Tensor>& examples,
                                                    const CompileOptions& options) {
  const CompileFixed compile = [&](const std::vector<at::Tensor>& resized, const CompileOptions& fixed,
                                   const DimVector&,
                                   TraceLog* log) { return CompileFixedFunction(function, resized, fixed, log); };
  return LimitMemory(CompileDeclared(examples, options, compile), options);
}

absl::StatusOr<CompiledModel> CompilePt2(const pt2::Model& model, const std::vector<at::Tensor>& examples,
                                         const CompileOptions& options, const pt2::Model* eval_model) {
  COTAN_ASSIGN_OR_RETURN(const DynamicShapes shapes, ShapesOf(model, examples, options));
  std::vector<at::Tensor> eval_examples;
  if (eval_model != nullptr) {
    COTAN_ASSIGN_OR_RETURN(eval_examples, eval_model->ExampleInputs());
  }
  if (eval_examples.size() > examples.size()) {
    return absl::InvalidArgumentError("the eval model has more inputs than the model: they are not the same module");
  }
  const CompileFixed compile = [&](const std::vector<at::Tensor>& resized, const CompileOptions& fixed,
                                   const DimVector& values, TraceLog* log) -> absl::StatusOr<CompiledModel> {
    std::vector<at::Tensor> eval_resized = eval_examples;
    if (!values.empty()) {
      COTAN_ASSIGN_OR_RETURN(eval_resized, ResizeExamples(eval_examples, shapes, values));
    }
    return CompileFixedPt2(model, resized, fixed, eval_model, eval_resized, log);
  };
  if (!options.dynamic_dims.empty()) {
    COTAN_ASSIGN_OR_RETURN(const DynamicShapes declared, DeclareSymbols(options.dynamic_dims, shapes));
    return LimitMemory(CompileDynamic(declared, RangeEnds::kTrusted, examples, options, compile), options);
  }
  if (shapes.symbols.empty()) {
    return LimitMemory(CompileThroughCache(compile, examples, options, {}, nullptr), options);
  }
  return LimitMemory(CompileDynamic(shapes, RangeEnds::kTrusted, examples, options, compile), options);
}

absl::Status CompiledModel::Save(const std::string& path) const {
  const absl::string_view piece = bytes_;
  return WriteFileAtomically(path, {&piece, 1});
}

}  // namespace cotan::aot
