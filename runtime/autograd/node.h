// One step of a backward: gradients of what an operation returned become
// gradients of what it was given.
//
// The graph of nodes is built while operations run forward and is read from its
// end: a node's edges lead to the nodes of the operation's arguments. Variables
// own the node that made them, nodes own the nodes that their edges lead to.
#ifndef COTAN_RUNTIME_AUTOGRAD_NODE_H_
#define COTAN_RUNTIME_AUTOGRAD_NODE_H_

#include <cstdint>
#include <functional>
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
#include "runtime/tensor.h"

namespace cotan {

class Device;
class TensorOps;
class Variable;

namespace autograd {

class Node;

// Gradients by position. An undefined tensor is no gradient, which is not the
// same as one of zeros: a leaf that gets none keeps its grad as it was.
using Gradients = absl::InlinedVector<Tensor, 2>;

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
  BackwardContext(TensorOps& ops, absl::Span<const bool> needed) : ops_(ops), needed_(needed) {}

  TensorOps& ops() const { return ops_; }
  // Whether somebody asks for the gradient that goes along edge `edge`; if not,
  // the node may leave it undefined.
  bool NeedsGradient(int edge) const { return needed_[static_cast<size_t>(edge)]; }

 private:
  TensorOps& ops_;
  absl::Span<const bool> needed_;
};

// Called with a gradient on its way; returns the one that goes on in its place.
// An undefined result leaves it as it is.
using GradientHook = std::function<absl::StatusOr<Tensor>(const Tensor& gradient)>;
// Called with a node's incoming gradients, which it may replace.
using PreHook = std::function<absl::Status(Gradients& incoming)>;
// Called with a node's results, which it may replace, and what it got.
using PostHook = std::function<absl::Status(Gradients& results, const Gradients& incoming)>;

// Names a hook of one object, to remove it.
using HookId = uint64_t;

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
  virtual ~Node();
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
  // An edge for each variable, undefined for those without gradient.
  // FailedPrecondition: as Variable::GradientEdge().
  absl::Status AddEdgesTo(absl::Span<const Variable> variables);

  // Nodes made later run earlier; AccumulateGrad runs as soon as it can.
  uint64_t sequence() const { return sequence_; }

  // Hooks on the gradient of one input, before the node's own pre-hooks; run in
  // the order in which they were added. Variable::AddHook() is what users call.
  HookId AddGradientHook(int input, GradientHook hook);
  // Runs after all other hooks on the gradient of that input and is told the
  // gradient as it is then.
  HookId AddRetainHook(int input, std::function<absl::Status(const Tensor& gradient)> hook);
  HookId AddPreHook(PreHook hook);
  HookId AddPostHook(PostHook hook);
  // Whether there was such a hook.
  bool RemoveHook(HookId id);

  // Run by the engine, in this order: gradient hooks, retain hooks; pre-hooks;
  // Apply(); post-hooks.
  absl::Status RunGradientHooks(absl::Span<Tensor> incoming) const;
  absl::Status RunPreHooks(Gradients& incoming) const;
  absl::Status RunPostHooks(Gradients& results, const Gradients& incoming) const;
  bool has_gradient_hooks() const { return hooks_ != nullptr && !(hooks_->gradient.empty() && hooks_->retain.empty()); }
  bool has_pre_hooks() const { return hooks_ != nullptr && !hooks_->pre.empty(); }
  bool has_post_hooks() const { return hooks_ != nullptr && !hooks_->post.empty(); }

  // The node's gradient and retain hooks of `input` become those of input
  // `to_input` of `to`: the variable has got another history.
  void MoveGradientHooks(int input, Node& to, int to_input);

 protected:
  // For nodes that run before all others (AccumulateGrad).
  static constexpr uint64_t kRunFirst = UINT64_MAX;
  explicit Node(uint64_t sequence) : sequence_(sequence) {}

  // FailedPrecondition: a second backward through this node.
  absl::Status FreedError() const;

 private:
  struct Hooks {
    template <typename F>
    struct Entry {
      HookId id;
      int input;
      F run;
    };
    std::vector<Entry<GradientHook>> gradient;
    std::vector<Entry<std::function<absl::Status(const Tensor&)>>> retain;
    std::vector<Entry<PreHook>> pre;
    std::vector<Entry<PostHook>> post;
  };
  Hooks& hooks();

  const uint64_t sequence_;
  absl::InlinedVector<Edge, 2> edges_;
  absl::InlinedVector<GradientType, 1> inputs_;
  std::unique_ptr<Hooks> hooks_;  // null: none
};

// Gives up ownership without recursion along chains of nodes.
void Release(std::shared_ptr<Node> node);

}  // namespace autograd
}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_NODE_H_
