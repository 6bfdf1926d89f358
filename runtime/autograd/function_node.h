// SPDX-License-Identifier: Apache-2.0

// ApplyFunction(): custom operations whose backward is a function of the host program (torch.autograd.Function).
#ifndef COTAN_RUNTIME_AUTOGRAD_FUNCTION_NODE_H_
#define COTAN_RUNTIME_AUTOGRAD_FUNCTION_NODE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

// Computes the gradients of the inputs from those of the outputs, as Node::Apply(). It may return undefined gradients
// beyond the inputs.
using BackwardFunction =
    std::function<absl::StatusOr<Gradients>(BackwardContext& context, absl::Span<Tensor> incoming)>;

// Computes the gradients of the inputs by operations on Variables, as Node::ApplyRecorded(): views, and calls of
// compiled functions (Function::Call()).
using RecordedBackwardFunction =
    std::function<absl::StatusOr<std::vector<Variable>>(BackwardContext& context, absl::Span<const Variable> incoming)>;

struct ApplyFunctionOptions {
  // The backward gets zeros for undefined gradients of the outputs (set_materialize_grads() in LibTorch, where it is
  // the default). Hooks of the node still see undefined ones.
  bool materialize_grads = false;
};

// Returns variables over `outputs`, which the caller computed from `inputs`, with a node that runs `backward` as
// grad_fn. They have no grad_fn if gradients are disabled or no input requires grad. Outputs whose dtype is neither
// floating point nor complex have no grad_fn and no entry in `incoming`. Undefined inputs have an undefined edge;
// undefined outputs stay undefined and have no entry in `incoming`. `recorded` is run instead of `backward` by a
// backward that is recorded (double_backward.h); null: such a backward is refused. FailedPrecondition: as
// Variable::GradientEdge().
absl::StatusOr<std::vector<Variable>> ApplyFunction(std::string name, absl::Span<const Variable> inputs,
                                                    absl::Span<const Tensor> outputs, BackwardFunction backward,
                                                    RecordedBackwardFunction recorded = nullptr,
                                                    const ApplyFunctionOptions& options = {});

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_FUNCTION_NODE_H_
