// The front door of the compile half: a torch::nn module or a function of
// tensors becomes a .cotan artifact, which //runtime loads and trains without
// LibTorch.
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

struct WrapperStructure;

// A scalar loss of what the model returned and of CompileOptions.targets.
using LossFunction =
    std::function<at::Tensor(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets)>;

// Which methods the artifact has. One that the other options do not allow is
// left out.
struct MethodOptions {
  // "train_step": module in train mode, loss, backward and optimizer update in
  // one program. Needs a loss and an optimizer. Inputs: the model's, then the
  // targets. Outputs: the model's, then, with a loss function, the loss.
  // With `accumulate_gradients` besides: "accumulate", the same with gradients
  // summed instead of an update, and "apply_optimizer", which takes no inputs.
  bool train_step = true;
  // "forward" and "backward" apart, module in train mode, for a loss that the
  // device computes itself. Inputs and outputs: the model's. No "backward" if
  // no output requires grad.
  bool forward_backward = true;
  // "eval": module in eval mode. Inputs and outputs: the model's; with
  // `loss_output` the loss is among them.
  bool eval = true;
};

// A limit of the memory that the runtime needs for a call of any method, besides
// states, arguments and results: its arena, and what a forward keeps for its
// backward. Values are then computed again instead of kept (docs/memory.md).
struct MemoryLimit {
  int64_t bytes = 0;
  // The limit holds for these kernels with so many threads.
  MemoryTarget target;
};

struct CompileOptions {
  // The loss: an output of the model, or a function of its outputs and of
  // further inputs, for which `targets` are the examples. At most one is set.
  std::optional<int> loss_output;
  LossFunction loss;
  std::vector<at::Tensor> targets;

  std::optional<OptimizerConfig> optimizer;
  bool accumulate_gradients = false;
  // Whether a program writes to its inputs itself where nobody can tell. Without
  // it the runtime does: programs return the new content.
  bool keep_input_mutations = true;
  // Whether an undefined tensor among a function's results stands for None
  // instead of being refused.
  bool undefined_outputs_are_none = false;
  // Parameters that stay as they are, by name; '*' is any text, '?' any
  // character.
  std::vector<std::string> frozen;
  // Initial content of parameters and buffers by name, for instance
  // named_parameters() of a trained module. Others keep what the factory gave.
  NamedTensors initial_values;

  // Ops of LibTorch that are written in terms of others, for instance one that
  // Cotan does not support (trace/decomposition.h).
  DecompositionTable decompositions;
  // Which values of "forward" are saved for "backward", and which are computed
  // again. Null: as Partition() has it by default. An artifact compiled with one
  // is neither looked up in the cache nor added to it.
  SavePolicyFunction save_policy;

  // Dimensions of the inputs that may differ from call to call; all others have
  // the examples' sizes (docs/dynamic_shapes.md). Reference runs are then at sizes
  // that the compiler picked.
  std::vector<DynamicDim> dynamic_dims;

  // Mixed precision: the model and its loss run under LibTorch's autocast to
  // bf16 or f16; parameters and gradients stay what they are. kUndefined: none.
  DType autocast = DType::kUndefined;

  std::optional<MemoryLimit> max_memory;

  MethodOptions methods;
  // Seeds LibTorch's generator before the module is constructed, and is the
  // initial seed of the session's generator.
  uint64_t seed = 0;
  // Whether the artifact holds the results of the example inputs, computed by
  // LibTorch, for `cotan verify`.
  bool store_references = true;
  // Folder for the graph's text after each stage,
  // "METHOD.NN.STAGE.txt"; it is created. Empty: no dump.
  std::string dump_dir;
  // Folder of compiled artifacts, made if it is not there, that this one is
  // looked up in and added to (cache/compile_cache.h). Empty: none.
  std::string cache_dir;
};

