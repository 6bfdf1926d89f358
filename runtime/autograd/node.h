// SPDX-License-Identifier: Apache-2.0

// Node: one step of a backward, which turns gradients of an operation's results into gradients of its arguments. The
// equivalent of torch::autograd::Node (torch/csrc/autograd/function.h).
//
// Operations build the graph of nodes as they run; the engine traverses it from the roots: a node's edges lead to the
// grad_fn of the operation's arguments. Variables own their grad_fn, nodes own the nodes that their edges lead to.
#ifndef COTAN_RUNTIME_AUTOGRAD_NODE_H_
#define COTAN_RUNTIME_AUTOGRAD_NODE_H_

#include <cstdint>
#include <memory>
#include <optional>
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

class CaptureEmitter;
class CaptureRecord;
class Node;

// A value of a captured program: an index of LinkBuilder. Unset: no gradient.
using CapturedValue = std::optional<uint32_t>;

// The destination of a gradient: input `input` of `node`. Without a node, the gradient is not needed.
struct Edge {
  std::shared_ptr<Node> node;
  int input = 0;

  bool defined() const { return node != nullptr; }
};

// The dtype, sizes and device that a gradient must have: those of the value that it is the gradient of (InputMetadata
// in LibTorch).
struct GradientType {
  DType dtype = DType::kUndefined;  // kUndefined: any (Variable::grad_dtype())
  DimVector sizes;
  Device* device = nullptr;

  // Returns the type of gradients of `tensor`.
  static GradientType Of(const Tensor& tensor) {
    return {tensor.dtype(), DimVector(tensor.sizes().begin(), tensor.sizes().end()), &tensor.device()};
  }
  // Returns "f32[2,3]".
  std::string ToString() const;
};

// Arguments of Node::Apply() besides the gradients. Valid during that call only.
class BackwardContext {
 public:
  BackwardContext(TensorOps& ops, absl::Span<const bool> needed, bool retains_graph = false,
                  absl::Span<const Tensor> described_inputs = {})
      : ops_(ops), needed_(needed), retains_graph_(retains_graph), described_inputs_(described_inputs) {}

  TensorOps& ops() const { return ops_; }
  // Returns whether the gradient along edge `edge` is needed; if not, the node may leave it undefined
  // (task_should_compute_output() in LibTorch).
  bool NeedsGradient(int edge) const { return needed_[static_cast<size_t>(edge)]; }
  // Returns whether another backward through this node may follow. If so, the node must not change its saved values; if
  // not, ReleaseSaved() is called next.
  bool retains_graph() const { return retains_graph_; }
  // Returns the inputs that Node::Describe() has recorded in this backward, if the node unpacks saved values, so that
  // Apply() does not unpack them again. Empty: it was not called, or the node does not unpack.
  absl::Span<const Tensor> described_inputs() const { return described_inputs_; }

 private:
  TensorOps& ops_;
  absl::Span<const bool> needed_;
  const bool retains_graph_;
  absl::Span<const Tensor> described_inputs_;
};

