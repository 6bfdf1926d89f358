// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/double_backward.h"

#include <memory>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"
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
  return RecordedCast(ops, gradient, type.dtype);
}

absl::Status AddUp(TensorOps& ops, const Variable& gradient, Variable& sum) {
  if (!sum.defined()) {
    sum = gradient;
    return absl::OkStatus();
  }
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

// One recorded run. The order of nodes is that of the engine (engine.cc).
class RecordedRun {
 public:
  explicit RecordedRun(TensorOps& ops) : ops_(ops) {}

  // Adds `gradient` at the input that `edge` leads to, as root `index`. Call before Execute().
  absl::Status AddRoot(const Edge& edge, Variable gradient, int index);
  // Restricts the run to nodes that lead to a captured edge.
  void CaptureOnly() { capture_only_ = true; }
  // Makes the gradient along `edge` result `index`.
  void Capture(const Edge& edge, int index) { Find(edge.node).first->captures.emplace_back(edge.input, index); }

  // Runs the nodes and writes the captured gradients.
  absl::Status Execute(std::vector<Variable>& captured);

 private:
  struct Work {
    std::shared_ptr<Node> node;
    int dependencies = 0;                       // edges to the node that are not processed yet
    bool runs = true;                           // false: the node is only captured, or not needed
    bool is_listed = false;                     // it is in order_
    std::vector<Variable> incoming;             // by input
    std::vector<std::pair<int, int>> captures;  // input, index of the result
    bool awaited() const { return runs || !captures.empty(); }
  };
  struct LaterFirst {
    bool operator()(const Work* a, const Work* b) const { return a->node->sequence() < b->node->sequence(); }
  };

  std::pair<Work*, bool> Find(const std::shared_ptr<Node>& node);
  // Counts the edges to each reachable node and lists the nodes, each after the nodes that its edges lead to.
  void ListNodes();
  void MarkNeeded();
  absl::Status RunWork(Work& work, std::vector<Variable>& captured);
  absl::Status RunHooks(const Work& work) const;
  absl::StatusOr<std::vector<Variable>> Apply(Work& work);

  TensorOps& ops_;
  bool capture_only_ = false;
  absl::flat_hash_map<const Node*, std::unique_ptr<Work>> works_;
  std::vector<Work*> roots_;
  std::vector<Work*> order_;
};

std::pair<RecordedRun::Work*, bool> RecordedRun::Find(const std::shared_ptr<Node>& node) {
  const auto [entry, is_new] = works_.try_emplace(node.get(), nullptr);
  if (is_new) {
    entry->second = std::make_unique<Work>();
    entry->second->node = node;
    entry->second->incoming.resize(static_cast<size_t>(node->num_inputs()));
  }
  return {entry->second.get(), is_new};
}

absl::Status RecordedRun::AddRoot(const Edge& edge, Variable gradient, int index) {
  absl::StatusOr<Variable> conforming = Conform(ops_, std::move(gradient), edge.node->input(edge.input));
  COTAN_RETURN_IF_ERROR(In(absl::StrCat("root ", index), conforming.status()));
  const auto [work, is_new] = Find(edge.node);
  if (is_new) roots_.push_back(work);
  return AddUp(ops_, *conforming, work->incoming[static_cast<size_t>(edge.input)]);
}

void RecordedRun::ListNodes() {
  struct Visit {
    Work* work;
    int next_edge;
  };
  std::vector<Visit> path;
  for (Work* root : roots_) {
    if (!std::exchange(root->is_listed, true)) path.push_back({root, 0});
    while (!path.empty()) {
      Visit& visit = path.back();
      const Node& node = *visit.work->node;
      if (visit.next_edge == node.num_edges()) {
        order_.push_back(visit.work);
        path.pop_back();
        continue;
      }
      const Edge& edge = node.edge(visit.next_edge++);
      if (!edge.defined()) continue;
      Work* const next = Find(edge.node).first;
      ++next->dependencies;
      if (!std::exchange(next->is_listed, true)) path.push_back({next, 0});
    }
  }
}

void RecordedRun::MarkNeeded() {
  for (const auto& [node, work] : works_) work->runs = false;
  for (Work* work : order_) {
    for (int i = 0; i < work->node->num_edges(); ++i) {
      const Edge& edge = work->node->edge(i);
      if (edge.defined() && works_.at(edge.node.get())->awaited()) work->runs = true;
    }
  }
}

absl::Status RecordedRun::Execute(std::vector<Variable>& captured) {
  ListNodes();
  if (capture_only_) MarkNeeded();
  std::priority_queue<Work*, std::vector<Work*>, LaterFirst> ready;
  for (Work* root : roots_) {
    if (root->dependencies == 0) ready.push(root);
  }
  while (!ready.empty()) {
    Work& work = *ready.top();
    ready.pop();
    COTAN_RETURN_IF_ERROR(RunWork(work, captured));
    for (int i = 0; i < work.node->num_edges(); ++i) {
      const Edge& edge = work.node->edge(i);
      if (!edge.defined()) continue;
      Work& next = *works_.at(edge.node.get());
      if (--next.dependencies == 0) ready.push(&next);
    }
  }
  return absl::OkStatus();
}

absl::Status RecordedRun::RunHooks(const Work& work) const {
  const Hooks* const hooks = work.node->hooks();
  if (hooks == nullptr || !work.awaited()) return absl::OkStatus();
  std::vector<Tensor> tensors = TensorsOf(work.incoming);
  COTAN_RETURN_IF_ERROR(hooks->RunReplacingHooks(absl::MakeSpan(tensors)));
  COTAN_RETURN_IF_ERROR(CheckKept(work.incoming, tensors, *work.node));
  return hooks->RunRetainHooks(ops_, work.incoming);
}

absl::Status RecordedRun::RunWork(Work& work, std::vector<Variable>& captured) {
  COTAN_RETURN_IF_ERROR(RunHooks(work));
  for (const auto& [input, index] : work.captures) {
    captured[static_cast<size_t>(index)] = work.incoming[static_cast<size_t>(input)];
  }
  if (!work.runs) return absl::OkStatus();
  const absl::StatusOr<std::vector<Variable>> results = Apply(work);
  COTAN_RETURN_IF_ERROR(In(absl::StrCat("in the backward of ", work.node->name()), results.status()));
  for (int i = 0; i < work.node->num_edges(); ++i) {
    const Edge& edge = work.node->edge(i);
    const Variable& gradient = (*results)[static_cast<size_t>(i)];
    if (!edge.defined() || !gradient.defined()) continue;
    Work& next = *works_.at(edge.node.get());
    COTAN_RETURN_IF_ERROR(AddUp(ops_, gradient, next.incoming[static_cast<size_t>(edge.input)]));
  }
  work.incoming.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Variable>> RecordedRun::Apply(Work& work) {
  Node& node = *work.node;
  const Hooks* const hooks = node.hooks();
  std::vector<Tensor> before = TensorsOf(work.incoming);
  if (hooks != nullptr) {
    COTAN_RETURN_IF_ERROR(hooks->RunPreHooks(absl::MakeSpan(before)));
    COTAN_RETURN_IF_ERROR(CheckKept(work.incoming, before, node));
  }
  absl::InlinedVector<bool, 8> needed(static_cast<size_t>(node.num_edges()));
  for (size_t i = 0; i < needed.size(); ++i) {
    const Edge& edge = node.edge(static_cast<int>(i));
    needed[i] = edge.defined() && works_.at(edge.node.get())->awaited();
  }
  BackwardContext context(ops_, needed, /*retains_graph=*/true);
  std::vector<Variable> results(needed.size());
  COTAN_RETURN_IF_ERROR(node.ApplyRecorded(context, absl::MakeSpan(work.incoming), results));
  if (results.size() != needed.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the node returned ", results.size(), " gradients, expected ", needed.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!needed[i]) results[i] = Variable();
    if (!results[i].defined()) continue;
    const Edge& edge = node.edge(static_cast<int>(i));
    absl::StatusOr<Variable> conforming = Conform(ops_, results[i], edge.node->input(edge.input));
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

absl::Status BackwardWithGraph(absl::Span<const Variable> roots, absl::Span<const Variable> gradients, TensorOps& ops) {
  const GradModeGuard grad(true);
  RecordedRun run(ops);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  std::vector<Variable> none;
  return run.Execute(none);
}

absl::StatusOr<std::vector<Variable>> GradWithGraph(absl::Span<const Variable> roots, absl::Span<const Variable> inputs,
                                                    absl::Span<const Variable> gradients, TensorOps& ops,
                                                    bool allow_unused) {
  const GradModeGuard grad(true);
  RecordedRun run(ops);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  run.CaptureOnly();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) {
      return absl::FailedPreconditionError(absl::StrCat("input ", i, " does not require grad"));
    }
    COTAN_ASSIGN_OR_RETURN(const Edge edge, inputs[i].GradientEdge());
    if (edge.defined()) run.Capture(edge, static_cast<int>(i));
  }
  std::vector<Variable> results(inputs.size());
  COTAN_RETURN_IF_ERROR(run.Execute(results));
  for (size_t i = 0; i < results.size() && !allow_unused; ++i) {
    if (results[i].defined()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("input ", i, " appears to not have been used in the graph; set allow_unused if that is intended"));
  }
  return results;
}

}  // namespace cotan::autograd
