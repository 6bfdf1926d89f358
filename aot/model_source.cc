// SPDX-License-Identifier: Apache-2.0

#include "aot/model_source.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/tensor_data.h"
#include "aot/dynamic/resize_examples.h"
#include "aot/frontend/pt2/data_size_nodes.h"
#include "aot/method_stages.h"
#include "base/status_macros.h"
#include "serialization/metadata/tree_spec.h"

namespace cotan::aot {
namespace {

using Backward = TraceOptions::Backward;

// Nesting of a model's arguments and results, without the targets and the result of a loss
// function; unset: flat tuples.
struct Nesting {
  std::optional<TreeSpec> in_spec = {};
  std::optional<TreeSpec> out_spec = {};
};

// Returns the model followed by the loss function, if there is one.
TensorFunction WithLoss(TensorFunction forward, const LossOptions& loss) {
  if (loss.function == nullptr) return forward;
  return [forward = std::move(forward), &loss](const std::vector<at::Tensor>& inputs) {
    const auto targets = inputs.end() - static_cast<std::ptrdiff_t>(loss.targets.size());
    std::vector<at::Tensor> outputs = forward({inputs.begin(), targets});
    outputs.push_back(loss.function(outputs, {targets, inputs.end()}));
    return outputs;
  };
}

// Returns the tuple (spec, more).
TreeSpec Pair(const TreeSpec& spec, TreeSpec more) {
  return {.kind = TreeSpec::Kind::kTuple, .children = {spec, std::move(more)}, .keys = {}};
}

// Returns the trace options that are the same for all methods.
TraceOptions TraceOptionsOf(const std::string& name, const CompileOptions& options) {
  TraceOptions trace;
  trace.name = name;
  trace.seed = options.module.seed;
  trace.store_gradients = options.debug.store_references;
  trace.autocast = options.tracing.autocast;
  trace.attention = AttentionRuleOf(options);
  trace.keep_input_mutations = options.tracing.keep_input_mutations;
  trace.undefined_outputs_are_none = options.tracing.undefined_outputs_are_none;
  trace.decompositions = &options.tracing.decompositions;
  trace.unsupported_ops = UnsupportedLiveOps;
  return trace;
}

// Returns the trace options of a method with a loss.
TraceOptions LossTrace(const std::string& name, size_t num_inputs, const Nesting& nesting,
                       const CompileOptions& options) {
  TraceOptions trace = TraceOptionsOf(name, options);
  trace.backward = Backward::kLoss;
  trace.loss_output = options.loss.output.value_or(-1);  // the result of a loss function is last
  const size_t num_targets = options.loss.targets.size();
  for (size_t i = 0; i < num_inputs; ++i) trace.input_names.push_back(absl::StrCat("input.", i));
  for (size_t i = 0; i < num_targets; ++i) trace.input_names.push_back(absl::StrCat("target.", i));
  trace.in_spec = nesting.in_spec;
  trace.out_spec = nesting.out_spec;
  if (options.loss.function == nullptr) return trace;
  if (nesting.in_spec.has_value() && num_targets > 0) {
    trace.in_spec = Pair(*nesting.in_spec, TreeSpec::FlatTuple(static_cast<int>(num_targets)));
  }
  if (nesting.out_spec.has_value()) trace.out_spec = Pair(*nesting.out_spec, TreeSpec());
  return trace;
}

// Adds the methods of a module in train mode that the options select.
void AddTrainMethods(TraceableModule& module, const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& targets, const Nesting& nesting, const CompileOptions& options,
                     SizedModel& sized) {
  std::vector<std::string> loss_methods;
  if (options.methods.train_step && options.loss.is_set() && options.optimizer.has_value()) {
    loss_methods.emplace_back(kTrainStep);
    if (options.methods.accumulate) loss_methods.emplace_back(kAccumulate);
  }
  std::vector<at::Tensor> arguments = inputs;
  arguments.insert(arguments.end(), targets.begin(), targets.end());
  for (const std::string& name : loss_methods) {
    sized.methods.push_back({&module, /*in_train_mode=*/true, WithLoss(module.forward(), options.loss), arguments,
                             LossTrace(name, inputs.size(), nesting, options)});
  }
  if (!options.methods.forward_backward) return;
  TraceOptions trace = TraceOptionsOf(std::string(kForward), options);
  trace.backward = Backward::kOutputs;
  trace.unsupported_ops = UnsupportedForwardOps;
  trace.in_spec = nesting.in_spec;
  trace.out_spec = nesting.out_spec;
  sized.methods.push_back({&module, /*in_train_mode=*/true, module.forward(), inputs, std::move(trace)});
}

// Adds "eval".
void AddEvalMethod(TraceableModule& module, const std::vector<at::Tensor>& inputs, const Nesting& nesting,
                   const CompileOptions& options, SizedModel& sized) {
  TraceOptions trace = TraceOptionsOf(std::string(kEval), options);
  trace.grad_enabled = false;
  trace.in_spec = nesting.in_spec;
  trace.out_spec = nesting.out_spec;
  sized.methods.push_back({&module, /*in_train_mode=*/false, module.forward(), inputs, std::move(trace)});
}

// Returns the state `name` of the model; null if there is none.
const InitialState* StateOf(const pt2::Model& model, const std::string& name) {
  const auto found = std::find_if(model.states().begin(), model.states().end(),
                                  [&](const InitialState& state) { return state.name == name; });
  return found == model.states().end() ? nullptr : &*found;
}

// InvalidArgument: a state of `eval_model` is not a state of `model`, or has another dtype or other
// sizes there.
absl::Status CheckEvalStates(const pt2::Model& eval_model, const pt2::Model& model) {
  for (const InitialState& state : eval_model.states()) {
    const InitialState* found = StateOf(model, state.name);
    if (found == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the eval model has '", state.name, "', which does not exist in the model: they are not the same module"));
    }
    if (TypeOf(found->value) == TypeOf(state.value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", state.name, "' has another dtype or other sizes in the eval model"));
  }
  return absl::OkStatus();
}

TraceableModule& Keep(TraceableModule module, SizedModel& sized) {
  return *sized.modules.emplace_back(std::make_unique<TraceableModule>(std::move(module)));
}

}  // namespace

absl::StatusOr<TracedProgram> TraceMethod(const TraceRequest& request) {
  absl::Span<const ModuleState> states;
  if (request.module != nullptr) {
    request.module->Train(request.in_train_mode);
    states = request.module->states();
  }
  return Trace(request.function, states, request.inputs, request.options);
}

// --- examples ------------------------------------------------------------------------

std::vector<at::Tensor> ModelSource::AllExamples() const {
  std::vector<at::Tensor> all = examples_;
  all.insert(all.end(), options_.loss.targets.begin(), options_.loss.targets.end());
  return all;
}

absl::StatusOr<DynamicShapes> ModelSource::Shapes() const {
  return ResolveDynamicDims(options_.dynamic_dims, SizesOf(AllExamples()));
}

namespace {

// Returns the examples that CompileOptions::examples_at_sizes makes, after checking their sizes.
absl::StatusOr<std::vector<at::Tensor>> ExamplesOfCaller(const DynamicShapes& shapes, const DimVector& values,
                                                         const CompileOptions& options) {
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < shapes.symbols.size(); ++i) {
    if (!shapes.symbols[i].from_data) sizes[shapes.symbols[i].name] = values[i];
  }
  std::vector<at::Tensor> examples;
  try {
    const at::AutoGradMode grad_mode(true);  // non-leaf examples keep a grad_fn in any grad mode
    examples = options.examples_at_sizes(sizes);
  } catch (...) {
    return StatusFromCurrentException("calling examples_at_sizes");
  }
  if (examples.size() != shapes.sizes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("examples_at_sizes: it returns ", examples.size(), " examples, not ", shapes.sizes.size()));
  }
  for (size_t i = 0; i < examples.size(); ++i) {
    DimVector expected;
    for (const SymInt& size : shapes.sizes[i]) {
      COTAN_ASSIGN_OR_RETURN(const int64_t value, size.Evaluate(values));
      expected.push_back(value);
    }
    if (examples[i].sizes() == at::IntArrayRef(expected.data(), expected.size())) continue;
    return absl::InvalidArgumentError(absl::StrCat("examples_at_sizes: example ", i, " has the sizes ",
                                                   c10::str(examples[i].sizes()), ", not [",
                                                   absl::StrJoin(expected, ", "), "] with ", shapes.ToString(values)));
  }
  return examples;
}

}  // namespace

absl::StatusOr<ModelSource::Arguments> ModelSource::ArgumentsAt(const DynamicShapes& shapes,
                                                                const DimVector& values) const {
  const bool is_fixed = absl::c_all_of(shapes.symbols, [](const DynamicSymbol& symbol) { return symbol.from_data; });
  if (values.empty() || is_fixed) return Arguments{examples_, options_.loss.targets};
  COTAN_ASSIGN_OR_RETURN(const std::vector<at::Tensor> resized, options_.examples_at_sizes == nullptr
                                                                    ? ResizeExamples(AllExamples(), shapes, values)
                                                                    : ExamplesOfCaller(shapes, values, options_));
  const auto targets = resized.begin() + static_cast<std::ptrdiff_t>(examples_.size());
  return Arguments{{resized.begin(), targets}, {targets, resized.end()}};
}

// --- sources -------------------------------------------------------------------------

absl::StatusOr<SizedModel> ModuleSource::AtSizes(const DynamicShapes& shapes, const DimVector& values) const {
  COTAN_ASSIGN_OR_RETURN(const Arguments arguments, ArgumentsAt(shapes, values));
  COTAN_ASSIGN_OR_RETURN(TraceableModule made, TraceableModule::Create(factory_, options().module));
  SizedModel sized;
  TraceableModule& module = Keep(std::move(made), sized);
  AddTrainMethods(module, arguments.inputs, arguments.targets, {}, options(), sized);
  if (options().methods.eval) AddEvalMethod(module, arguments.inputs, {}, options(), sized);
  return sized;
}

absl::StatusOr<SizedModel> FunctionSource::AtSizes(const DynamicShapes& shapes, const DimVector& values) const {
  COTAN_ASSIGN_OR_RETURN(Arguments arguments, ArgumentsAt(shapes, values));
  TraceOptions trace = TraceOptionsOf(std::string(kForward), options());
  trace.backward = Backward::kOutputs;
  trace.unsupported_ops = UnsupportedForwardOps;
  trace.grad_enabled = at::GradMode::is_enabled();
  if (wrappers_ != nullptr) trace.input_names = FlatNames(wrappers_->inputs, InputNames(*wrappers_));
  SizedModel sized;
  sized.methods.push_back(
      {/*module=*/nullptr, /*in_train_mode=*/false, function_, std::move(arguments.inputs), std::move(trace)});
  return sized;
}

absl::StatusOr<Pt2Source> Pt2Source::Create(const pt2::Model& model, const pt2::Model* eval_model,
                                            const std::vector<at::Tensor>& examples, const CompileOptions& options) {
  std::vector<at::Tensor> eval_examples;
  if (eval_model != nullptr) {
    COTAN_ASSIGN_OR_RETURN(eval_examples, eval_model->ExampleInputs());
  }
  if (eval_examples.size() > examples.size()) {
    return absl::InvalidArgumentError("the eval model has more inputs than the model: they are not the same module");
  }
  return Pt2Source(model, eval_model, std::move(eval_examples), examples, options);
}

absl::StatusOr<DynamicShapes> Pt2Source::Shapes() const {
  DynamicShapes shapes;
  shapes.sizes = model_.InputSizes();
  if (shapes.sizes.size() != examples().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the model takes ", shapes.sizes.size(), " tensors, and there are ",
                                                   examples().size(), " examples"));
  }
  for (const pt2::Symbol& symbol : model_.program().symbols) {
    shapes.symbols.push_back({symbol.name, std::max<int64_t>(symbol.min, 1),
                              std::min(symbol.max.value_or(kNoMaximum), kNoMaximum), /*example=*/0});
  }
  COTAN_RETURN_IF_ERROR(SolveExamples(SizesOf(examples()), shapes));
  const SymInt batch = shapes.sizes.empty() || shapes.sizes[0].empty() ? SymInt(0) : shapes.sizes[0][0];
  for (const at::Tensor& target : options().loss.targets) {
    SymIntVector& sizes = shapes.sizes.emplace_back(target.sizes().begin(), target.sizes().end());
    if (!sizes.empty() && !batch.is_constant() && target.size(0) == examples()[0].size(0)) sizes[0] = batch;
  }
  return DeclareSymbols(options().dynamic_dims, KeepUsedSymbols(std::move(shapes)));
}

