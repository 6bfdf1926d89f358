// Tensors that remember how they were made, so that gradients can be taken.
//
// Semantics are those of LibTorch's tensors in eager mode: views, operations in
// place, versions, leaves. Where an operation is refused, the message tells the
// same as LibTorch's.
#ifndef COTAN_RUNTIME_AUTOGRAD_VARIABLE_H_
#define COTAN_RUNTIME_AUTOGRAD_VARIABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/node.h"
#include "runtime/tensor/tensor.h"
#include "serialization/metadata/view_step.h"

namespace cotan {

class TensorOps;

namespace autograd {
struct VariableState;
}  // namespace autograd

// How a view came to be, which decides whether it may be written in place.
enum class ViewCreation : uint8_t {
  kDefault,      // recorded: may be written, the base's history follows
  kNoGrad,       // made while gradients were disabled
  kMultiOutput,  // one of several views that one operation returned
};

// A handle: copies are the same variable (is_same). The default one is
// undefined; only defined(), is_same(), assignment and destruction may be used
// then.
//
// Owns its tensor's storage together with all views of it, its gradient, and
// the graph behind it. Not thread-safe: one thread at a time uses variables that
// share storage or graph.
//
//   COTAN_ASSIGN_OR_RETURN(Variable x, Variable::Leaf(tensor));
//   COTAN_ASSIGN_OR_RETURN(Variable row, x.View({view::Select{.dim = 0, .index = 1}}));
//   COTAN_RETURN_IF_ERROR(autograd::Backward({row}, {gradient}, ops));
//   x.grad();  // zeros but in row 1
class Variable {
 public:
  Variable() = default;
  // A leaf without gradient over `tensor`, with a version of its own.
  explicit Variable(Tensor tensor);
  // A leaf that requires grad. InvalidArgument: elements are neither floating
  // point nor complex.
  static absl::StatusOr<Variable> Leaf(Tensor tensor);

  bool defined() const { return state_ != nullptr; }
  // Whether both are the same object, not only the same memory.
  bool is_same(const Variable& other) const { return state_ == other.state_; }

  // The elements. Writing to them is not seen by autograd: tell BumpVersion().
  const Tensor& tensor() const;
  DType dtype() const { return tensor().dtype(); }
  absl::Span<const int64_t> sizes() const { return tensor().sizes(); }
  const StridedLayout& layout() const { return tensor().layout(); }

  // --- Place in the graph ---

  // A leaf that was asked to, anything computed from such, or a view of such.
  bool requires_grad() const;
  // Whether no operation made it that autograd recorded, as far as known: a view
  // whose base was written since learns its history with grad_fn().
  bool is_leaf() const;
  // The node that made it; null for leaves.
  // FailedPrecondition: a view that may not be written in place, whose memory
  // has been written with gradients enabled.
  absl::StatusOr<std::shared_ptr<autograd::Node>> grad_fn() const;
  // Which of that node's inputs takes its gradient. Call grad_fn() first.
  int output_number() const;
  // Where its gradient goes: to grad_fn(), to the node that adds to grad(), or
  // nowhere: if it does not require grad, or only because it is a view, made
  // without gradients, of what does. Errors as grad_fn().
  absl::StatusOr<autograd::Edge> GradientEdge() const;
  // The same. The node of a leaf, unless it has one already, takes gradients of
  // these sizes: of those that the leaf had when it was used.
  absl::StatusOr<autograd::Edge> GradientEdge(absl::Span<const int64_t> leaf_sizes) const;

  // Makes it an output of `node`: adds an input to it. For new variables.
  void SetHistory(std::shared_ptr<autograd::Node> node);
  // The same with an input that the node has.
  void SetHistory(std::shared_ptr<autograd::Node> node, int input);
  // Checks that it may be written in place by an operation that gets or has
  // gradients, if `requires_grad`; to be called before writing.
  // FailedPrecondition: a leaf that requires grad, a view of one, a view that is
  // one of several outputs or was made without gradients.
  absl::Status CheckInPlace(bool requires_grad) const;
  // Its elements have been written by an operation whose node is `node`, with
  // edge 0 leading to where its gradient went before. Adds an input to the node;
  // for a view the base's history changes, so that all its views see it.
  // CheckInPlace(true) was called before. Errors as grad_fn().
  absl::Status RebaseHistory(std::shared_ptr<autograd::Node> node);

