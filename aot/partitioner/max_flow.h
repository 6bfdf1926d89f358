// SPDX-License-Identifier: Apache-2.0

// Maximum flow and minimum cut, by Dinic's algorithm (E. A. Dinic, "Algorithm for solution of a problem of maximum
// flow in networks with power estimation", 1970). Cuts of joint graphs are its only use, so that a library such as
// Boost.Graph, a large dependency of the build, is not worth its cost.
#ifndef COTAN_AOT_PARTITIONER_MAX_FLOW_H_
#define COTAN_AOT_PARTITIONER_MAX_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace cotan::aot {

// A directed network. Nodes are the numbers 0 ... num_nodes - 1. Not thread-safe.
class FlowNetwork {
 public:
  // Capacity of an edge that no cut may contain.
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit FlowNetwork(int num_nodes) : first_(static_cast<size_t>(num_nodes), -1) {}

  // Adds an edge. Nodes are in range, and the capacity is in [0, kInfinite]; the finite capacities add up to less than
  // kInfinite.
  void AddEdge(int from, int to, int64_t capacity);

  // Returns the largest flow, which is the capacity of the smallest cut; kInfinite if every cut has an edge of this
  // capacity. Called once; `source` and `sink` differ.
  int64_t Maximize(int source, int sink);

  // Returns for each node whether the sink can be reached from it over edges that are not saturated. The edges that
  // enter this set are the smallest cut; of several, the one next to the sink. Called after a Maximize() that returned
  // a finite flow.
  std::vector<bool> SinkSide() const;

 private:
  // An edge and, at the index with the last bit flipped, its reverse.
  struct Edge {
    int to = 0;
    int next = -1;  // of the same tail
    int64_t residual = 0;
  };

  bool SetLevels();
  int64_t Augment(std::vector<int>& path);
  int64_t BlockingFlow();

  std::vector<int> first_;  // by node: its first edge
  std::vector<Edge> edges_;
  std::vector<int> level_;    // by node: edges from the source; -1: unreached
  std::vector<int> current_;  // by node: the first edge that may still be part of a path
  int source_ = 0;
  int sink_ = 0;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_MAX_FLOW_H_
