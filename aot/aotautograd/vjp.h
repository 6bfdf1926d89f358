// SPDX-License-Identifier: Apache-2.0

// The vector-Jacobian product of a traced function as a function of its own, for the method that
// Method.differentiable_backward names (docs/higher_order.md).
//
// It runs the function again, under autograd, and calls torch::autograd::grad with create_graph, so that LibTorch's
// autograd knows the gradients as functions of the arguments and of the tangents. It is traced like any other function.
#ifndef COTAN_AOT_AOTAUTOGRAD_VJP_H_
#define COTAN_AOT_AOTAUTOGRAD_VJP_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/aotautograd/trace_options.h"
#include "aot/capture/traced_function.h"
#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// A function to trace and the arguments to trace it with.
struct VectorJacobianProduct {
  // Takes the arguments of the function, its tangents, if there are several a flag (bool[]) for each that says whether
  // it is defined, and, if the function draws random numbers, the RNG state (i64[2]) to draw them from. Returns the
  // gradients that the function's backward returns, in that order. GuardUndefinedTangents() makes the flags work.
  TensorFunction function;
  std::vector<at::Tensor> inputs;  // examples
  TraceOptions options;            // without name; the `states` are those of the function
};

// Returns the vector-Jacobian product of `function`, which was traced as `traced` with these states, examples and
// options. The states outlive the result.
// Unimplemented: the function cannot be run again without a trace of it: it writes to or changes an argument, its
// backward writes to an argument or state, or it has effects. The message names the argument.
absl::StatusOr<VectorJacobianProduct> VectorJacobianProductOf(const TensorFunction& function,
                                                              absl::Span<const ModuleState> states,
                                                              absl::Span<const at::Tensor> inputs,
                                                              const TraceOptions& options, const TracedProgram& traced);

// Checks the cleaned graph of a vector-Jacobian product of a function that writes the states `written`. Unimplemented:
// it reads one of them; when the product is called, that no longer has the content that the function read.
absl::Status CheckReadsNoWrittenState(absl::Span<const std::string> written, const Graph& product);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_VJP_H_
