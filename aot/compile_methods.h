// SPDX-License-Identifier: Apache-2.0

// Compiles the methods of an artifact one after another: each is traced, cleaned up, lowered,
// optimized and emitted. Private to //aot:compile_impl.
#ifndef COTAN_AOT_COMPILE_METHODS_H_
#define COTAN_AOT_COMPILE_METHODS_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/aotautograd/tracer.h"
#include "aot/compile.h"
#include "aot/dynamic/compile_at_sizes.h"
#include "aot/emit/artifact_builder.h"
#include "aot/frontend/module.h"
#include "serialization/metadata/tree_spec.h"

namespace cotan::aot {

// State that the methods of one model share while they are compiled.
struct Compilation {
  const CompileOptions& options;
  ArtifactBuilder artifact;
  TraceLog* log = nullptr;  // receives the traces; null: they are dropped
  std::vector<MethodSummary> summaries = {};
  const WrapperStructure* wrappers = nullptr;  // null: no wrapper types
  // Nesting of the model's arguments and results, without the targets and the result of a loss
  // function; unset: flat tuples.
  std::optional<TreeSpec> in_spec = {};
  std::optional<TreeSpec> out_spec = {};

  // Returns whether methods are only traced, not compiled.
  bool traces_only() const { return log != nullptr && log->traces_only; }
};

// InvalidArgument: loss_output and loss are both set; targets without loss; accumulate_gradients
// without an optimizer.
absl::Status CheckOptions(const CompileOptions& options);

// Returns the producer string of an artifact: "cotan 0.2.0, LibTorch 2.15.0".
std::string Producer();

// Adds the methods of a module in train mode that the options select: "train_step", "accumulate",
// "apply_optimizer", "forward", "backward". Errors are those of CompileModuleFactory().
absl::Status AddTrainMethods(TraceableModule& module, const std::vector<at::Tensor>& examples,
                             Compilation& compilation);

// Traces `function` with the given grad mode at entry and adds "forward" and, if an output requires
// grad, "backward". Errors are those of CompileTensorFunction().
absl::Status AddForwardBackward(const TensorFunction& function, absl::Span<const ModuleState> states,
                                const std::vector<at::Tensor>& examples, bool grad_enabled, Compilation& compilation);

// Sets the module to eval mode and adds "eval". Errors are those of CompileModuleFactory().
absl::Status AddEval(TraceableModule& module, const std::vector<at::Tensor>& examples, Compilation& compilation);

// Returns the artifact with all methods that were added; an empty one if they were only traced.
absl::StatusOr<CompiledModel> Build(Compilation compilation);

}  // namespace cotan::aot

#endif  // COTAN_AOT_COMPILE_METHODS_H_
