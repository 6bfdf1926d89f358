// The methods of an artifact, one after another: each is traced, cleaned up,
// lowered, optimized and emitted. Private to //aot:compile_impl.
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

// What the methods of one model have in common while they are compiled.
struct Compilation {
  const CompileOptions& options;
  ArtifactBuilder artifact;
  TraceLog* log = nullptr;  // if not null: keeps the traces
  std::vector<MethodSummary> summaries = {};
  const WrapperStructure* wrappers = nullptr;  // null: no tensor is of a wrapper type
  // How the model's arguments and results are nested, without targets and the loss of
  // a loss function; unset: flat tuples.
  std::optional<TreeSpec> in_spec = {};
  std::optional<TreeSpec> out_spec = {};

  // Whether methods are traced and not compiled.
  bool traces_only() const { return log != nullptr && log->traces_only; }
};

// Whether the options contradict each other.
// InvalidArgument: they do.
absl::Status CheckOptions(const CompileOptions& options);

// "cotan, LibTorch 2.15.0".
std::string Producer();

// All methods of a module in train mode that the options ask for. Errors of these
// three are those of CompileModule().
absl::Status AddTrainMethods(TraceableModule& module, const std::vector<at::Tensor>& examples,
                             Compilation& compilation);

// "forward", and "backward" if an output requires grad.
absl::Status AddForwardBackward(const TensorFunction& function, absl::Span<const ModuleState> states,
                                const std::vector<at::Tensor>& examples, bool grad_enabled, Compilation& compilation);

// "eval".
absl::Status AddEval(TraceableModule& module, const std::vector<at::Tensor>& examples, Compilation& compilation);

// The artifact with all methods that were added; an empty one if they were only traced.
absl::StatusOr<CompiledModel> Build(Compilation compilation);

}  // namespace cotan::aot

#endif  // COTAN_AOT_COMPILE_METHODS_H_
