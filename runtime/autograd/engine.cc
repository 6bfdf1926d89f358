// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/engine.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/backward_run.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/recorded_ops.h"

namespace cotan::autograd {
namespace {

// Returns the gradient of a root: `given`, or 1 for a real root of one element.
absl::StatusOr<Tensor> RootGradient(TensorOps& ops, const Variable& root, const Tensor& given, int index) {
  if (given.defined()) {
    if (IsComplex(given.dtype()) == IsComplex(root.dtype())) return given;
    return absl::InvalidArgumentError(absl::StrCat("root ", index, " is ", root.tensor().ToString(),
                                                   ", its gradient is ", given.ToString(),
                                                   ": both or neither must be complex"));
  }
  if (root.tensor().num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("root ", index, " is ", root.tensor().ToString(),
                                                   ": grad can be implicitly created only for scalar outputs"));
  }
  if (IsComplex(root.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("root ", index, " is ", root.tensor().ToString(),
                                                   ": grad can be implicitly created only for real scalar outputs"));
  }
  return ops.Ones(root.dtype(), root.sizes());
}

absl::Status AddRoots(absl::Span<const Variable> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                      BackwardRun& run) {
  if (!gradients.empty() && gradients.size() != roots.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", roots.size(), " roots and ", gradients.size(), " gradients"));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    const int index = static_cast<int>(i);
    Edge edge;
    if (roots[i].defined()) {
      COTAN_ASSIGN_OR_RETURN(edge, roots[i].GradientEdge());
    }
    if (!edge.defined()) {
      return absl::FailedPreconditionError(
          absl::StrCat("root ", index, " does not require grad and does not have a grad_fn"));
    }
    COTAN_ASSIGN_OR_RETURN(Tensor gradient,
                           RootGradient(ops, roots[i], gradients.empty() ? Tensor() : gradients[i], index));
    COTAN_RETURN_IF_ERROR(run.AddRoot(edge, std::move(gradient), index));
  }
  return absl::OkStatus();
}

// Runs the nodes, then the queued callbacks.
absl::Status Execute(BackwardRun& run) {
  BackwardExecutor* const executor = BackwardExecutor::Current();
  return run.Run([&] { return executor == nullptr ? run.Walk() : executor->Execute(run); });
}

// Returns variables without grad_fn over the tensors; undefined ones for undefined tensors.
std::vector<Variable> AsVariables(absl::Span<const Tensor> tensors) {
  std::vector<Variable> variables;
  for (const Tensor& tensor : tensors) variables.push_back(tensor.defined() ? Variable(tensor) : Variable());
  return variables;
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
  const BackwardRun* const run = BackwardRun::Current();
  if (run == nullptr) {
    return absl::FailedPreconditionError("RetainsGraph() is known only during backward: call it from a hook or a node");
  }
  return run->retains_graph();
}

absl::Status Backward(absl::Span<const Variable> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                      const BackwardOptions& options) {
  if (options.inputs.has_value() && options.inputs->empty()) {
    return absl::InvalidArgumentError("inputs cannot be empty: leave them unset to reach all leaves");
  }
  if (options.create_graph) return BackwardWithGraph(roots, AsVariables(gradients), ops, options.inputs);
  GradModeGuard no_grad(false);
  BackwardRun run(ops, options.retain_graph);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  if (options.inputs.has_value()) COTAN_RETURN_IF_ERROR(AccumulateOnlyInto(*options.inputs, run.task()));
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
  COTAN_ASSIGN_OR_RETURN(const UnusedInputs unused, UnusedInputsOf(options.allow_unused, options.materialize_grads));
  GradModeGuard no_grad(false);
  BackwardRun run(ops, options.retain_graph);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  run.task().RestrictToNeeded();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) {
      return absl::FailedPreconditionError(absl::StrCat("input ", i, " does not require grad"));
    }
    COTAN_ASSIGN_OR_RETURN(const Edge edge, inputs[i].GradientEdge());
    if (edge.defined()) run.Capture(edge, static_cast<int>(i));
  }
  COTAN_RETURN_IF_ERROR(Execute(run));
  std::vector<Tensor> results = std::move(run.captured());
  results.resize(inputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined()) continue;
    COTAN_ASSIGN_OR_RETURN(results[i], GradientOfUnused(unused, GradientType::Of(inputs[i].tensor()), ops, i));
  }
  return results;
}

}  // namespace cotan::autograd
