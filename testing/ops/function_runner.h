// SPDX-License-Identifier: Apache-2.0

// Runs a function of tensors twice, by LibTorch eager and compiled, and compares
// results and gradients.
#ifndef COTAN_TESTING_OPS_FUNCTION_RUNNER_H_
#define COTAN_TESTING_OPS_FUNCTION_RUNNER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

#include "aot/capture/traced_function.h"
#include "aot/compile.h"
#include "testing/ops/op_runner.h"

namespace cotan::testing {

enum class Verdict : uint8_t {
  kAgrees,             // within the tolerance
  kDiffers,            // compiled, but results differ or the runtime fails
  kRefused,            // the compiler returns Unimplemented
  kFailed,             // the compiler returns another error
  kRefusedByLibTorch,  // LibTorch rejects the arguments
  kNotDifferentiable,  // backward: no result requires grad
};

struct Judgement {
  Verdict verdict = Verdict::kFailed;
  std::string message;  // why it is not kAgrees
  double error = 0;     // of the worst tensor (ErrorOf())
};

struct FunctionOutcome {
  Judgement forward;
  Judgement backward;
};

struct FunctionCheck {
  double tolerance = 0;
  // True if results are random: then only dtypes and sizes are compared.
  bool random = false;
  aot::CompileOptions options = {};
};

// Runs `function` by LibTorch eager and compiled, and compares. For the backward, inputs of a
// floating point or complex dtype require grad.
FunctionOutcome RunFunctionBothWays(const aot::TensorFunction& function, const std::vector<at::Tensor>& inputs,
                                    const FunctionCheck& check);

// Returns a function that calls an op, "aten.add.Tensor". `inputs` receives the tensors among
// `arguments`; arguments that the op writes are copied first. Numbers among the results become 0-d
// tensors, undefined results are omitted.
aot::TensorFunction FunctionOf(const std::string& op, const OpArguments& arguments, std::vector<at::Tensor>& inputs);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_FUNCTION_RUNNER_H_
