// SPDX-License-Identifier: Apache-2.0

#include "aot/compile.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/cached_compile.h"
#include "aot/capture/tensor_data.h"
#include "aot/compile_methods.h"
#include "aot/dynamic/compile_at_sizes.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "aot/emit/artifact_builder.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

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

ModuleOptions ModuleOptionsOf(const CompileOptions& options) {
  return {.seed = options.seed, .frozen = options.frozen, .initial_values = options.initial_values};
}

// Fits a compiled model into max_memory. Runs after the cache, which stores artifacts without a
// limit.
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

// --- Dynamic dimensions ---------------------------------------------------------

// Returns the sizes of the examples, then of the targets.
std::vector<DimVector> ArgumentSizes(const std::vector<at::Tensor>& examples, const CompileOptions& options) {
  std::vector<at::Tensor> arguments = examples;
  arguments.insert(arguments.end(), options.targets.begin(), options.targets.end());
  return SizesOf(arguments);
}

// Compiles at several sizes and merges the artifacts; summaries and references are those of the first.
absl::StatusOr<CompiledModel> CompileDynamic(const DynamicShapes& shapes, RangeEnds ends,
                                             const std::vector<at::Tensor>& examples, const CompileOptions& options,
                                             const CompileFixed& compile, const WrapperStructure* wrappers = nullptr) {
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
    COTAN_ASSIGN_OR_RETURN(const CompiledModel model,
                           CompileThroughCache(compile, resized, fixed, values, &log, wrappers));
    if (is_first) summaries = model.methods();
    if (!log.traces_only && (is_first || outcome.kind == CacheOutcome::Kind::kHit)) outcome = model.cache();
    return model.bytes();
  };
  COTAN_ASSIGN_OR_RETURN(std::string bytes, CompileAtSizes(shapes, ends, compile_at));
  CompiledModel model(std::move(bytes), std::move(summaries));
  model.set_cache(std::move(outcome));
  return model;
}

// Compiles with the dynamic dimensions of the options; with fixed sizes if there are none.
absl::StatusOr<CompiledModel> CompileDeclared(const std::vector<at::Tensor>& examples, const CompileOptions& options,
                                              const CompileFixed& compile, const WrapperStructure* wrappers = nullptr) {
  if (options.dynamic_dims.empty()) return CompileThroughCache(compile, examples, options, {}, nullptr, wrappers);
  COTAN_ASSIGN_OR_RETURN(const DynamicShapes shapes,
                         ResolveDynamicDims(options.dynamic_dims, ArgumentSizes(examples, options)));
  return CompileDynamic(shapes, RangeEnds::kTraced, examples, options, compile, wrappers);
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
  compilation.in_spec = model.in_spec();
  compilation.out_spec = model.out_spec();
  COTAN_RETURN_IF_ERROR(AddTrainMethods(module, examples, compilation));
  if (eval_model != nullptr && options.methods.eval) {
    COTAN_RETURN_IF_ERROR(CheckEvalStates(*eval_model, model));
    ModuleOptions eval_options;
    for (const InitialState& state : eval_model->states()) {
      eval_options.initial_values.emplace_back(state.name, StateOf(model, state.name)->value);
    }
    COTAN_ASSIGN_OR_RETURN(TraceableModule eval,
                           TraceableModule::FromFunction(eval_model->function(), eval_model->states(), eval_options));
    compilation.in_spec = eval_model->in_spec();
    compilation.out_spec = eval_model->out_spec();
    COTAN_RETURN_IF_ERROR(AddEval(eval, eval_examples, compilation));
  }
  return Build(std::move(compilation));
}

absl::StatusOr<CompiledModel> CompileFixedFunction(const TensorFunction& function,
                                                   const std::vector<at::Tensor>& examples,
                                                   const CompileOptions& options, TraceLog* log,
                                                   const WrapperStructure* wrappers = nullptr) {
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  Compilation compilation{options, ArtifactBuilder(options.seed), log};
  compilation.wrappers = wrappers;
  COTAN_RETURN_IF_ERROR(AddForwardBackward(function, {}, examples, at::GradMode::is_enabled(), compilation));
  return Build(std::move(compilation));
}

// Returns the symbolic sizes of the inputs in the archive, solved for these examples; without
// symbols if all sizes are fixed. The archive has no sizes of targets: a target with the batch size
// of the first input as dimension 0 gets its symbol there.
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
  const CompileFixed compile = [&](const std::vector<at::Tensor>& inputs, const CompileOptions& fixed, const DimVector&,
                                   TraceLog* log) {
    return CompileFixedFunction(function, inputs, fixed, log, &wrappers);
  };
  return LimitMemory(CompileDeclared(examples, options, compile, &wrappers), options);
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
