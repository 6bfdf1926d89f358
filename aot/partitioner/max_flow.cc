// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/max_flow.h"

#include <algorithm>

namespace cotan::aot {

void FlowNetwork::AddEdge(int from, int to, int64_t capacity) {
  const auto add = [this](int tail, int head, int64_t residual) {
    int& first = first_[static_cast<size_t>(tail)];
    edges_.push_back({head, first, residual});
    first = static_cast<int>(edges_.size()) - 1;
  };
  add(from, to, capacity);
  add(to, from, 0);
}

int64_t FlowNetwork::Maximize(int source, int sink) {
  source_ = source;
  sink_ = sink;
  int64_t flow = 0;
  while (SetLevels()) {
    current_ = first_;
    const int64_t added = BlockingFlow();
    if (added >= kInfinite) return kInfinite;
    flow += added;
  }
  return flow;
}

// Numbers the nodes by their distance from the source; returns whether the sink is reached.
bool FlowNetwork::SetLevels() {
  level_.assign(first_.size(), -1);
  level_[static_cast<size_t>(source_)] = 0;
  std::vector<int> queue = {source_};
  for (size_t i = 0; i < queue.size(); ++i) {
    const auto node = static_cast<size_t>(queue[i]);
    for (int e = first_[node]; e != -1; e = edges_[static_cast<size_t>(e)].next) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      if (edge.residual == 0 || level_[static_cast<size_t>(edge.to)] != -1) continue;
      level_[static_cast<size_t>(edge.to)] = level_[node] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[static_cast<size_t>(sink_)] != -1;
}

// Sends as much as possible along a path from the source to the sink, and cuts the path before its first saturated
// edge. Edges of infinite capacity keep it.
int64_t FlowNetwork::Augment(std::vector<int>& path) {
  int64_t flow = kInfinite;
  for (const int e : path) flow = std::min(flow, edges_[static_cast<size_t>(e)].residual);
  if (flow == kInfinite) return flow;
  size_t kept = path.size();
  for (size_t i = path.size(); i-- > 0;) {
    Edge& edge = edges_[static_cast<size_t>(path[i])];
    if (edge.residual < kInfinite) edge.residual -= flow;
    Edge& reverse = edges_[static_cast<size_t>(path[i] ^ 1)];
    if (reverse.residual < kInfinite) reverse.residual += flow;
    if (edge.residual == 0) kept = i;
  }
  path.resize(kept);
  return flow;
}

// Saturates every path along which the level rises by one per edge.
int64_t FlowNetwork::BlockingFlow() {
  int64_t flow = 0;
  std::vector<int> path;
  while (true) {
    const int node = path.empty() ? source_ : edges_[static_cast<size_t>(path.back())].to;
    if (node == sink_) {
      const int64_t added = Augment(path);
      if (added == kInfinite) return kInfinite;
      flow += added;
      continue;
    }
    int& e = current_[static_cast<size_t>(node)];
    const auto leads_on = [&](const Edge& edge) {
      return edge.residual > 0 && level_[static_cast<size_t>(edge.to)] == level_[static_cast<size_t>(node)] + 1;
    };
    while (e != -1 && !leads_on(edges_[static_cast<size_t>(e)])) e = edges_[static_cast<size_t>(e)].next;
    if (e != -1) {
      path.push_back(e);
      continue;
    }
    if (path.empty()) return flow;
    level_[static_cast<size_t>(node)] = -1;  // a dead end
    path.pop_back();
  }
}

std::vector<bool> FlowNetwork::SinkSide() const {
  std::vector<bool> reaches(first_.size(), false);
  reaches[static_cast<size_t>(sink_)] = true;
  std::vector<int> queue = {sink_};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int e = first_[static_cast<size_t>(queue[i])]; e != -1; e = edges_[static_cast<size_t>(e)].next) {
      const int tail = edges_[static_cast<size_t>(e)].to;
      const bool leads_here = edges_[static_cast<size_t>(e ^ 1)].residual > 0;
      if (!leads_here || reaches[static_cast<size_t>(tail)]) continue;
      reaches[static_cast<size_t>(tail)] = true;
      queue.push_back(tail);
    }
  }
  return reaches;
}

}  // namespace cotan::aot
