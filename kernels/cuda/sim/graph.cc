// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/sim/handle_table.h"

namespace cotan::cuda::sim {

int Graph::Add(Work work, absl::Span<const int> after) {
  nodes_.push_back(
      {static_cast<driver::CUgraphNode>(NewHandle()), std::move(work), std::vector<int>(after.begin(), after.end())});
  return static_cast<int>(nodes_.size()) - 1;
}

bool Graph::Covers(absl::Span<const int> ends, absl::Span<const int> nodes) const {
  std::vector<bool> covered(nodes_.size());
  for (const int end : ends) covered[static_cast<size_t>(end)] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!covered[i]) continue;
    for (const int before : nodes_[i].after) covered[static_cast<size_t>(before)] = true;
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](int node) { return covered[static_cast<size_t>(node)]; });
}

ExecutableGraph::ExecutableGraph(driver::CUgraph source, const Graph& graph, DeviceMemory& memory, WorkQueue& queue)
    : source_(source) {
  // A node continues the lane of one that it comes after, if that has no successor in its lane yet.
  std::vector<bool> continued(graph.nodes().size());
  bool stream_taken = false;
  int branches = 0;
  for (const GraphNode& from : graph.nodes()) {
    Node node{.handle = from.handle, .work = from.work, .after = from.after, .addresses = {}};
    node.addresses = LiveAddresses(from.work, memory);
    bool placed = false;
    for (const int before : from.after) {
      nodes_[static_cast<size_t>(before)].is_last = false;
      if (placed || continued[static_cast<size_t>(before)]) continue;
      continued[static_cast<size_t>(before)] = placed = true;
      node.lane = nodes_[static_cast<size_t>(before)].lane;
    }
    if (!placed && stream_taken) node.lane = queue.AddLane(absl::StrCat("branch ", ++branches, " of a graph"));
    if (!placed) stream_taken = true;
    nodes_.push_back(std::move(node));
  }
}

std::vector<uint64_t> ExecutableGraph::LiveAddresses(const Work& work, DeviceMemory& memory) {
  std::vector<uint64_t> addresses = DeviceAddressesOf(work);
  std::erase_if(addresses, [&](uint64_t address) { return !memory.CheckBounds(address, 1).ok(); });
  return addresses;
}

int ExecutableGraph::Find(driver::CUgraphNode handle) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].handle == handle) return static_cast<int>(i);
  }
  return -1;
}

void ExecutableGraph::SetWork(int index, Work work, DeviceMemory& memory) {
  Node& node = nodes_[static_cast<size_t>(index)];
  node.addresses = LiveAddresses(work, memory);
  node.work = std::move(work);
}

absl::Status ExecutableGraph::CheckAlive(DeviceMemory& memory) const {
  for (const Node& node : nodes_) {
    if (const auto* call = std::get_if<KernelCall>(&node.work); call != nullptr && call->kernel->unloaded) {
      return absl::FailedPreconditionError(
          absl::StrCat("a node of the graph runs ", NameOf(node.work), ", whose module was unloaded"));
    }
    for (const uint64_t address : node.addresses) {
      if (memory.CheckBounds(address, 1).ok()) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "a node of the graph, ", NameOf(node.work), ", refers to memory that was freed: ", memory.Describe(address)));
    }
  }
  return absl::OkStatus();
}

std::vector<const Work*> ExecutableGraph::Works() const {
  std::vector<const Work*> works;
  for (const Node& node : nodes_) works.push_back(&node.work);
  return works;
}

Ticket ExecutableGraph::Queue(WorkQueue& queue, int lane, absl::Span<const Ticket> start, std::vector<Work> works) {
  std::vector<Ticket> before(start.begin(), start.end());
  before.push_back(last_launch_);
  const Ticket begin = queue.Add(lane, before, OrderOnly{});
  std::vector<Ticket> tickets;
  std::vector<Ticket> ends;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    std::vector<Ticket> after = {begin};
    for (const int index : node.after) after.push_back(tickets[static_cast<size_t>(index)]);
    tickets.push_back(queue.Add(node.lane == kLaneOfStream ? lane : node.lane, after, std::move(works[i])));
    if (node.is_last) ends.push_back(tickets.back());
  }
  last_launch_ = queue.Add(lane, ends, OrderOnly{});
  return last_launch_;
}

}  // namespace cotan::cuda::sim