// A node of the graph; create it with std::make_shared. Not thread-safe: only one thread at a time may use or destroy a
// graph. A derived class implements Apply():
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
  // All virtual functions are inline, so that the vtable is emitted in every library: this library is compiled without
  // RTTI, and code with RTTI derives from Node as well.
  virtual ~Node() { ReleaseEdges(); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Returns the name for messages and ToString(), such as "ViewBackward".
  virtual absl::string_view name() const = 0;
  // Returns the name of the program that the node runs a method of (Program::name()); empty: of none.
  virtual absl::string_view program_name() const { return ""; }
  // Returns name() after program_name(), such as "backbone.CompiledBackward('forward')".
  std::string QualifiedName() const;
  // Returns the leaf in whose grad() the node sums gradients; null: it does not.
  virtual const Variable* leaf() const { return nullptr; }

  // Returns the gradient along each edge, given the gradient of each input. `incoming` has num_inputs() entries of type
  // input(i), undefined where there is no gradient; the node may move them. The result has num_edges() entries; the
  // engine checks each against the type of the input that the edge leads to, casts it, and sums it over broadcast
  // dimensions. FailedPrecondition: saved values have been freed or modified.
  virtual absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) = 0;

  // Computes the gradients like Apply(), by operations that are recorded if gradients are enabled, so that they can be
  // differentiated again (create_graph). `results` has num_edges() undefined entries, which the node replaces; the
  // engine casts and sums them as those of Apply(). The default returns Unimplemented: the node's backward cannot be
  // differentiated.
  virtual absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                                     std::vector<Variable>& results) {
    return NotDifferentiableError();
  }

  // Returns whether the value of an input was computed from that of another one inside of the operation. The gradient
  // of the one with respect to the other is then not known to the graph.
  virtual bool HasDependentInputs() const { return false; }
  // Returns Unimplemented if the value of input `arriving`, where a gradient may arrive, was computed from that of
  // input `requested`, whose gradient is a result of the backward or is given to a hook.
  virtual absl::Status CheckGradientOf(int requested, int arriving) const { return absl::OkStatus(); }
  // Returns whether a hook gets the gradient of the value of input `input`.
  virtual bool HasGradientHooksOf(int input) const { return hooks_ != nullptr && hooks_->HasGradientHooksOf(input); }
  // Returns the edge to the node of the function that wrote the value of this node's input, or a part of it, in place;
  // -1: there is none. Along the edge goes the gradient of what the function wrote, so that CheckGradientOf() of that
  // node applies to this one, too.
  int writer_edge() const { return writer_edge_; }
  void SetWriterEdge(int edge) { writer_edge_ = edge; }

  // Frees the saved values. Called after Apply() unless the graph is retained. A later Apply() returns FreedError() if
  // a value was freed.
  virtual void ReleaseSaved() {}

  // --- Captured backwards (capture.h); by default a node is called through Apply() ---

  // Describes the ops of Apply(): the same results, bit for bit, for all tensors of this description. `incoming`: which
  // gradients are defined; sets in `results`, one for each edge, which results are. Reads the saved values and changes
  // nothing. Returns false, before recording anything, if this call of the node cannot be captured. FailedPrecondition:
  // as Apply().
  virtual absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                        absl::Span<bool> results, CaptureRecord& record) {
    return false;
  }
  // Returns whether Describe() and Apply() call unpack hooks (saved_tensor_hooks.h).
  virtual bool UnpacksSaved() const { return false; }
  // Emits the ops that were described last. `incoming` has values of the types of the inputs; sets `results`. Errors,
  // and results of types that do not fit the edges, make the backward walk the node.
  virtual absl::Status Emit(CaptureEmitter& emitter, absl::Span<const CapturedValue> incoming,
                            absl::Span<CapturedValue> results) {
    return absl::UnimplementedError("the node has no ops for a captured backward");
  }
  // Called after the captured program has run, with the outputs that were described.
  virtual void CompleteCapture(const BackwardContext& context, absl::Span<Tensor> outputs) {}

  // Returns the number of inputs: one for each differentiable result of the operation.
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const GradientType& input(int index) const { return inputs_[static_cast<size_t>(index)]; }
  // Adds an input and returns its index.
  int AddInput(GradientType type);

  int num_edges() const { return static_cast<int>(edges_.size()); }
  const Edge& edge(int index) const { return edges_[static_cast<size_t>(index)]; }
  void AddEdge(Edge edge) { edges_.push_back(std::move(edge)); }
  void SetEdge(int index, Edge edge) { edges_[static_cast<size_t>(index)] = std::move(edge); }
  // Adds an edge for each variable, undefined for undefined variables and for those that need no gradient.
  // FailedPrecondition: a variable is a view that cannot have a grad_fn (Variable::grad_fn()).
  absl::Status AddEdgesTo(absl::Span<const Variable> variables);

  // Returns the priority (sequence_nr in LibTorch): of the ready nodes the one with the highest number runs first.
  // AccumulateGrad has the highest.
  uint64_t sequence() const { return sequence_; }

  // Returns the hooks, null if there are none. A leaf and its AccumulateGrad share them.
  Hooks* hooks() const { return hooks_.get(); }
  Hooks& MutableHooks();
  const std::shared_ptr<Hooks>& shared_hooks() const { return hooks_; }

  // Returns the error of a second backward through this node: FailedPrecondition.
  absl::Status FreedError() const;
  // Returns the error of ApplyRecorded() of a node whose backward cannot be differentiated: Unimplemented.
  absl::Status NotDifferentiableError() const;

 protected:
  // The sequence number of nodes that run before all other ready nodes.
  static constexpr uint64_t kRunFirst = UINT64_MAX;
  Node(uint64_t sequence, std::shared_ptr<Hooks> hooks) : sequence_(sequence), hooks_(std::move(hooks)) {}

 private:
  void ReleaseEdges();

  const uint64_t sequence_;
  absl::InlinedVector<Edge, 2> edges_;
  absl::InlinedVector<GradientType, 1> inputs_;
  std::shared_ptr<Hooks> hooks_;
  int writer_edge_ = -1;
};

// Drops the reference. Destroys chains of nodes without recursion.
void Release(std::shared_ptr<Node> node);

}  // namespace autograd
}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_NODE_H_
