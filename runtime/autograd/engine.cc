// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/engine.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "runtime/autograd/backward_run.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/recorded_ops.h"

namespace cotan::autograd {
namespace {

// A value where a backward begins or ends.
struct End {
  Edge edge;
  GradientType type;
};
using Ends = absl::InlinedVector<End, 1>;

// InvalidArgument: an edge leads to no input of a node. `what`: the edges are.
absl::Status CheckEdges(absl::Span<const Edge> edges, absl::string_view what) {
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (edge.defined() && edge.input >= 0 && edge.input < edge.node->num_inputs()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", i, " is an edge to ",
                     edge.defined() ? absl::StrCat("input ", edge.input, " of ", edge.node->name(), ", which has ",
                                                   edge.node->num_inputs(), " inputs")
                                    : "no node, as that of a variable that does not require grad"));
  }
  return absl::OkStatus();
}

// Returns the roots. FailedPrecondition: one requires no grad.
absl::StatusOr<Ends> RootsOf(absl::Span<const Variable> variables) {
  Ends roots;
  for (size_t i = 0; i < variables.size(); ++i) {
    Edge edge;
    if (variables[i].defined()) {
      COTAN_ASSIGN_OR_RETURN(edge, variables[i].GradientEdge());
    }
    if (!edge.defined()) {
      return absl::FailedPreconditionError(
          absl::StrCat("root ", i, " does not require grad and does not have a grad_fn"));
    }
    roots.push_back({std::move(edge), GradientType::Of(variables[i].tensor())});
  }
  return roots;
}

// Returns the type of the value that the edge leads to. A leaf whose gradients keep their dtype has its own here.
GradientType TypeAt(const Edge& edge) {
  GradientType type = edge.node->input(edge.input);
  if (type.dtype == DType::kUndefined && edge.node->leaf() != nullptr) type.dtype = edge.node->leaf()->dtype();
  return type;
}

absl::StatusOr<Ends> RootsOf(absl::Span<const Edge> edges) {
  COTAN_RETURN_IF_ERROR(CheckEdges(edges, "root"));
  Ends roots;
  for (const Edge& edge : edges) roots.push_back({edge, TypeAt(edge)});
  return roots;
}

// Returns the gradient of a root: `given`, or 1 for a real root of one element.
absl::StatusOr<Tensor> RootGradient(TensorOps& ops, const GradientType& root, const Tensor& given, size_t index) {
  if (given.defined()) {
    if (IsComplex(given.dtype()) == IsComplex(root.dtype)) return given;
    return absl::InvalidArgumentError(absl::StrCat("root ", index, " is ", root.ToString(), ", its gradient is ",
                                                   given.ToString(), ": both or neither must be complex"));
  }
  const bool has_one_element = std::all_of(root.sizes.begin(), root.sizes.end(), [](int64_t n) { return n == 1; });
  if (has_one_element && !IsComplex(root.dtype)) return ops.Ones(root.dtype, root.sizes);
  return absl::InvalidArgumentError(absl::StrCat("root ", index, " is ", root.ToString(),
                                                 ": grad can be implicitly created only for ",
                                                 has_one_element ? "real scalar outputs" : "scalar outputs"));
}

absl::Status AddRoots(absl::Span<const End> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                      BackwardRun& run) {
  if (!gradients.empty() && gradients.size() != roots.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", roots.size(), " roots and ", gradients.size(), " gradients"));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(Tensor gradient,
                           RootGradient(ops, roots[i].type, gradients.empty() ? Tensor() : gradients[i], i));
    COTAN_RETURN_IF_ERROR(run.AddRoot(roots[i].edge, std::move(gradient), static_cast<int>(i)));
  }
  return absl::OkStatus();
}

// Runs the nodes, then the queued callbacks.
absl::Status Execute(BackwardRun& run) {
  BackwardExecutor* const executor = BackwardExecutor::Current();
  return run.Run([&] { return executor == nullptr ? run.Walk() : executor->Execute(run); });
}

// Returns the gradients of `roots` with respect to `inputs`, whose edges may be undefined: such an input is unused.
absl::StatusOr<std::vector<Tensor>> GradBetween(absl::Span<const End> roots, absl::Span<const End> inputs,
                                                absl::Span<const Tensor> gradients, TensorOps& ops,
                                                const GradOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const UnusedInputs unused, UnusedInputsOf(options.allow_unused, options.materialize_grads));
  BackwardRun run(ops, options.retain_graph);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  run.task().RestrictToNeeded();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].edge.defined()) run.Capture(inputs[i].edge, static_cast<int>(i));
  }
  COTAN_RETURN_IF_ERROR(Execute(run));
  std::vector<Tensor> results = std::move(run.captured());
  results.resize(inputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined()) continue;
    COTAN_ASSIGN_OR_RETURN(results[i], GradientOfUnused(unused, inputs[i].type, ops, i));
  }
  return results;
}

