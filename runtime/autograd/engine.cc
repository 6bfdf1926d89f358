// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/engine.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/recorded_ops.h"

namespace cotan::autograd {
namespace {

// Returns `gradient` cast and summed over broadcast dimensions to `type` (validate_outputs() in
// torch/csrc/autograd/engine.cpp). InvalidArgument: the device or the sizes do not match.
absl::StatusOr<Tensor> Conform(TensorOps& ops, Tensor gradient, const GradientType& type) {
  if (&gradient.device() != type.device) {
    return absl::InvalidArgumentError(absl::StrCat("a gradient ", gradient.ToString(), " of a value ", type.ToString(),
                                                   " is on another device than the value"));
  }
  if (gradient.sizes() != absl::MakeConstSpan(type.sizes)) {
    absl::StatusOr<Tensor> sum = ops.SumTo(gradient, type.sizes);
    if (absl::IsInvalidArgument(sum.status())) {
      return absl::InvalidArgumentError(absl::StrCat("invalid gradient: got ", gradient.ToString(),
                                                     " but expected shape compatible with ", type.ToString()));
    }
    COTAN_RETURN_IF_ERROR(sum.status());
    gradient = *std::move(sum);
  }
  return ops.Cast(gradient, type.dtype);
}

// Adds `gradient` to `sum`, in place if no other tensor shares the memory of `sum` (InputBuffer::accumulate() in
// LibTorch).
absl::Status AddUp(TensorOps& ops, Tensor gradient, Tensor& sum) {
  if (!sum.defined()) {
    sum = std::move(gradient);
    return absl::OkStatus();
  }
  if (sum.storage().use_count() == 1 && IsDenseNonOverlapping(sum.layout())) return ops.AddTo(gradient, sum);
  COTAN_ASSIGN_OR_RETURN(sum, ops.Add(sum, gradient));
  return absl::OkStatus();
}

// One run of the engine (GraphTask in LibTorch).
class Run {
 public:
  Run(TensorOps& ops, bool retain_graph) : ops_(ops), retain_graph_(retain_graph) {}

  // Adds `gradient` at the input that `edge` leads to, as root `index`. Call before Execute().
  absl::Status AddRoot(const Edge& edge, Tensor gradient, int index);
  // Restricts the run to nodes that lead to a captured edge.
  void CaptureOnly() { capture_only_ = true; }
  // Makes the gradient along `edge` result `index` of captured().
  void Capture(const Edge& edge, int index);

  absl::Status Execute();
  std::vector<Tensor>& captured() { return captured_; }

 private:
  struct Work {
    std::shared_ptr<Node> node;
    int dependencies = 0;                       // edges to the node that are not processed yet
    bool runs = true;                           // false: the node is only captured, or not needed
    Gradients incoming;                         // by input; empty until a gradient arrives
    std::vector<std::pair<int, int>> captures;  // input, index into captured()
    bool awaited() const { return runs || !captures.empty(); }
  };

  struct LaterFirst {
    bool operator()(const Work* a, const Work* b) const { return a->node->sequence() < b->node->sequence(); }
  };

  // Returns the work of `node`, and whether it was created now.
  std::pair<Work*, bool> Find(const std::shared_ptr<Node>& node);
  Tensor& IncomingOf(Work& work, int input);
  void CountDependencies();
  void MarkNeeded();
  bool LeadsToCapture(const Node& node) const;

  absl::Status RunWork(Work& work);
  absl::StatusOr<Gradients> Apply(Work& work);
  absl::Status PassOn(const Node& node, Gradients results);

