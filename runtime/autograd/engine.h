// Runs backwards.
#ifndef COTAN_RUNTIME_AUTOGRAD_ENGINE_H_
#define COTAN_RUNTIME_AUTOGRAD_ENGINE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

struct BackwardOptions {
  // Keep what nodes have saved, so that another backward may follow.
  bool retain_graph = false;
  // Record the backward itself. Refused: Unimplemented.
  bool create_graph = false;
};

// Adds the gradient of sum_i <gradients[i], roots[i]> to grad() of each leaf
// behind the roots. An undefined gradient counts as 1 if its root has one
// element; no gradients at all are undefined ones. Gradients are cast to the
// dtype of their root.
//
// Runs on the calling thread with gradients disabled; nodes and hooks may call
// Backward() again. On error some leaves may have got their gradients.
// InvalidArgument: a wrong number of gradients, a gradient of other sizes, none
// for a root of several elements, a node returned gradients of wrong number or
// type. FailedPrecondition: a root does not require grad; a graph that was
// freed; a saved value that has been modified. Unimplemented: create_graph.
// Errors of nodes and hooks.
absl::Status Backward(absl::Span<const Variable> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                      const BackwardOptions& options = {});

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  // Allow inputs that no root depends on; their gradients are undefined.
  bool allow_unused = false;
};

// The gradients of the same sum with respect to `inputs`, which may be any
// variables that require grad. Leaves keep their grad(); nodes that lead to no
// input do not run.
// Errors as Backward(). FailedPrecondition: an input does not require grad, or
// is unused and that is not allowed.
absl::StatusOr<std::vector<Tensor>> Grad(absl::Span<const Variable> roots, absl::Span<const Variable> inputs,
                                         absl::Span<const Tensor> gradients, TensorOps& ops,
                                         const GradOptions& options = {});

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_ENGINE_H_