std::optional<pt2::RepeatLimits> Pt2Source::Repeats() const {
  // Only some of equal layers may have adapters or quantized weights.
  const ModuleOptions& module = options().module;
  const bool has_equal_layers = module.lora.modules.empty() && module.quantize.parameters.empty();
  if (options().find_blocks == FindBlocks::kOff || !has_equal_layers) return std::nullopt;
  // Layers have more nodes; a norm or a convolution with its activation, of which a layer has several, has fewer.
  pt2::RepeatLimits limits{.min_calls = 2, .min_nodes = 12};
  if (options().find_blocks == FindBlocks::kOn) return limits;
  limits.min_calls = kManyCalls;
  if (CanShareBlocks()) return limits;
  return std::nullopt;
}

bool Pt2Source::CanShareBlocks() const {
  const std::optional<DataParallelOptions>& parallel = options().data_parallel;
  const bool synchronizes = parallel.has_value() && parallel->sync_batch_norm;
  return options().order == 1 && !options().saved_tensor_hooks.on_host && !synchronizes && !has_data_sizes();
}

bool Pt2Source::has_data_sizes() const {
  return pt2::HasBoundedDataSizes(model_.program().graph) ||
         (eval_model_ != nullptr && pt2::HasBoundedDataSizes(eval_model_->program().graph));
}