  TensorOps& ops_;
  const bool retain_graph_;
  bool capture_only_ = false;
  std::vector<std::unique_ptr<Work>> works_;
  absl::flat_hash_map<const Node*, Work*> by_node_;
  std::vector<Work*> roots_;
  std::priority_queue<Work*, std::vector<Work*>, LaterFirst> ready_;
  std::vector<Tensor> captured_;
};

std::pair<Run::Work*, bool> Run::Find(const std::shared_ptr<Node>& node) {
  const auto [entry, is_new] = by_node_.try_emplace(node.get(), nullptr);
  if (is_new) {
    works_.push_back(std::make_unique<Work>());
    entry->second = works_.back().get();
    entry->second->node = node;
  }
  return {entry->second, is_new};
}

Tensor& Run::IncomingOf(Work& work, int input) {
  if (work.incoming.empty()) work.incoming.resize(static_cast<size_t>(work.node->num_inputs()));
  return work.incoming[static_cast<size_t>(input)];
}

absl::Status Run::AddRoot(const Edge& edge, Tensor gradient, int index) {
  absl::StatusOr<Tensor> conforming = Conform(ops_, std::move(gradient), edge.node->input(edge.input));
  if (!conforming.ok()) {
    return absl::Status(conforming.status().code(), absl::StrCat("root ", index, ": ", conforming.status().message()));
  }
  const auto [work, is_new] = Find(edge.node);
  if (is_new) roots_.push_back(work);
  return AddUp(ops_, *std::move(conforming), IncomingOf(*work, edge.input));
}

void Run::Capture(const Edge& edge, int index) {
  Find(edge.node).first->captures.emplace_back(edge.input, index);
  captured_.resize(std::max(captured_.size(), static_cast<size_t>(index) + 1));
}

// Creates the work of all nodes reachable from the roots and counts the edges to each.
void Run::CountDependencies() {
  std::vector<Work*> pending = roots_;
  absl::flat_hash_map<const Work*, bool> seen;
  for (Work* work : roots_) seen[work] = true;
  while (!pending.empty()) {
    const Node& node = *pending.back()->node;
    pending.pop_back();
    for (int i = 0; i < node.num_edges(); ++i) {
      if (!node.edge(i).defined()) continue;
      Work* const next = Find(node.edge(i).node).first;
      ++next->dependencies;
      if (std::exchange(seen[next], true)) continue;
      pending.push_back(next);
    }
  }
}

bool Run::LeadsToCapture(const Node& node) const {
  for (int i = 0; i < node.num_edges(); ++i) {
    if (node.edge(i).defined() && by_node_.at(node.edge(i).node.get())->awaited()) return true;
  }
  return false;
}

// Sets Work::runs for the nodes from which a capture can be reached. Visits nodes in post-order, so that the nodes that
// the edges lead to are decided first.
void Run::MarkNeeded() {
  for (const std::unique_ptr<Work>& work : works_) work->runs = false;
  struct Visit {
    Work* work;
    int next_edge;
  };
  absl::flat_hash_map<const Work*, bool> seen;
  std::vector<Visit> path;
  for (Work* root : roots_) {
    if (!std::exchange(seen[root], true)) path.push_back({root, 0});
    while (!path.empty()) {
      Visit& visit = path.back();
      const Node& node = *visit.work->node;
      if (visit.next_edge == node.num_edges()) {
        visit.work->runs = LeadsToCapture(node);
        path.pop_back();
        continue;
      }
      const Edge& edge = node.edge(visit.next_edge++);
      if (!edge.defined()) continue;
      Work* const next = by_node_.at(edge.node.get());
      if (!std::exchange(seen[next], true)) path.push_back({next, 0});
    }
  }
}

absl::Status Run::Execute() {
  CountDependencies();
  if (capture_only_) MarkNeeded();
  for (Work* root : roots_) {
    if (root->dependencies == 0) ready_.push(root);
  }
  while (!ready_.empty()) {
    Work& work = *ready_.top();
    ready_.pop();
    COTAN_RETURN_IF_ERROR(RunWork(work));
  }
  return absl::OkStatus();
}

absl::Status Run::RunWork(Work& work) {
  Node& node = *work.node;
  const Hooks* const hooks = node.hooks();
  IncomingOf(work, 0);  // resizes work.incoming
  if (hooks != nullptr && work.awaited()) {
    COTAN_RETURN_IF_ERROR(hooks->RunGradientHooks(ops_, absl::MakeSpan(work.incoming)));
  }
  for (const auto& [input, index] : work.captures) {
    captured_[static_cast<size_t>(index)] = work.incoming[static_cast<size_t>(input)];
  }
  Gradients results(static_cast<size_t>(node.num_edges()));
  if (work.runs) {
    absl::StatusOr<Gradients> applied = Apply(work);
    if (!applied.ok()) {
      return absl::Status(applied.status().code(),
                          absl::StrCat("in the backward of ", node.name(), ": ", applied.status().message()));
    }
    results = *std::move(applied);
    if (!retain_graph_) node.ReleaseSaved();
  }
  work.incoming.clear();
  return PassOn(node, std::move(results));
}

absl::StatusOr<Gradients> Run::Apply(Work& work) {
  Node& node = *work.node;
  const Hooks* const hooks = node.hooks();
  const absl::Span<Tensor> incoming = absl::MakeSpan(work.incoming);
  if (hooks != nullptr) COTAN_RETURN_IF_ERROR(hooks->RunPreHooks(incoming));
  Gradients before;
  if (hooks != nullptr && hooks->has_post_hooks()) before = work.incoming;

  absl::InlinedVector<bool, 8> needed(static_cast<size_t>(node.num_edges()));
  for (size_t i = 0; i < needed.size(); ++i) {
    const Edge& edge = node.edge(static_cast<int>(i));
    needed[i] = edge.defined() && by_node_.at(edge.node.get())->awaited();
  }
  BackwardContext context(ops_, needed, retain_graph_);
  COTAN_ASSIGN_OR_RETURN(Gradients results, node.Apply(context, incoming));
  if (static_cast<int>(results.size()) != node.num_edges()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the node returned ", results.size(), " gradients, expected ", node.num_edges()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    if (!needed[i]) {
      Clear(results[i]);
      continue;
    }
    const Edge& edge = node.edge(static_cast<int>(i));
    absl::StatusOr<Tensor> conforming = Conform(ops_, std::move(results[i]), edge.node->input(edge.input));
    if (!conforming.ok()) {
      return absl::Status(conforming.status().code(),
                          absl::StrCat("gradient ", i, ": ", conforming.status().message()));
    }
    results[i] = *std::move(conforming);
  }
  if (hooks != nullptr) COTAN_RETURN_IF_ERROR(hooks->RunPostHooks(results, before));
  return results;
}

absl::Status Run::PassOn(const Node& node, Gradients results) {
  for (int i = 0; i < node.num_edges(); ++i) {
    const Edge& edge = node.edge(i);
    if (!edge.defined()) continue;
    Work& next = *by_node_.at(edge.node.get());
    Tensor& gradient = results[static_cast<size_t>(i)];
    if (gradient.defined()) COTAN_RETURN_IF_ERROR(AddUp(ops_, std::move(gradient), IncomingOf(next, edge.input)));
    if (--next.dependencies == 0) ready_.push(&next);
  }
  return absl::OkStatus();
}

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

absl::Status AddRoots(absl::Span<const Variable> roots, absl::Span<const Tensor> gradients, TensorOps& ops, Run& run) {
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

// Returns variables without grad_fn over the tensors; undefined ones for undefined tensors.
std::vector<Variable> AsVariables(absl::Span<const Tensor> tensors) {
  std::vector<Variable> variables;
  for (const Tensor& tensor : tensors) variables.push_back(tensor.defined() ? Variable(tensor) : Variable());
  return variables;
}

}  // namespace

absl::Status Backward(absl::Span<const Variable> roots, absl::Span<const Tensor> gradients, TensorOps& ops,
                      const BackwardOptions& options) {
  if (options.create_graph) {
    return BackwardWithGraph(roots, AsVariables(gradients), ops);
  }
  GradModeGuard no_grad(false);
  Run run(ops, options.retain_graph);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  return run.Execute();
}

absl::StatusOr<std::vector<Tensor>> Grad(absl::Span<const Variable> roots, absl::Span<const Variable> inputs,
                                         absl::Span<const Tensor> gradients, TensorOps& ops,
                                         const GradOptions& options) {
  if (options.create_graph) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<Variable> results,
                           GradWithGraph(roots, inputs, AsVariables(gradients), ops, options.allow_unused));
    return TensorsOf(results);
  }
  GradModeGuard no_grad(false);
  Run run(ops, options.retain_graph);
  COTAN_RETURN_IF_ERROR(AddRoots(roots, gradients, ops, run));
  run.CaptureOnly();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) {
      return absl::FailedPreconditionError(absl::StrCat("input ", i, " does not require grad"));
    }
    COTAN_ASSIGN_OR_RETURN(const Edge edge, inputs[i].GradientEdge());
    if (edge.defined()) run.Capture(edge, static_cast<int>(i));
  }
  COTAN_RETURN_IF_ERROR(run.Execute());
  run.captured().resize(inputs.size());
  for (size_t i = 0; i < inputs.size() && !options.allow_unused; ++i) {
    if (!run.captured()[i].defined()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "input ", i, " appears to not have been used in the graph; set allow_unused if that is intended"));
    }
  }
  return std::move(run.captured());
}

}  // namespace cotan::autograd
