// SPDX-License-Identifier: Apache-2.0

// Backward(), Grad(): the engine that runs backwards (torch/csrc/autograd/engine.h).
#ifndef COTAN_RUNTIME_AUTOGRAD_ENGINE_H_
#define COTAN_RUNTIME_AUTOGRAD_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

struct BackwardOptions {
  // Keep the saved values of the nodes, so that another backward may follow.
  bool retain_graph = false;
  // Record the backward itself, so that grad() can be differentiated again: BackwardWithGraph() (double_backward.h).
  // The graph is then retained.
  bool create_graph = false;
  // If set: only these variables accumulate into grad(), as leaves do, non-leaves too; nodes that lead to none of them
  // do not run. Not empty.
  std::optional<std::vector<Variable>> inputs = std::nullopt;
};

// Adds the gradient of sum_i <gradients[i], roots[i]> to grad() of each leaf that the roots were computed from. An
// undefined gradient counts as 1 if its root has one element; empty `gradients` count as undefined ones. Gradients are
// cast to the dtype of their root.
//
// Runs on the calling thread with gradients disabled; nodes and hooks may call Backward() recursively, to any depth:
// every 60th nested backward runs on another thread, for which the caller waits. After an error some leaves may have
// accumulated their gradients. InvalidArgument: the number of gradients differs from that of roots; a gradient has
// other sizes than its root; a gradient of a root with several elements is undefined; a node returned gradients of
// wrong number or type; options.inputs is empty. FailedPrecondition: a root or one of options.inputs does not require
// grad; the graph has been freed; a saved value has been modified. With create_graph, also the errors of
// BackwardWithGraph(). ResourceExhausted: a thread cannot be created. Unimplemented: a result of a compiled function,
// or an argument that it has written, has a hook or RetainGrad() or is one of options.inputs, and a gradient may flow
// to another result that the function computes from it. Errors of nodes and hooks are returned as they are.
absl::Status Backward(absl::Span<const Variable> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                      const BackwardOptions& options = {});

// Runs a backward from the edges of values (Variable::GradientEdge()), which keep the graph although the variables may
// have been dropped or written: an edge leads to the gradient of the version at which it was taken. Gradients as those
// of Backward(). InvalidArgument also: an edge leads to no input of a node. Other errors: as Backward().
absl::Status BackwardOfEdges(absl::Span<const Edge> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                             bool retain_graph = false);

// Queues a function that the running backward calls after its last node; called from a hook or a node. Callbacks may
// queue others. That of a recursive backward runs at its own end. An error becomes the status of the backward.
// FailedPrecondition: no backward runs on this thread.
absl::Status QueueCallback(std::function<absl::Status()> callback);

// Returns whether the running backward keeps the saved values (retain_graph); called from a hook or a node.
// FailedPrecondition: no backward runs on this thread.
absl::StatusOr<bool> RetainsGraph();

// Returns the number of the running backward, which no other one of the process has; called from a hook or a node.
// FailedPrecondition: no backward runs on this thread.
absl::StatusOr<uint64_t> BackwardId();

// Returns the nodes of the running backward in the order in which they run, those that have run included; called from a
// hook or a node. Also nodes that only gradients are asked of, without those that are not needed. FailedPrecondition:
// no backward runs on this thread.
absl::StatusOr<std::vector<std::shared_ptr<Node>>> ExecutionOrder();

struct GradOptions {
  bool retain_graph = false;
  // Record the backward, as GradWithGraph() (double_backward.h). That function returns the variables with the history;
  // Grad() returns their tensors.
  bool create_graph = false;
  // Allow inputs that no root depends on; their gradients are undefined. (The default is an error.) Unset: as
  // materialize_grads.
  std::optional<bool> allow_unused = std::nullopt;
  // Return zeros in place of undefined gradients.
  bool materialize_grads = false;
};

// Returns the gradients of sum_i <gradients[i], roots[i]> with respect to `inputs`, which may be any variables that
// require grad. Does not change grad() of leaves, and does not run nodes that lead to no input. FailedPrecondition: an
// input does not require grad, or no root depends on it and allow_unused is false. InvalidArgument also:
// materialize_grads is set and allow_unused is false. Unimplemented: an input is a result of a compiled function, or an
// argument that it has written, and a gradient may flow to another result that the function computes from it; or as
// Backward(). Other errors: as Backward().
absl::StatusOr<std::vector<Tensor>> Grad(absl::Span<const Variable> roots, absl::Span<const Variable> inputs,
                                         absl::Span<const Tensor> gradients, TensorOps& ops,
                                         const GradOptions& options = {});

// Returns the gradients that arrive at the edges `inputs`, as Grad(), from roots as those of BackwardOfEdges().
// Unimplemented: options.create_graph is set. Other errors: as Grad() and BackwardOfEdges().
absl::StatusOr<std::vector<Tensor>> GradOfEdges(absl::Span<const Edge> roots, absl::Span<const Edge> inputs,
                                                absl::Span<const Tensor> gradients, TensorOps& ops,
                                                const GradOptions& options = {});

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_ENGINE_H_