// Returns variables without grad_fn over the tensors; undefined ones for undefined tensors.
std::vector<Variable> AsVariables(absl::Span<const Tensor> tensors) {
  std::vector<Variable> variables;
  for (const Tensor& tensor : tensors) variables.push_back(tensor.defined() ? Variable(tensor) : Variable());
  return variables;
}

// Returns the running backward of this thread. FailedPrecondition: there is none. `asked`: what asks.
absl::StatusOr<BackwardRun*> RunningBackward(absl::string_view asked) {
  BackwardRun* const run = BackwardRun::Current();
  if (run != nullptr) return run;
  return absl::FailedPreconditionError(
      absl::StrCat(asked, " is known only during backward: call it from a hook or a node"));
}

}  // namespace

absl::Status QueueCallback(std::function<absl::Status()> callback) {
  BackwardRun* const run = BackwardRun::Current();
  if (run == nullptr) {
    return absl::FailedPreconditionError(
        "final callbacks can be queued only during backward: call QueueCallback() "
        "from a hook or a node");
  }
  run->QueueCallback(std::move(callback));
  return absl::OkStatus();
}

absl::StatusOr<bool> RetainsGraph() {
  COTAN_ASSIGN_OR_RETURN(const BackwardRun* const run, RunningBackward("RetainsGraph()"));
  return run->retains_graph();
}

absl::StatusOr<uint64_t> BackwardId() {
  COTAN_ASSIGN_OR_RETURN(const BackwardRun* const run, RunningBackward("BackwardId()"));
  return run->id();
}

absl::StatusOr<std::vector<std::shared_ptr<Node>>> ExecutionOrder() {
  COTAN_ASSIGN_OR_RETURN(BackwardRun* const run, RunningBackward("ExecutionOrder()"));
  return run->task().Order();
}

absl::Status Backward(absl::Span<const Variable> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                      const BackwardOptions& options) {
  if (options.inputs.has_value() && options.inputs->empty()) {
    return absl::InvalidArgumentError("inputs cannot be empty: leave them unset to reach all leaves");
  }
  if (options.create_graph) return BackwardWithGraph(roots, AsVariables(gradients), ops, options.inputs);
  GradModeGuard no_grad(false);
  COTAN_ASSIGN_OR_RETURN(const Ends starts, RootsOf(roots));
  BackwardRun run(ops, options.retain_graph);
  COTAN_RETURN_IF_ERROR(AddRoots(starts, gradients, ops, run));
  if (options.inputs.has_value()) COTAN_RETURN_IF_ERROR(AccumulateOnlyInto(*options.inputs, run.task()));
  return Execute(run);
}

absl::Status BackwardOfEdges(absl::Span<const Edge> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                             bool retain_graph) {
  GradModeGuard no_grad(false);
  COTAN_ASSIGN_OR_RETURN(const Ends starts, RootsOf(roots));
  BackwardRun run(ops, retain_graph);
  COTAN_RETURN_IF_ERROR(AddRoots(starts, gradients, ops, run));
  return Execute(run);
}

absl::StatusOr<std::vector<Tensor>> Grad(absl::Span<const Variable> roots, absl::Span<const Variable> inputs,
                                         absl::Span<const Tensor> gradients, TensorOps& ops,
                                         const GradOptions& options) {
  if (options.create_graph) {
    COTAN_ASSIGN_OR_RETURN(
        const std::vector<Variable> results,
        GradWithGraph(roots, inputs, AsVariables(gradients), ops, options.allow_unused, options.materialize_grads));
    return TensorsOf(results);
  }
  GradModeGuard no_grad(false);
  COTAN_ASSIGN_OR_RETURN(const Ends starts, RootsOf(roots));
  Ends ends;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) {
      return absl::FailedPreconditionError(absl::StrCat("input ", i, " does not require grad"));
    }
    COTAN_ASSIGN_OR_RETURN(Edge edge, inputs[i].GradientEdge());
    ends.push_back({std::move(edge), GradientType::Of(inputs[i].tensor())});
  }
  return GradBetween(starts, ends, gradients, ops, options);
}

absl::StatusOr<std::vector<Tensor>> GradOfEdges(absl::Span<const Edge> roots, absl::Span<const Edge> inputs,
                                                absl::Span<const Tensor> gradients, TensorOps& ops,
                                                const GradOptions& options) {
  if (options.create_graph) {
    return absl::UnimplementedError(
        "create_graph: gradients between edges are not recorded: call GradWithGraph() with the variables");
  }
  GradModeGuard no_grad(false);
  COTAN_ASSIGN_OR_RETURN(const Ends starts, RootsOf(roots));
  COTAN_RETURN_IF_ERROR(CheckEdges(inputs, "input"));
  Ends ends;
  for (const Edge& edge : inputs) ends.push_back({edge, TypeAt(edge)});
  return GradBetween(starts, ends, gradients, ops, options);
}

}  // namespace cotan::autograd