  // FailedPrecondition: switching off what is no leaf. InvalidArgument: switching
  // on for elements that are neither floating point nor complex.
  absl::Status RequiresGrad(bool requires_grad);

  // The sum of gradients that backwards have left; undefined before the first.
  const Variable& grad() const;
  void SetGrad(Variable grad);
  // Lets backwards leave gradients in grad() though it is no leaf. Nothing to do
  // for leaves.
  // FailedPrecondition: it does not require grad; as grad_fn().
  absl::Status RetainGrad();

  // Runs in every backward that reaches it, with the gradient of the value it has
  // now: after a write in place, hooks added before see that of the old value.
  // FailedPrecondition: it does not require grad; as grad_fn().
  absl::StatusOr<autograd::HookId> AddHook(autograd::GradientHook hook);
  // Runs after a backward has added to grad(). FailedPrecondition: not a leaf, or
  // does not require grad.
  absl::StatusOr<autograd::HookId> AddPostAccumulateHook(std::function<absl::Status(Variable& leaf)> hook);
  // Of either kind, added since it was last written in place. Whether there was
  // such a hook.
  bool RemoveHook(autograd::HookId id);

  // --- Versions ---

  // Counts writes to its elements, and to all views and detached aliases.
  uint32_t version() const;
  void BumpVersion();

  // --- Views ---

  // Shares storage and version, has no history and is no view.
  Variable Detach() const;
  // The same over `seen`, which is in that storage or takes its place.
  Variable DetachAs(Tensor seen) const;
  // A view that an operation made which autograd did not record: `seen` is in its
  // storage, and SetHistory() may tell another history than that of views. Of a
  // variable that is no view itself.
  Variable ViewAs(Tensor seen, ViewCreation creation) const;
  // Sees the storage through `steps`, one after another, and is recorded if
  // gradients are enabled. Symbols in the steps have the values `symbols`.
  // view::Detach cuts the history. No step at all: an alias.
  // InvalidArgument, FailedPrecondition, Unimplemented: as ApplyViewStep(), or
  // the geometry leaves the storage. Errors as grad_fn().
  absl::StatusOr<Variable> View(absl::Span<const ViewStep> steps, absl::Span<const int64_t> symbols = {}) const;
  // One view of the whole storage. Errors as View().
  absl::StatusOr<Variable> AsStrided(const StridedLayout& layout) const;
  // Several views that one operation returns, one for each step, such as the
  // rows of a matrix. They may not be written in place. Errors as View().
  absl::StatusOr<std::vector<Variable>> MultiView(absl::Span<const ViewStep> steps) const;

  // Whether it is a view in the sense of autograd, and of what: a variable that
  // is no view itself.
  bool is_view() const;
  const Variable& base() const;
  ViewCreation view_creation() const;

  // --- In place ---

  // Elements of `source`, cast and broadcast. Recorded if gradients are enabled
  // and one of both requires grad.
  // FailedPrecondition: as CheckInPlace(). InvalidArgument: sizes that do not
  // broadcast; memory of which several elements share a place, or that overlaps
  // the source's in part. NotFound, Unimplemented: no kernel. Then nothing has
  // changed.
  absl::Status CopyInPlace(const Variable& source, TensorOps& ops);
  // Other geometry over the same storage, for this object only.
  // Errors as CheckInPlace() and View().
  absl::Status AsStridedInPlace(const StridedLayout& layout);
  // Storage and geometry of `source` for this object only: views and detached
  // aliases keep the old. History and version counter stay its own.
  // InvalidArgument: another dtype or device. FailedPrecondition: gradients are
  // enabled and one of both requires grad.
  absl::Status SetStorage(const Variable& source);
  // Cuts the history off. FailedPrecondition: a view.
  absl::Status DetachInPlace();

  // "f32[2,3] grad_fn=ViewBackward", for people.
  std::string ToString() const;

  // What all handles share: for this package.
  explicit Variable(std::shared_ptr<autograd::VariableState> state) : state_(std::move(state)) {}
  const std::shared_ptr<autograd::VariableState>& state() const { return state_; }

 private:
  std::shared_ptr<autograd::VariableState> state_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_VARIABLE_H_
