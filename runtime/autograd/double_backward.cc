// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/double_backward.h"

#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/backward_run.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/graph_task.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/recorded_ops.h"

namespace cotan::autograd {
namespace {

// Returns `status`, its message prefixed by `context`.
absl::Status In(absl::string_view context, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

// Returns `gradient` cast and summed over broadcast dimensions to `type`. InvalidArgument: the device or the sizes do
// not match.
absl::StatusOr<Variable> Conform(TensorOps& ops, Variable gradient, const GradientType& type) {
  if (&gradient.tensor().device() != type.device) {
    return absl::InvalidArgumentError(absl::StrCat("a gradient ", gradient.tensor().ToString(), " of a value ",
                                                   type.ToString(), " is on another device than the value"));
  }
  if (gradient.sizes() != absl::MakeConstSpan(type.sizes)) {
    absl::StatusOr<Variable> sum = RecordedSumTo(ops, gradient, type.sizes);
    if (absl::IsInvalidArgument(sum.status())) {
      return absl::InvalidArgumentError(absl::StrCat("invalid gradient: got ", gradient.tensor().ToString(),
                                                     " but expected shape compatible with ", type.ToString()));
    }
    COTAN_RETURN_IF_ERROR(sum.status());
    gradient = *std::move(sum);
  }
  if (type.dtype == DType::kUndefined) return gradient;
  return RecordedCast(ops, gradient, type.dtype);
}

absl::Status AddUp(TensorOps& ops, const Variable& gradient, Variable& sum) {
  if (!sum.defined()) {
    sum = gradient;
    return absl::OkStatus();
  }
  COTAN_RETURN_IF_ERROR(CheckEqualDTypes(sum.tensor(), gradient.tensor()));
  COTAN_ASSIGN_OR_RETURN(sum, RecordedAdd(ops, sum, gradient));
  return absl::OkStatus();
}

// Unimplemented: a hook has replaced the tensor of one of `variables` in `tensors`.
absl::Status CheckKept(absl::Span<const Variable> variables, absl::Span<const Tensor> tensors, const Node& node) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool was_defined = variables[i].defined();
    if (!was_defined && !tensors[i].defined()) continue;
    if (was_defined && tensors[i].defined() && tensors[i].storage() == variables[i].tensor().storage() &&
        tensors[i].layout() == variables[i].layout()) {
      continue;
    }
    return absl::UnimplementedError(absl::StrCat(
        "create_graph: a hook of ", node.name(),
        " replaced a gradient by a tensor that has no history, so that it cannot be differentiated again. Let the hook "
        "return an undefined tensor, which keeps the gradient, or scale the gradient inside the compiled function"));
  }
  return absl::OkStatus();
}

// A backward whose nodes run by operations on variables. Order, captures and callbacks are those of BackwardRun.
class RecordedRun {
 public:
  explicit RecordedRun(TensorOps& ops) : run_(ops, /*retain_graph=*/true) {}

  // Adds `gradient` at the input that `edge` leads to, as root `index`. Call before Execute().
  absl::Status AddRoot(const Edge& edge, Variable gradient, int index);
  GraphTask& task() { return run_.task(); }

  // Runs the nodes and the queued callbacks, and writes the captured gradients.
  absl::Status Execute(std::vector<Variable>& captured);

 private:
  // Returns the gradients that have arrived at the node, one for each input.
  std::vector<Variable>& Incoming(const GraphTask::Visit& visit);
  absl::Status RunVisit(const GraphTask::Visit& visit, std::vector<Variable>& captured);
  absl::Status RunHooks(const GraphTask::Visit& visit);
  absl::StatusOr<std::vector<Variable>> Apply(const GraphTask::Visit& visit);

