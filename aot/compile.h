// SPDX-License-Identifier: Apache-2.0

// Compiles a torch::nn module or a function of tensors ahead of time into a .cotan artifact, which
// //runtime loads, executes and trains without LibTorch.
//
//   cotan::aot::CompileOptions options;
//   options.loss.function = [](const auto& outputs, const auto& targets) {
//     return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
//   };
//   options.loss.targets = {labels};
//   options.optimizer = cotan::aot::OptimizerConfig{cotan::aot::SgdOptions{.lr = 0.1}};
//   COTAN_ASSIGN_OR_RETURN(
//       auto model, cotan::aot::CompileModule([] { return Digits(); }, {images}, options));
//   COTAN_RETURN_IF_ERROR(model.Save("digits.cotan"));
#ifndef COTAN_AOT_COMPILE_H_
#define COTAN_AOT_COMPILE_H_

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/capture/number.h"
#include "aot/compile_options.h"
#include "aot/compiled_model.h"
#include "aot/frontend/callable.h"
#include "aot/frontend/pt2/model.h"

namespace cotan::aot {

struct WrapperStructure;  // aot/aotautograd/wrap_method.h

namespace internal {

// The function templates below and CompileWrapped() without their types.
absl::StatusOr<CompiledModel> CompileModuleFactory(const ModuleFactory& factory,
                                                   const std::vector<at::Tensor>& examples,
                                                   const CompileOptions& options);
absl::StatusOr<CompiledModel> CompileTensorFunction(const TensorFunction& function,
                                                    const std::vector<at::Tensor>& examples,
                                                    const CompileOptions& options);
// Compiles a function on the flat tensors of arguments and results with wrapper types.
// `wrappers` describes how the caller's tensors are made of flat ones; `function` may fill in its
// `outputs` when it is called.
absl::StatusOr<CompiledModel> CompileFlatFunction(const TensorFunction& function,
                                                  const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const WrapperStructure& wrappers);

}  // namespace internal

// Compiles a torch::nn module. `factory` returns a std::shared_ptr to it, a module holder, or a
// ModuleInstance; frontend/callable.h describes the arguments and results that its forward() may
// have. `examples`: one real CPU tensor for each input of the model; all sizes except those in
// dynamic_dims are fixed to theirs. A number that may differ from call to call has the example Number(0.5), or
// SizeNumber(8) if it decides sizes (capture/number.h).
// InvalidArgument: options that contradict each other; the factory, the model or the loss throws;
// an option names a parameter, input or dimension that does not exist.
// Unimplemented: the model uses a construct that Cotan cannot compile; the message lists every op
// and tensor concerned.
// ResourceExhausted: the methods cannot be made to fit into max_memory.
// With cache_dir also the errors of CompileCache::Open() and DataLoss for a damaged entry.
template <typename Factory>
absl::StatusOr<CompiledModel> CompileModule(Factory factory, const std::vector<at::Tensor>& examples,
                                            const CompileOptions& options) {
  return internal::CompileModuleFactory(AdaptFactory(std::move(factory)), examples, options);
}

// Compiles a callable on tensors (frontend/callable.h). The methods are "forward" and, if an output
// requires grad, "backward"; MethodOptions and optimizer are not used. Examples that require grad
// get gradients. The grad mode of this call is the one at entry of the function, which may change
// it. Errors are those of CompileModule().
template <typename Callable>
absl::StatusOr<CompiledModel> CompileFunction(Callable function, const std::vector<at::Tensor>& examples,
                                              const CompileOptions& options) {
  return internal::CompileTensorFunction(AdaptFunction(std::move(function)), examples, options);
}

// Compiles a model read from a .pt2 archive (torch.export.save). An archive holds the module in one
// mode, usually train mode. `eval_model`, if not null, is the same module exported in eval mode: it
// becomes the method "eval", which is omitted otherwise, and its states are those of `model` with
// the same names. Dimensions with symbols in the archive are dynamic; dynamic_dims may rename them
// and narrow their ranges.
// Errors are those of CompileModule(); InvalidArgument also if a state of `eval_model` does not
// exist in `model` or has another dtype or other sizes there, `eval_model` has more inputs than
// `model`, or the number or sizes of the examples do not match the archive.
absl::StatusOr<CompiledModel> CompilePt2(const pt2::Model& model, const std::vector<at::Tensor>& examples,
                                         const CompileOptions& options, const pt2::Model* eval_model = nullptr);

}  // namespace cotan::aot

#endif  // COTAN_AOT_COMPILE_H_
