// SPDX-License-Identifier: Apache-2.0

// Compiles a torch::nn module or a function of tensors ahead of time into a .cotan artifact, which
// //runtime loads, executes and trains without LibTorch.
//
//   cotan::aot::CompileOptions options;
//   options.loss = [](const auto& outputs, const auto& targets) {
//     return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
//   };
//   options.targets = {labels};
//   options.optimizer = cotan::aot::OptimizerConfig{cotan::aot::SgdOptions{.lr = 0.1}};
//   COTAN_ASSIGN_OR_RETURN(
//       auto model, cotan::aot::CompileModule([] { return Digits(); }, {images}, options));
//   COTAN_RETURN_IF_ERROR(model.Save("digits.cotan"));
#ifndef COTAN_AOT_COMPILE_H_
#define COTAN_AOT_COMPILE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/cache/compile_cache.h"
#include "aot/capture/decomposition.h"
#include "aot/dynamic/dynamic_dim.h"
#include "aot/frontend/callable.h"
#include "aot/frontend/module.h"
#include "aot/frontend/pt2/model.h"
#include "aot/memory/fit_memory.h"
#include "aot/optimizer/optimizer.h"
#include "aot/partitioner/partition.h"
#include "base/dtype.h"

namespace cotan::aot {

struct WrapperStructure;  // aot/aotautograd/wrap_method.h

// A function that returns the scalar loss. `outputs` are the model's flat outputs, `targets` are
// CompileOptions.targets.
using LossFunction =
    std::function<at::Tensor(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets)>;

// The methods that the artifact has. A method that the other options do not allow is omitted
// without an error.
struct MethodOptions {
  // "train_step": the module in train mode, loss, backward and optimizer update in one program.
  // Omitted without a loss or an optimizer. Inputs: the model's, then the targets. Outputs: the
  // model's, then, with CompileOptions.loss, the loss. With CompileOptions.accumulate_gradients the
  // artifact has two more methods: "accumulate", which has the same inputs and outputs and adds the
  // gradients to accumulators, and "apply_optimizer", which has no inputs and updates the
  // parameters from the accumulators.
  bool train_step = true;
  // "forward" and "backward" as two methods, module in train mode, for a loss that the application
  // computes itself. Inputs and outputs of "forward": the model's. "backward" is omitted if no
  // output requires grad.
  bool forward_backward = true;
  // "eval": the module in eval mode, without gradients. Inputs and outputs: the model's.
  bool eval = true;
};

// A limit on the memory of a call of any method: the arena and the values saved for the backward,
// without states, arguments and results. The compiler meets it by rematerialization
// (docs/memory.md).
struct MemoryLimit {
  int64_t bytes = 0;  // upper limit
  // Kernels and number of threads that the limit is computed for; both change the size of an arena.
  MemoryTarget target;
};

// Options of all compile functions. Functions and tensors are only used during the call.
struct CompileOptions {
  // The loss is output `loss_output` of the model (negative: counts from the end), or the result of
  // `loss`. At most one of the two is set; with neither, "train_step", "accumulate" and
  // "apply_optimizer" are omitted.
  std::optional<int> loss_output;
  LossFunction loss;
  // Example arguments of `loss` besides the outputs, real CPU tensors. They become inputs of the
  // training methods, after those of the model. Must be empty without `loss`.
  std::vector<at::Tensor> targets;

  // The optimizer of "train_step" and "apply_optimizer". Unset: neither exists.
  std::optional<OptimizerConfig> optimizer;
  // If true, adds the methods "accumulate" and "apply_optimizer" (see MethodOptions). Needs
  // `optimizer`.
  bool accumulate_gradients = false;
  // If true, a program writes the new content of a mutated input to that input itself where this is
  // unobservable (AOTConfig.keep_inference_input_mutations). If false, it returns the new content
  // and the runtime copies it.
  bool keep_input_mutations = true;
  // If true, an undefined tensor among a function's results stands for None. If false, it is an
  // error (InvalidArgument).
  bool undefined_outputs_are_none = false;
  // Names of parameters that require no grad and are not trained. Patterns: '*' is any text, '?'
  // any character. A pattern without a match is an error.
  std::vector<std::string> frozen;
  // Initial content of parameters and buffers by qualified name, for instance named_parameters() of
  // a trained module. Dtype and sizes must match. Missing names keep their initial value.
  NamedTensors initial_values;

  // Decompositions of ATen ops into others, applied below autograd while tracing, for instance for
  // an op that Cotan does not support (capture/decomposition.h). InvalidArgument: an entry that
  // CheckDecompositions() rejects.
  DecompositionTable decompositions;
  // Selects the values of "forward" that are saved for "backward"; all others are rematerialized.
  // Null: the default of Partition(). With a policy, the cache is neither read nor written, because
  // a function cannot be part of a cache key.
  SavePolicyFunction save_policy;

  // Dimensions of inputs and targets that may differ from call to call; all others have the
  // examples' sizes (docs/dynamic_shapes.md). With dynamic dimensions the reference runs use sizes
  // that the compiler picks.
  std::vector<DynamicDim> dynamic_dims;

  // Mixed precision: model and loss run under LibTorch's autocast to kBFloat16 or kFloat16;
  // parameters and gradients keep their dtypes. kUndefined: no autocast.
  DType autocast = DType::kUndefined;

  // Memory limit of every method; unset: none. ResourceExhausted if it cannot be met.
  std::optional<MemoryLimit> max_memory;