// What a compile did, for people.
struct MethodSummary {
  std::string name;
  int traced_ops = 0;   // nodes of the traced graph
  int runtime_ops = 0;  // ops of the method
  // With CompileOptions.max_memory: what became of it.
  std::optional<MethodMemory> memory = {};
};

// A compiled artifact in memory. Movable, immutable, thread-safe.
class CompiledModel {
 public:
  CompiledModel(std::string bytes, std::vector<MethodSummary> methods)
      : bytes_(std::move(bytes)), methods_(std::move(methods)) {}

  // Writes the file whole or not at all. Errors of the file system:
  // ResourceExhausted, PermissionDenied, NotFound, Unavailable.
  absl::Status Save(const std::string& path) const;
  // The bytes of the file. Equal models and options give equal bytes.
  const std::string& bytes() const { return bytes_; }
  const std::vector<MethodSummary>& methods() const { return methods_; }
  // Whether it was compiled or found; with dynamic dimensions, for several
  // sizes, the first that is no hit.
  const CacheOutcome& cache() const { return cache_; }
  // The same methods in another file.
  void Replace(std::string bytes, std::vector<MethodSummary> methods) {
    bytes_ = std::move(bytes);
    methods_ = std::move(methods);
  }
  void set_cache(CacheOutcome outcome) { cache_ = std::move(outcome); }

 private:
  std::string bytes_;
  std::vector<MethodSummary> methods_;
  CacheOutcome cache_;
};

// `examples`: one tensor for each input of the model; sizes are fixed to theirs,
// but for dynamic_dims.
// InvalidArgument: options that contradict each other, or what Trace() and
// TraceableModule refuse as such.
// Unimplemented: the model does what Cotan cannot compile; the message names
// every op and tensor concerned.
// ResourceExhausted and others: as FitIntoMemory(), with max_memory.
absl::StatusOr<CompiledModel> CompileModuleFactory(const ModuleFactory& factory,
                                                   const std::vector<at::Tensor>& examples,
                                                   const CompileOptions& options);

// The same for a function; its methods are "forward", with "backward" if an
// output requires grad. Examples that require grad get gradients. Compiled for
// calls with the grad mode of this one; the function may change it.
absl::StatusOr<CompiledModel> CompileTensorFunction(const TensorFunction& function,
                                                    const std::vector<at::Tensor>& examples,
                                                    const CompileOptions& options);

// The same for the flat tensors of a function with wrapper types
// (wrapped_function.h). `wrappers` tells how its arguments are made of them, and,
// when the function has been called, its results.
absl::StatusOr<CompiledModel> CompileFlatFunction(const TensorFunction& function,
                                                  const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const WrapperStructure& wrappers);

// The same for a model read from a .pt2 archive, which holds one mode of the
// module: that it was exported in, as a rule training. `eval_model`, if not
// null, is the same module exported in eval mode: it becomes the method "eval"
// (without it there is none) and reads the states of `model` by name.
// Dimensions that the archive has symbols for are dynamic; dynamic_dims may
// give them names and narrower ranges.
// InvalidArgument besides: a state of `eval_model` is none of `model`, or has
// another dtype or other sizes; examples of other sizes than the archive allows.
absl::StatusOr<CompiledModel> CompilePt2(const pt2::Model& model, const std::vector<at::Tensor>& examples,
                                         const CompileOptions& options, const pt2::Model* eval_model = nullptr);

// `factory` returns a std::shared_ptr to a module, or a module holder; see
// callable.h for what its forward() may take and return.
template <typename Factory>
absl::StatusOr<CompiledModel> CompileModule(Factory factory, const std::vector<at::Tensor>& examples,
                                            const CompileOptions& options) {
  return CompileModuleFactory(AdaptFactory(std::move(factory)), examples, options);
}

template <typename Callable>
absl::StatusOr<CompiledModel> CompileFunction(Callable function, const std::vector<at::Tensor>& examples,
                                              const CompileOptions& options) {
  return CompileTensorFunction(AdaptFunction(std::move(function)), examples, options);
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_COMPILE_H_
