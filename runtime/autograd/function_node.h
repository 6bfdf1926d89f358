// Nodes whose backward is a function of the host program.
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

// From the gradients of the outputs to those of the inputs, as Node::Apply().
using BackwardFunction =
    std::function<absl::StatusOr<Gradients>(BackwardContext& context, absl::Span<Tensor> incoming)>;

// Variables over `outputs`, computed from `inputs` by whatever means, for which
// `backward` gives gradients. If gradients are disabled or no input requires
// grad, they have no history. Outputs that are neither floating point nor complex
// get none either; `incoming` then has no entry for them. Undefined inputs and
// outputs are allowed and take no part.
// FailedPrecondition: as Variable::GradientEdge().
absl::StatusOr<std::vector<Variable>> ApplyFunction(std::string name, absl::Span<const Variable> inputs,
                                                    absl::Span<const Tensor> outputs, BackwardFunction backward);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_FUNCTION_NODE_H_
