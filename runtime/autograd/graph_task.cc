// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/graph_task.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::autograd {

GraphTask::Visit& GraphTask::Find(const std::shared_ptr<Node>& node) {
  const auto [entry, is_new] = by_node_.try_emplace(node.get(), nullptr);
  if (is_new) {
    Visit& visit = visits_.emplace_back();
    visit.node = node;
    visit.index = num_visits() - 1;
    entry->second = &visit;
  }
  return *entry->second;
}

GraphTask::Visit& GraphTask::AddRoot(const std::shared_ptr<Node>& node, int input) {
  Visit& visit = Find(node);
  if (node->HasDependentInputs()) root_edges_.push_back({node, input});
  if (!std::exchange(visit.is_seen, true)) roots_.push_back(&visit);
  return visit;
}

void GraphTask::Capture(const Edge& edge, int index) {
  Find(edge.node).captures.emplace_back(edge.input, index);
  AddRequested(edge);
}

void GraphTask::Require(const Edge& edge) {
  Find(edge.node).required = true;
  AddRequested(edge);
}

// The value of the edge may be what a function wrote, or contain it: it is checked at the node of that function.
void GraphTask::AddRequested(const Edge& edge) {
  Edge written = edge;
  while (written.defined() && written.node->writer_edge() >= 0) {
    Edge next = written.node->edge(written.node->writer_edge());
    written = std::move(next);
  }
  if (written.defined() && written.node->HasDependentInputs()) requested_.push_back(std::move(written));
}

bool GraphTask::WillRun(const Node* node) const {
  const auto found = by_node_.find(node);
  return found != by_node_.end() && found->second->is_seen && found->second->awaited();
}

// Creates the visits of all nodes reachable from the roots and counts the edges to each.
void GraphTask::CountDependencies() {
  std::vector<Visit*> pending = roots_;
  while (!pending.empty()) {
    const Node& node = *pending.back()->node;
    pending.pop_back();
    for (int i = 0; i < node.num_edges(); ++i) {
      if (!node.edge(i).defined()) continue;
      Visit& next = Find(node.edge(i).node);
      ++next.dependencies;
      if (!std::exchange(next.is_seen, true)) pending.push_back(&next);
    }
  }
}

// Checks the edges from all nodes that CountDependencies() has found, and those of the roots.
absl::Status GraphTask::CheckArriving(const Edge& requested) const {
  const Node& node = *requested.node;
  for (const Edge& root : root_edges_) {
    if (root.node == requested.node) COTAN_RETURN_IF_ERROR(node.CheckGradientOf(requested.input, root.input));
  }
  for (const Visit& visit : visits_) {
    if (!visit.is_seen) continue;
    for (int i = 0; i < visit.node->num_edges(); ++i) {
      const Edge& edge = visit.node->edge(i);
      if (edge.node == requested.node) COTAN_RETURN_IF_ERROR(node.CheckGradientOf(requested.input, edge.input));
    }
  }
  return absl::OkStatus();
}

absl::Status GraphTask::CheckRequested() const {
  for (const Edge& edge : requested_) COTAN_RETURN_IF_ERROR(CheckArriving(edge));
  return absl::OkStatus();
}

// Checks the inputs with hooks of the nodes that run.
absl::Status GraphTask::CheckHooks() const {
  for (const Visit& visit : visits_) {
    if (!visit.is_seen || !visit.awaited() || !visit.node->HasDependentInputs()) continue;
    for (int i = 0; i < visit.node->num_inputs(); ++i) {
      if (!visit.node->HasGradientHooksOf(i)) continue;
      const absl::Status status = CheckArriving({visit.node, i});
      if (status.ok()) continue;
      return absl::Status(status.code(),
                          absl::StrCat(status.message(), ". A hook or RetainGrad() asks for this gradient"));
    }
  }
  return absl::OkStatus();
}

bool GraphTask::LeadsToNeeded(const Node& node) const {
  for (int i = 0; i < node.num_edges(); ++i) {
    if (Needs(node.edge(i))) return true;
  }
  return false;
}

// Sets Visit::runs for the nodes from which a capture can be reached. Visits nodes in post-order, so that the nodes
// that the edges lead to are decided first.
void GraphTask::MarkNeeded() {
  for (Visit& visit : visits_) {
    visit.runs = visit.required;
    visit.is_seen = false;
  }
  struct Step {
    Visit* visit;
    int next_edge;
  };
  std::vector<Step> path;
  for (Visit* root : roots_) {
    if (!std::exchange(root->is_seen, true)) path.push_back({root, 0});
    while (!path.empty()) {
      Step& step = path.back();
      const Node& node = *step.visit->node;
      if (step.next_edge == node.num_edges()) {
        step.visit->runs = step.visit->required || LeadsToNeeded(node);
        path.pop_back();
        continue;
      }
      const Edge& edge = node.edge(step.next_edge++);
      if (!edge.defined()) continue;
      Visit& next = At(edge.node.get());
      if (!std::exchange(next.is_seen, true)) path.push_back({&next, 0});
    }
  }
}

std::vector<std::shared_ptr<Node>> GraphTask::Order() const {
  std::vector<int> dependencies(visits_.size(), -1);  // by visit; -1: not seen
  const auto for_each_next = [this](const Visit& visit, auto call) {
    for (int i = 0; i < visit.node->num_edges(); ++i) {
      const auto next = by_node_.find(visit.node->edge(i).node.get());
      if (next != by_node_.end()) call(*next->second);
    }
  };
  std::vector<const Visit*> pending(roots_.begin(), roots_.end());
  for (const Visit* root : roots_) dependencies[static_cast<size_t>(root->index)] = 0;
  while (!pending.empty()) {
    const Visit& visit = *pending.back();
    pending.pop_back();
    for_each_next(visit, [&](const Visit& next) {
      int& count = dependencies[static_cast<size_t>(next.index)];
      if (count < 0) pending.push_back(&next);
      count = std::max(count, 0) + 1;
    });
  }
  std::priority_queue<const Visit*, std::vector<const Visit*>, LaterFirst> ready;
  for (const Visit* root : roots_) {
    if (dependencies[static_cast<size_t>(root->index)] == 0) ready.push(root);
  }
  std::vector<std::shared_ptr<Node>> order;
  while (!ready.empty()) {
    const Visit& visit = *ready.top();
    ready.pop();
    if (visit.awaited()) order.push_back(visit.node);
    for_each_next(visit, [&](const Visit& next) {
      if (--dependencies[static_cast<size_t>(next.index)] == 0) ready.push(&next);
    });
  }
  return order;
}

absl::Status GraphTask::Prepare() {
  if (std::exchange(is_prepared_, true)) return absl::OkStatus();
  CountDependencies();
  COTAN_RETURN_IF_ERROR(CheckRequested());
  if (restricted_) MarkNeeded();
  return CheckHooks();
}

absl::Status GraphTask::Execute(absl::FunctionRef<absl::Status(Visit&)> visit) {
  COTAN_RETURN_IF_ERROR(Prepare());
  for (Visit* root : roots_) {
    if (root->dependencies == 0) ready_.push(root);
  }
  while (!ready_.empty()) {
    Visit& next = *ready_.top();
    ready_.pop();
    COTAN_RETURN_IF_ERROR(visit(next));
    const Node& node = *next.node;
    for (int i = 0; i < node.num_edges(); ++i) {
      if (!node.edge(i).defined()) continue;
      Visit& target = At(node.edge(i).node.get());
      if (--target.dependencies == 0) ready_.push(&target);
    }
  }
  return absl::OkStatus();
}

}  // namespace cotan::autograd