  BackwardRun run_;
  std::vector<std::vector<Variable>> incoming_;  // by visit
};

std::vector<Variable>& RecordedRun::Incoming(const GraphTask::Visit& visit) {
  if (incoming_.size() < static_cast<size_t>(task().num_visits())) {
    incoming_.resize(static_cast<size_t>(task().num_visits()));
  }
  std::vector<Variable>& incoming = incoming_[static_cast<size_t>(visit.index)];
  if (incoming.empty()) incoming.resize(static_cast<size_t>(visit.node->num_inputs()));
  return incoming;
}

absl::Status RecordedRun::AddRoot(const Edge& edge, Variable gradient, int index) {
  absl::StatusOr<Variable> conforming = Conform(run_.ops(), std::move(gradient), edge.node->input(edge.input));
  COTAN_RETURN_IF_ERROR(In(absl::StrCat("root ", index), conforming.status()));
  const GraphTask::Visit& visit = task().AddRoot(edge.node, edge.input);
  return AddUp(run_.ops(), *conforming, Incoming(visit)[static_cast<size_t>(edge.input)]);
}

absl::Status RecordedRun::Execute(std::vector<Variable>& captured) {
  return run_.Run([&] { return task().Execute([&](GraphTask::Visit& visit) { return RunVisit(visit, captured); }); });
}

absl::Status RecordedRun::RunHooks(const GraphTask::Visit& visit) {
  const Hooks* const hooks = visit.node->hooks();
  if (hooks == nullptr || !visit.awaited()) return absl::OkStatus();
  const std::vector<Variable>& incoming = Incoming(visit);
  std::vector<Tensor> tensors = TensorsOf(incoming);
  COTAN_RETURN_IF_ERROR(hooks->RunReplacingHooks(absl::MakeSpan(tensors)));
  COTAN_RETURN_IF_ERROR(CheckKept(incoming, tensors, *visit.node));
  return hooks->RunRetainHooks(run_.ops(), incoming);
}

absl::Status RecordedRun::RunVisit(const GraphTask::Visit& visit, std::vector<Variable>& captured) {
  COTAN_RETURN_IF_ERROR(RunHooks(visit));
  for (const auto& [input, index] : visit.captures) {
    captured[static_cast<size_t>(index)] = Incoming(visit)[static_cast<size_t>(input)];
  }
  if (!visit.runs) return absl::OkStatus();
  const absl::StatusOr<std::vector<Variable>> results = Apply(visit);
  if (!results.ok()) return InBackwardOf(*visit.node, results.status());
  for (int i = 0; i < visit.node->num_edges(); ++i) {
    const Edge& edge = visit.node->edge(i);
    const Variable& gradient = (*results)[static_cast<size_t>(i)];
    if (!edge.defined() || !gradient.defined()) continue;
    std::vector<Variable>& next = Incoming(task().At(edge.node.get()));
    COTAN_RETURN_IF_ERROR(AddUp(run_.ops(), gradient, next[static_cast<size_t>(edge.input)]));
  }
  Incoming(visit).clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Variable>> RecordedRun::Apply(const GraphTask::Visit& visit) {
  Node& node = *visit.node;
  const Hooks* const hooks = node.hooks();
  std::vector<Variable>& incoming = Incoming(visit);
  std::vector<Tensor> before = TensorsOf(incoming);
  if (hooks != nullptr) {
    COTAN_RETURN_IF_ERROR(hooks->RunPreHooks(absl::MakeSpan(before)));
    COTAN_RETURN_IF_ERROR(CheckKept(incoming, before, node));
  }
  const absl::InlinedVector<bool, 8> needed = run_.NeededEdges(node);
  BackwardContext context(run_.ops(), needed, /*retains_graph=*/true);
  std::vector<Variable> results(needed.size());
  COTAN_RETURN_IF_ERROR(node.ApplyRecorded(context, absl::MakeSpan(incoming), results));
  if (results.size() != needed.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the node returned ", results.size(), " gradients, expected ", needed.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!needed[i]) results[i] = Variable();
    if (!results[i].defined()) continue;
    const Edge& edge = node.edge(static_cast<int>(i));
    absl::StatusOr<Variable> conforming = Conform(run_.ops(), results[i], edge.node->input(edge.input));
    COTAN_RETURN_IF_ERROR(In(absl::StrCat("gradient ", i), conforming.status()));
    results[i] = *std::move(conforming);
  }
  if (hooks != nullptr && hooks->has_post_hooks()) {
    Gradients tensors = TensorsOf(results);
    COTAN_RETURN_IF_ERROR(hooks->RunPostHooks(tensors, before));
    COTAN_RETURN_IF_ERROR(CheckKept(results, tensors, node));
  }
  return results;
}

// Returns the gradient of a root: `given`, or 1 for a real root of one element.
absl::StatusOr<Variable> RootGradient(TensorOps& ops, const Variable& root, const Variable& given, int index) {
  if (given.defined()) {
    if (IsComplex(given.dtype()) == IsComplex(root.dtype())) return given;
    return absl::InvalidArgumentError(absl::StrCat("root ", index, " is ", root.tensor().ToString(),
                                                   ", its gradient is ", given.tensor().ToString(),
                                                   ": both or neither must be complex"));
  }
  if (root.tensor().num_elements() != 1 || IsComplex(root.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("root ", index, " is ", root.tensor().ToString(),
                                                   ": grad can be implicitly created only for real scalar outputs"));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor one, ops.Ones(root.dtype(), root.sizes()));
  return Variable(std::move(one));
}

absl::Status AddRoots(absl::Span<const Variable> roots, absl::Span<const Variable> gradients, TensorOps& ops,
                      RecordedRun& run) {
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
    COTAN_ASSIGN_OR_RETURN(Variable gradient,
                           RootGradient(ops, roots[i], gradients.empty() ? Variable() : gradients[i], index));
    COTAN_RETURN_IF_ERROR(run.AddRoot(edge, std::move(gradient), index));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BackwardWithGraph(absl::Span<const Variable> roots, absl::Span<const Variable> gradients, TensorOps& ops,
                               const std::optional<std::vector<Variable>>& inputs) {
  const GradModeGuard grad(true);
  RecordedRun run(ops);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  if (inputs.has_value()) COTAN_RETURN_IF_ERROR(AccumulateOnlyInto(*inputs, run.task()));
  std::vector<Variable> none;
  return run.Execute(none);
}

absl::StatusOr<std::vector<Variable>> GradWithGraph(absl::Span<const Variable> roots, absl::Span<const Variable> inputs,
                                                    absl::Span<const Variable> gradients, TensorOps& ops,
                                                    std::optional<bool> allow_unused, bool materialize_grads) {
  COTAN_ASSIGN_OR_RETURN(const UnusedInputs unused, UnusedInputsOf(allow_unused, materialize_grads));
  const GradModeGuard grad(true);
  RecordedRun run(ops);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  run.task().RestrictToNeeded();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) {
      return absl::FailedPreconditionError(absl::StrCat("input ", i, " does not require grad"));
    }
    COTAN_ASSIGN_OR_RETURN(const Edge edge, inputs[i].GradientEdge());
    if (edge.defined()) run.task().Capture(edge, static_cast<int>(i));
  }
  std::vector<Variable> results(inputs.size());
  COTAN_RETURN_IF_ERROR(run.Execute(results));
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined()) continue;
    COTAN_ASSIGN_OR_RETURN(Tensor zeros, GradientOfUnused(unused, GradientType::Of(inputs[i].tensor()), ops, i));
    if (!zeros.defined()) continue;
    COTAN_ASSIGN_OR_RETURN(results[i], Variable::Leaf(std::move(zeros)));
  }
  return results;
}

}  // namespace cotan::autograd
