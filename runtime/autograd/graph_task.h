// SPDX-License-Identifier: Apache-2.0

// GraphTask: the nodes of one backward and the order in which they run.
#ifndef COTAN_RUNTIME_AUTOGRAD_GRAPH_TASK_H_
#define COTAN_RUNTIME_AUTOGRAD_GRAPH_TASK_H_

#include <deque>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/autograd/node.h"

namespace cotan::autograd {

// The order of GraphTask and Engine::compute_dependencies() in torch/csrc/autograd/engine.cpp: a node is ready when all
// nodes with edges to it have been visited; of the ready nodes the one with the highest sequence() comes first. The
// order does not depend on the gradients, so that a walk of the graph and a captured program share it. Owns references
// to the nodes. Used once, by one thread.
class GraphTask {
 public:
  // A node that can be reached from the roots.
  struct Visit {
    std::shared_ptr<Node> node;
    int index = 0;         // of this task, in the order of discovery
    int dependencies = 0;  // edges from nodes that have not been visited yet
    bool runs = true;      // false: the node is only captured, or not needed
    bool required = false;
    absl::InlinedVector<std::pair<int, int>, 1> captures;  // input of the node, index of the caller
    bool awaited() const { return runs || !captures.empty(); }

   private:
    friend class GraphTask;
    bool is_seen = false;
  };

  // Adds a node where the backward begins, with a gradient of its input `input`.
  Visit& AddRoot(const std::shared_ptr<Node>& node, int input = 0);
  // Restricts Execute() to nodes from which a capture or a required node can be reached.
  void RestrictToNeeded() { restricted_ = true; }
  // Adds (edge.input, index) to the captures of the edge's node.
  void Capture(const Edge& edge, int index);
  // Makes the node that the edge leads to run although it is not on the way to a capture.
  void Require(const Edge& edge);

  // Finds the nodes and decides which run, once all roots, captures and required edges have been added; Execute() does
  // it otherwise. Unimplemented: a gradient of a captured or required edge, or one that a hook gets, may have a part
  // that is not known (Node::CheckGradientOf()).
  absl::Status Prepare();

  // Calls `visit` for each reachable node in order, also for those that do not run. Stops at the first error.
  // Unimplemented: as Prepare().
  absl::Status Execute(absl::FunctionRef<absl::Status(Visit&)> visit);

  // Returns the nodes that run or are captured, in the order of Execute(), those that have been visited included. Call
  // it from Execute().
  std::vector<std::shared_ptr<Node>> Order() const;

  // Returns the visit of a node that the roots lead to.
  Visit& At(const Node* node) { return *by_node_.at(node); }
  // Returns whether the gradient along the edge is used. Call it from Execute().
  bool Needs(const Edge& edge) const { return edge.defined() && by_node_.at(edge.node.get())->awaited(); }
  // Returns whether the node runs in this task; false for nodes that no root leads to. Call it from Execute().
  bool WillRun(const Node* node) const;
  int num_visits() const { return static_cast<int>(visits_.size()); }

 private:
  struct LaterFirst {
    bool operator()(const Visit* a, const Visit* b) const { return a->node->sequence() < b->node->sequence(); }
  };

  Visit& Find(const std::shared_ptr<Node>& node);
  void AddRequested(const Edge& edge);
  void CountDependencies();
  absl::Status CheckRequested() const;
  absl::Status CheckHooks() const;
  absl::Status CheckArriving(const Edge& requested) const;
  void MarkNeeded();
  bool LeadsToNeeded(const Node& node) const;

  std::deque<Visit> visits_;  // elements stay put
  absl::flat_hash_map<const Node*, Visit*> by_node_;
  std::vector<Visit*> roots_;
  // Edges to nodes with dependent inputs: those of the roots, and those that are captured or required.
  std::vector<Edge> root_edges_;
  std::vector<Edge> requested_;
  std::priority_queue<Visit*, std::vector<Visit*>, LaterFirst> ready_;
  bool restricted_ = false;
  bool is_prepared_ = false;
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_GRAPH_TASK_H_
