// One step of a backward: gradients of what an operation returned become
// gradients of what it was given.
//
// The graph of nodes is built while operations run forward and is read from its
// end: a node's edges lead to the nodes of the operation's arguments. Variables
// own the node that made them, nodes own the nodes that their edges lead to.
#ifndef COTAN_RUNTIME_AUTOGRAD_NODE_H_
#define COTAN_RUNTIME_AUTOGRAD_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "runtime/autograd/hooks.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

class Device;
class TensorOps;
class Variable;

namespace autograd {

class Node;

// Where a gradient goes: an input of a node. Without a node: nowhere, nobody
// asks for this gradient.
struct Edge {
  std::shared_ptr<Node> node;
  int input = 0;

  bool defined() const { return node != nullptr; }
};

// What a gradient has to look like: the value that it is the gradient of.
struct GradientType {
  DType dtype = DType::kUndefined;
  DimVector sizes;
  Device* device = nullptr;

  static GradientType Of(const Tensor& tensor) {
    return {tensor.dtype(), DimVector(tensor.sizes().begin(), tensor.sizes().end()), &tensor.device()};
  }
  // "f32[2,3]".
  std::string ToString() const;
};

// What a node may use while it runs. Valid during that call.
class BackwardContext {
 public:
  BackwardContext(TensorOps& ops, absl::Span<const bool> needed, bool retains_graph = false)
      : ops_(ops), needed_(needed), retains_graph_(retains_graph) {}

  TensorOps& ops() const { return ops_; }
  // Whether somebody asks for the gradient that goes along edge `edge`; if not,
  // the node may leave it undefined.
  bool NeedsGradient(int edge) const { return needed_[static_cast<size_t>(edge)]; }
  // Whether another backward may follow: what the node has saved must stay as it
  // is. If not, ReleaseSaved() comes next.
  bool retains_graph() const { return retains_graph_; }

 private:
  TensorOps& ops_;
  absl::Span<const bool> needed_;
  const bool retains_graph_;
};

// To be made by std::make_shared. Not thread-safe: one thread at a time uses a
// graph, and destroys what belongs to it. A derived class says what to compute:
//
//   class ScaleBackward final : public Node {
//    public:
//     absl::string_view name() const override { return "ScaleBackward"; }
//     absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override;
//   };
//   auto node = std::make_shared<ScaleBackward>();
//   COTAN_RETURN_IF_ERROR(node->AddEdgesTo({x}));
//   Variable y(tensor);
//   y.SetHistory(node);
//
// Chains of any length are destroyed without recursion.
class Node {
 public:
  Node();
  // Nothing virtual has its only copy in this library, which has no RTTI: code
  // with RTTI derives from it too.
  virtual ~Node() { ReleaseEdges(); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // "ViewBackward": for people and messages.
  virtual absl::string_view name() const = 0;

  // The gradients along each edge, given those of each input. `incoming` has
  // num_inputs() entries of the right type, undefined where there is no
  // gradient; the node may move them away. The result has num_edges() entries;
  // the engine checks them against the types of the inputs that the edges lead
  // to, casts and sums over broadcast dimensions.
  // FailedPrecondition: what it saved has been freed or modified since.
  virtual absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) = 0;

  // Frees what Apply() needs. Called after it, unless the graph is retained.
  // A later Apply() returns FreedError() if there was something to free.
  virtual void ReleaseSaved() {}

  // The inputs: one for each value that the operation returned and that takes
  // part in the backward.
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const GradientType& input(int index) const { return inputs_[static_cast<size_t>(index)]; }
  // Adds an input and returns its number.
  int AddInput(GradientType type);

  int num_edges() const { return static_cast<int>(edges_.size()); }
  const Edge& edge(int index) const { return edges_[static_cast<size_t>(index)]; }
  void AddEdge(Edge edge) { edges_.push_back(std::move(edge)); }
  void SetEdge(int index, Edge edge) { edges_[static_cast<size_t>(index)] = std::move(edge); }
  // An edge for each variable, undefined for those without gradient.
  // FailedPrecondition: as Variable::GradientEdge().
  absl::Status AddEdgesTo(absl::Span<const Variable> variables);

  // Nodes made later run earlier; AccumulateGrad runs as soon as it can.
  uint64_t sequence() const { return sequence_; }

  // Null: none. Leaves share theirs with the node that adds to their gradient.
  Hooks* hooks() const { return hooks_.get(); }
  Hooks& MutableHooks();
  const std::shared_ptr<Hooks>& shared_hooks() const { return hooks_; }

  // FailedPrecondition: a second backward through this node.
  absl::Status FreedError() const;

 protected:
  // For nodes that run before all others.
  static constexpr uint64_t kRunFirst = UINT64_MAX;
  Node(uint64_t sequence, std::shared_ptr<Hooks> hooks) : sequence_(sequence), hooks_(std::move(hooks)) {}

 private:
  void ReleaseEdges();

  const uint64_t sequence_;
  absl::InlinedVector<Edge, 2> edges_;
  absl::InlinedVector<GradientType, 1> inputs_;
  std::shared_ptr<Hooks> hooks_;
};

// Gives up ownership without recursion along chains of nodes.
void Release(std::shared_ptr<Node> node);

}  // namespace autograd
}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_NODE_H_
