// A function of tensors as an artifact that the runtime has loaded: results, and
// gradients by the runtime's autograd.
#ifndef COTAN_TESTING_OPS_COMPILED_FUNCTION_H_
#define COTAN_TESTING_OPS_COMPILED_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/capture/traced_function.h"
#include "aot/compile.h"
#include "runtime/autograd/variable.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan::testing {

// Fresh leaves with the content of `inputs`; with gradients, those of a floating
// point or complex dtype require grad.
std::vector<at::Tensor> Leaves(const std::vector<at::Tensor>& inputs, bool with_gradients);

// The compiler's answer alone.
absl::Status CompileOnly(const aot::TensorFunction& function, const std::vector<at::Tensor>& inputs,
                         bool with_gradients);

// Movable. Not thread-safe.
class CompiledFunction {
 public:
  // Compiles `function` for inputs of these dtypes and sizes (Leaves()), saves
  // and loads it.
  // Errors of the compiler.
  static absl::StatusOr<CompiledFunction> Create(const aot::TensorFunction& function,
                                                 const std::vector<at::Tensor>& inputs, bool with_gradients,
                                                 const aot::CompileOptions& options = {});

  // The loaded artifact. Errors of the loader.
  absl::StatusOr<std::shared_ptr<const Program>> program() const;

  // The results. Errors of the loader and of the runtime. FailedPrecondition: a
  // result is no tensor.
  absl::StatusOr<std::vector<at::Tensor>> Call(const std::vector<at::Tensor>& inputs);

  // Gradients of the inputs that require grad, undefined where there is none, for
  // these tangents of the results for which `is_root`. Errors as Call(), and
  // those of the runtime's autograd.
  absl::StatusOr<std::vector<at::Tensor>> Gradients(const std::vector<at::Tensor>& inputs,
                                                    const std::vector<bool>& is_root,
                                                    const std::vector<at::Tensor>& tangents);

 private:
  CompiledFunction(std::string artifact, bool with_gradients)
      : artifact_(std::move(artifact)), with_gradients_(with_gradients) {}

  absl::Status Load();
  // `leaves` outlive the results. `sources`: the arguments that require grad.
  absl::StatusOr<std::vector<Variable>> Run(const std::vector<at::Tensor>& leaves, std::vector<Variable>& sources);

  std::string artifact_;
  bool with_gradients_;
  std::optional<Session> session_;
  std::optional<Function> function_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_COMPILED_FUNCTION_H_
