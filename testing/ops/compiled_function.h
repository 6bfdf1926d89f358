// SPDX-License-Identifier: Apache-2.0

// Compiles a function of tensors, loads it in the runtime, and returns results, and gradients by
// the runtime's autograd.
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

// Returns new leaves with the elements of `inputs`; with gradients, those of a floating point or
// complex dtype require grad.
std::vector<at::Tensor> Leaves(const std::vector<at::Tensor>& inputs, bool with_gradients);

// Compiles only; returns the compiler's status.
absl::Status CompileOnly(const aot::TensorFunction& function, const std::vector<at::Tensor>& inputs,
                         bool with_gradients);

// A compiled and loaded function. Movable. Not thread-safe.
class CompiledFunction {
 public:
  // Compiles `function` for inputs of these dtypes and sizes (Leaves()), saves and loads it.
  // Errors: those of the compiler.
  static absl::StatusOr<CompiledFunction> Create(const aot::TensorFunction& function,
                                                 const std::vector<at::Tensor>& inputs, bool with_gradients,
                                                 const aot::CompileOptions& options = {});

  // Returns the loaded artifact. Errors: those of the loader.
  absl::StatusOr<std::shared_ptr<const Program>> program() const;

  // Returns the results. Errors: those of the loader and of the runtime. FailedPrecondition: a
  // result is not a tensor.
  absl::StatusOr<std::vector<at::Tensor>> Call(const std::vector<at::Tensor>& inputs);

  // Returns the gradients of the inputs that require grad, undefined ones included, for these
  // tangents of the results for which `is_root` is true. Errors: those of the loader, of the
  // runtime and of its autograd; FailedPrecondition: a result is not a tensor.
  absl::StatusOr<std::vector<at::Tensor>> Gradients(const std::vector<at::Tensor>& inputs,
                                                    const std::vector<bool>& is_root,
                                                    const std::vector<at::Tensor>& tangents);

 private:
  CompiledFunction(std::string artifact, bool with_gradients)
      : artifact_(std::move(artifact)), with_gradients_(with_gradients) {}

  absl::Status Load();
  // Calls the function. `leaves` outlive the results. `sources`: the arguments that require grad.
  absl::StatusOr<std::vector<Variable>> Run(const std::vector<at::Tensor>& leaves, std::vector<Variable>& sources);

  std::string artifact_;
  bool with_gradients_;
  std::optional<Session> session_;
  std::optional<Function> function_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_COMPILED_FUNCTION_H_
