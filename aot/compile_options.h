// SPDX-License-Identifier: Apache-2.0

// Options of the compile functions (compile.h).
#ifndef COTAN_AOT_COMPILE_OPTIONS_H_
#define COTAN_AOT_COMPILE_OPTIONS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "aot/capture/data_sizes.h"
#include "aot/capture/decomposition.h"
#include "aot/decompositions/attention_form.h"
#include "aot/dynamic/dynamic_dim.h"
#include "aot/frontend/module.h"
#include "aot/memory/fit_memory.h"
#include "aot/optimizer/data_parallel.h"
#include "aot/optimizer/optimizer.h"
#include "aot/partitioner/partition.h"
#include "aot/saved_tensor_hooks/saved_tensor_hooks.h"
#include "base/dtype.h"

namespace cotan::aot {

// A function that returns the scalar loss. `outputs` are the model's flat outputs, `targets` are
// LossOptions.targets.
using LossFunction =
    std::function<at::Tensor(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets)>;

// The loss of "train_step" and "accumulate": an output of the model, or the result of a function of
// its outputs. At most one of the two is set; with neither, these methods are omitted.
struct LossOptions {
  // Index of the model's output that is the loss; negative: counts from the end.
  std::optional<int> output;
  LossFunction function;
  // Example arguments of `function` besides the outputs, real CPU tensors. They become inputs of
  // the training methods, after those of the model. Must be empty without `function`.
  std::vector<at::Tensor> targets;

  // Returns whether there is a loss.
  bool is_set() const { return output.has_value() || function != nullptr; }
};

// The methods that the artifact has. A method that the other options do not allow is omitted
// without an error.
struct MethodOptions {
  // "train_step": the module in train mode, loss, backward and optimizer update in one program.
  // Omitted without a loss or an optimizer. Inputs: the model's, then the targets. Outputs: the
  // model's, then, with LossOptions.function, the loss.
  bool train_step = true;
  // With "train_step": also "accumulate", which has the same inputs and outputs and adds the
  // gradients to accumulators, and "apply_optimizer", which has no inputs and updates the
  // parameters from the accumulators. Needs CompileOptions.optimizer.
  bool accumulate = false;
  // "forward" and "backward" as two methods, module in train mode, for a loss that the application
  // computes itself. Inputs and outputs of "forward": the model's. "backward" is omitted if no
  // output requires grad.
  bool forward_backward = true;
  // "eval": the module in eval mode, without gradients. Inputs and outputs: the model's.
  bool eval = true;
};

// How the model is traced.
struct TracingOptions {
  // Mixed precision: model and loss run under LibTorch's autocast to kBFloat16 or kFloat16;
  // parameters and gradients keep their dtypes. kUndefined: no autocast.
  DType autocast = DType::kUndefined;
  // Decompositions of ATen ops into others, applied below autograd, for instance for an op that
  // Cotan does not support (capture/decomposition.h). InvalidArgument: an entry that
  // CheckDecompositions() rejects.
  DecompositionTable decompositions = {};
  // Form of scaled_dot_product_attention (docs/performance.md). kAuto depends on CompileOptions.target and order.
  // kFused keeps attentions composed whose operands the fused op does not take: with dropout, for instance.
  AttentionForm attention = AttentionForm::kAuto;
  // If true, a program writes the new content of a mutated input to that input itself where this is
  // unobservable (AOTConfig.keep_inference_input_mutations). If false, it returns the new content
  // and the runtime copies it.
  bool keep_input_mutations = true;
  // How many elements ops may return whose results have as many as the data decides (docs/dynamic_shapes.md); not
  // declared: they are refused. Unimplemented with CompileOptions.order above 1, or with max_memory.
  DataDependentSizes data_dependent_sizes = {};
  // If true, an undefined tensor among a function's results stands for None. If false, it is an
  // error (InvalidArgument).
  bool undefined_outputs_are_none = false;
};

// The device that a program is compiled for. It decides which of several equivalent forms an op has; the artifact runs
// on any device.
enum class CompileTarget : uint8_t { kCpu, kCuda };

// Which equal modules of a .pt2 model become blocks.
enum class FindBlocks : uint8_t {
  kOff,
  // Those that are called at least kManyCalls times, unless another option keeps blocks from being shared.
  kAuto,
  // Those that are called at least twice.
  kOn,
};
inline constexpr int kManyCalls = 8;

// A limit on the memory of a call of any method: the arena and the values saved for the backward,
// without states, arguments and results. The compiler meets it by rematerialization
// (docs/memory.md).
struct MemoryLimit {
  int64_t bytes = 0;  // upper limit
  // Kernels and number of threads that the limit is computed for; both change the size of an arena.
  MemoryTarget target;
};

// Means to examine a compilation and its artifact.
struct DebugOptions {
  // If true, the artifact holds a reference run of every method: inputs, outputs and new states
  // computed by LibTorch on the examples, which `cotan verify` repeats.
  bool store_references = true;
  // Folder that receives the graphs after each stage, the metadata, programs and schedules of the methods, and the
  // time of each stage (dump.h lists the files); it is created if missing. A dump bypasses the cache. Empty: no dump.
  std::string dump_dir = {};
};

// Options of all compile functions. Functions and tensors are only used during the call.
struct CompileOptions {
  LossOptions loss = {};
  // The optimizer of "train_step" and "apply_optimizer". Unset: neither exists.
  std::optional<OptimizerConfig> optimizer = {};
  MethodOptions methods = {};