absl::StatusOr<SizedModel> Pt2Source::AtSizes(const DynamicShapes& shapes, const DimVector& values) const {
  COTAN_ASSIGN_OR_RETURN(const Arguments arguments, ArgumentsAt(shapes, values));
  COTAN_ASSIGN_OR_RETURN(TraceableModule made,
                         TraceableModule::FromFunction(model_.function(Repeats()), model_.states(), options().module));
  SizedModel sized;
  AddTrainMethods(Keep(std::move(made), sized), arguments.inputs, arguments.targets,
                  {model_.in_spec(), model_.out_spec()}, options(), sized);
  if (eval_model_ != nullptr && options().methods.eval) COTAN_RETURN_IF_ERROR(AddEval(shapes, values, sized));
  return sized;
}

absl::Status Pt2Source::AddEval(const DynamicShapes& shapes, const DimVector& values, SizedModel& sized) const {
  COTAN_RETURN_IF_ERROR(CheckEvalStates(*eval_model_, model_));
  std::vector<at::Tensor> inputs = eval_examples_;
  if (!values.empty()) {  // those of fixed sizes are kept
    COTAN_ASSIGN_OR_RETURN(inputs, ResizeExamples(eval_examples_, shapes, values));
  }
  ModuleOptions module_options = options().module;
  module_options.initial_values.clear();
  for (const InitialState& state : eval_model_->states()) {
    module_options.initial_values.emplace_back(state.name, StateOf(model_, state.name)->value);
  }
  COTAN_ASSIGN_OR_RETURN(TraceableModule made, TraceableModule::FromFunction(eval_model_->function(Repeats()),
                                                                             eval_model_->states(), module_options));
  AddEvalMethod(Keep(std::move(made), sized), inputs, {eval_model_->in_spec(), eval_model_->out_spec()}, options(),
                sized);
  return absl::OkStatus();
}

}  // namespace cotan::aot
