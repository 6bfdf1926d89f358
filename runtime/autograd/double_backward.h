// SPDX-License-Identifier: Apache-2.0

// BackwardWithGraph(), GradWithGraph(): backwards that are recorded, so that their gradients can be differentiated
// again (create_graph = true in LibTorch).
//
// Each node computes its gradients by recorded operations on Variables (Node::ApplyRecorded()). A compiled function has
// them if it was compiled with CompileOptions::order >= 2 (docs/higher_order.md).
#ifndef COTAN_RUNTIME_AUTOGRAD_DOUBLE_BACKWARD_H_
#define COTAN_RUNTIME_AUTOGRAD_DOUBLE_BACKWARD_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"

namespace cotan::autograd {

// Adds the gradients of sum_i <gradients[i], roots[i]> to grad() of each leaf, as Backward() (engine.h). A gradient
// that is added to an existing grad() replaces it by a new variable. Where a gradient depends on a variable that
// requires grad, grad() has a grad_fn. The graph is retained. `inputs`: as BackwardOptions::inputs.
//
// Runs on the calling thread with gradients enabled. A hook may look at a gradient but not replace it, because its
// replacement has no history: Unimplemented. Unimplemented also: a node cannot be differentiated (Node::
// ApplyRecorded()); the message names it. Other errors: as Backward().
absl::Status BackwardWithGraph(absl::Span<const Variable> roots, absl::Span<const Variable> gradients, TensorOps& ops,
                               const std::optional<std::vector<Variable>>& inputs = std::nullopt);

// Returns the gradients of sum_i <gradients[i], roots[i]> with respect to `inputs`, as Grad() (engine.h), with history.
// The graph is retained. `allow_unused`, `materialize_grads`: as GradOptions; the zeros are leaves that require grad,
// so that they can be differentiated again. Errors: as BackwardWithGraph() and Grad().
absl::StatusOr<std::vector<Variable>> GradWithGraph(absl::Span<const Variable> roots, absl::Span<const Variable> inputs,
                                                    absl::Span<const Variable> gradients, TensorOps& ops,
                                                    std::optional<bool> allow_unused = std::nullopt,
                                                    bool materialize_grads = false);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_DOUBLE_BACKWARD_H_