  // Methods to compile.
  MethodOptions methods;
  // Seed of LibTorch's default generator before the module is constructed, and initial seed of the
  // session's generator.
  uint64_t seed = 0;
  // If true, the artifact holds a reference run of every method: inputs, outputs and new states
  // computed by LibTorch on the examples, which `cotan verify` repeats.
  bool store_references = true;
  // Folder that receives the graph's text after each stage, as "METHOD.NN.STAGE.txt" (dump.h); it
  // is created if missing. A dump bypasses the cache. Empty: no dump.
  std::string dump_dir;
  // Folder of the compile cache (cache/compile_cache.h); it is created if missing. An artifact in
  // it with the same traces and options is returned without compiling; otherwise the new one is
  // added. Empty: no cache.
  std::string cache_dir;
};

// Statistics of one compiled method.
struct MethodSummary {
  std::string name;     // "train_step"
  int traced_ops = 0;   // nodes of the traced (joint) graph
  int runtime_ops = 0;  // ops of the method in the artifact
  // The memory of the method after rematerialization; set if CompileOptions.max_memory is.
  std::optional<MethodMemory> memory = {};
};

// A compiled artifact in memory. Movable, immutable, thread-safe.
class CompiledModel {
 public:
  CompiledModel(std::string bytes, std::vector<MethodSummary> methods)
      : bytes_(std::move(bytes)), methods_(std::move(methods)) {}

  // Writes the artifact to `path` atomically: the file is complete or unchanged. Errors of the file
  // system: ResourceExhausted, PermissionDenied, NotFound, Unavailable.
  absl::Status Save(const std::string& path) const;
  // Returns the content of the artifact file. Equal models and options give equal bytes.
  const std::string& bytes() const { return bytes_; }
  // Returns one summary for each method, in the order of compilation.
  const std::vector<MethodSummary>& methods() const { return methods_; }
  // Returns whether the artifact came from the cache, and why not if it did not. With dynamic
  // dimensions the model is compiled at several sizes: the outcome of the first miss, if there is
  // one.
  const CacheOutcome& cache() const { return cache_; }
  // Replaces the artifact by another one of the same methods, for instance after
  // FitFileIntoMemory().
  void Replace(std::string bytes, std::vector<MethodSummary> methods) {
    bytes_ = std::move(bytes);
    methods_ = std::move(methods);
  }
  // Sets cache().
  void set_cache(CacheOutcome outcome) { cache_ = std::move(outcome); }

 private:
  std::string bytes_;
  std::vector<MethodSummary> methods_;
  CacheOutcome cache_;
};

// Compiles the module that `factory` makes. `examples`: one real CPU tensor for each input of the
// model; all sizes except those in dynamic_dims are fixed to theirs.
// InvalidArgument: options that contradict each other; the factory, the model or the loss throws;
// an option names a parameter, input or dimension that does not exist.
// Unimplemented: the model uses a construct that Cotan cannot compile; the message lists every op
// and tensor concerned.
// ResourceExhausted: the methods cannot be made to fit into max_memory.
// With cache_dir also the errors of CompileCache::Open() and DataLoss for a damaged entry.
absl::StatusOr<CompiledModel> CompileModuleFactory(const ModuleFactory& factory,
                                                   const std::vector<at::Tensor>& examples,
                                                   const CompileOptions& options);

// Compiles a function. The methods are "forward" and, if an output requires grad, "backward";
// MethodOptions and optimizer are not used. Examples that require grad get gradients. The grad mode
// of this call is the one at entry of the function, which may change it. Errors are those of
// CompileModuleFactory().
absl::StatusOr<CompiledModel> CompileTensorFunction(const TensorFunction& function,
                                                    const std::vector<at::Tensor>& examples,
                                                    const CompileOptions& options);

// Compiles a function on the flat tensors of arguments and results with wrapper types
// (wrapped_function.h). `wrappers` describes how the caller's tensors are made of flat ones;
// `function` may fill in its `outputs` when it is called. Errors are those of
// CompileModuleFactory(); Unimplemented also if a part of an argument gets another storage.
absl::StatusOr<CompiledModel> CompileFlatFunction(const TensorFunction& function,
                                                  const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const WrapperStructure& wrappers);

// Compiles a model read from a .pt2 archive (torch.export.save). An archive holds the module in one
// mode, usually train mode. `eval_model`, if not null, is the same module exported in eval mode: it
// becomes the method "eval", which is omitted otherwise, and its states are those of `model` with
// the same names. Dimensions with symbols in the archive are dynamic; dynamic_dims may rename them
// and narrow their ranges.
// Errors are those of CompileModuleFactory(); InvalidArgument also if a state of `eval_model` does
// not exist in `model` or has another dtype or other sizes there, `eval_model` has more inputs than
// `model`, or the number or sizes of the examples do not match the archive.
absl::StatusOr<CompiledModel> CompilePt2(const pt2::Model& model, const std::vector<at::Tensor>& examples,
                                         const CompileOptions& options, const pt2::Model* eval_model = nullptr);

// Compiles a torch::nn module. `factory` returns a std::shared_ptr to it or a module holder;
// frontend/callable.h describes the arguments and results that its forward() may have. Errors are
// those of CompileModuleFactory().
template <typename Factory>
absl::StatusOr<CompiledModel> CompileModule(Factory factory, const std::vector<at::Tensor>& examples,
                                            const CompileOptions& options) {
  return CompileModuleFactory(AdaptFactory(std::move(factory)), examples, options);
}

// Compiles a callable on tensors (frontend/callable.h). Errors are those of CompileTensorFunction().
template <typename Callable>
absl::StatusOr<CompiledModel> CompileFunction(Callable function, const std::vector<at::Tensor>& examples,
                                              const CompileOptions& options) {
  return CompileTensorFunction(AdaptFunction(std::move(function)), examples, options);
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_COMPILE_H_