  // Seed and initial values of the parameters and buffers, and which parameters are frozen. The seed
  // is also the initial seed of the session's generator.
  ModuleOptions module = {};

  // Dimensions of inputs and targets that may differ from call to call; all others have the
  // examples' sizes (docs/dynamic_shapes.md). With dynamic dimensions the reference runs use sizes
  // that the compiler picks.
  std::vector<DynamicDim> dynamic_dims = {};
  // Returns the examples of the inputs, then those of the targets, at the sizes that the symbols of dynamic_dims have.
  // Unset: examples are cut off or repeated. Needed for examples that share memory: only the caller knows where each of
  // them is in that memory at other sizes. InvalidArgument: it throws, or returns other sizes than those of
  // dynamic_dims.
  std::function<std::vector<at::Tensor>(const std::map<std::string, int64_t>& sizes)> examples_at_sizes = nullptr;

  TracingOptions tracing = {};
  CompileTarget target = CompileTarget::kCpu;

  // Number of times that "forward" can be differentiated, 1 to 4. With 2, its backward can be differentiated as well
  // (autograd::GradWithGraph(), docs/higher_order.md); the artifact then also has the methods "backward.forward" and
  // "backward.backward". Unimplemented if the function writes to an argument or has effects.
  int order = 1;
  // How "forward" and "backward" are cut, and which values the former saves for the latter (docs/memory.md).
  Partitioner partitioner = Partitioner::kMinCut;
  // Share of the bytes that the minimum cut saves, in [0, 1]; the rest is rematerialized
  // (PartitionOptions). It has to be 1 with Partitioner::kDefault.
  double activation_memory_budget = 1;
  // Set, and without max_memory: a budget below 1 never needs more memory on this target than the larger ones of 1,
  // 0.75, 0.5 and 0.25 (docs/memory.md); for that the model is compiled with these budgets, too. The forward may then
  // save less, or in the last resort more, than the budget says. Unset: a smaller budget only saves less.
  std::optional<MemoryTarget> memory_target = {};
  // If true, and memory_target or max_memory is set: values of a method are computed again where that saves much of its
  // memory on this target for little time, as normalized values beside their kept means (docs/memory.md); with
  // max_memory, if less time is then added in all. Results have the same bits. No effect on programs for CUDA, on
  // models with blocks unless max_memory is set, and if sizes have no maximum or depend on data.
  bool repeat_cheap_ops = true;
  // Overrides the partitioner for single values of "forward". With a policy, the cache is neither
  // read nor written, because a function cannot be part of a cache key.
  SavePolicyFunction save_policy = nullptr;
  // Functions that pack the values which live from the forward to the backward, and unpack them again: in "forward"
  // and "backward", and inside of "train_step" and "accumulate", where the values are chosen as for the pair. Unset:
  // none. Hooks without a cache_key bypass the cache. With hooks, no reference results of gradients and of trained
  // parameters are stored, because eager's are those without packing. Errors are those of TracePair()
  // (saved_tensor_hooks/traced_pair.h).
  SavedTensorHooks saved_tensor_hooks = {};
  // Memory limit of every method; unset: none. ResourceExhausted if it cannot be met.
  std::optional<MemoryLimit> max_memory = {};

  // Set: several ranks train the model (docs/distributed.md). "train_step" averages the gradients and the loss over the
  // ranks; with methods.accumulate, "apply_optimizer" averages the accumulated gradients, and the losses are each
  // rank's own. Other outputs, and buffers such as running statistics without sync_batch_norm, are each rank's own. The
  // examples have the sizes of one rank's part of the batch. Sessions then need SessionOptions.communicator. Unset: one
  // process.
  std::optional<DataParallelOptions> data_parallel = {};

  // If true, equal runs of ops, such as the layers of a model, are stored once (serialization/calls/outline_calls.h).
  // Changes the size of the file only; blocks that the model declares (docs/blocks.md) are stored once in any case.
  bool outline_repeats = true;
  // Which equal modules of a .pt2 model, such as the layers of a transformer, are blocks as if they were declared
  // (docs/blocks.md): traced, partitioned, lowered and stored once. Compiling takes less time; fusion ends at their
  // boundaries. No effect on other models, nor with module.lora or module.quantize.
  FindBlocks find_blocks = FindBlocks::kOff;

  // Folder of the compile cache (cache/compile_cache.h); it is created if missing. An artifact in
  // it with the same traces and options is returned without compiling; otherwise the new one is
  // added. Empty: no cache.
  std::string cache_dir = {};
  DebugOptions debug = {};
};

// Checks that options do not contradict each other. All compile functions call it first.
// InvalidArgument: loss.output and loss.function are both set; loss.targets without loss.function;
// methods.accumulate without an optimizer; activation_memory_budget is not a number in [0, 1], or not
// 1 with Partitioner::kDefault; an order below 1 or above 4; saved_tensor_hooks with only one of its functions;
// data_parallel without an optimizer; a range of data-dependent sizes that CheckDataDependentSizes() rejects. Errors of
// CheckDataParallel().
absl::Status CheckOptions(const CompileOptions& options);

// Returns the form of the attentions of all traces. With an order above 1, kAuto is kComposed: the backward of a fused
// attention computes it again to be differentiated.
AttentionRule AttentionRuleOf(const CompileOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_COMPILE_OPTIONS_H_
