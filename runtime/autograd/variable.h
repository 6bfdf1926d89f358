// SPDX-License-Identifier: Apache-2.0

// Variable: a tensor with its place in the autograd graph.
//
// Semantics are those of LibTorch's tensors in eager mode (torch/csrc/autograd/variable.h): views, in-place operations,
// versions, leaves. Errors are raised for the same operations, with LibTorch's wording.
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

// How a view was created, which decides whether it may be written in place (CreationMeta in LibTorch).
enum class ViewCreation : uint8_t {
  kDefault,      // recorded: may be written, which rebases the base's grad_fn
  kNoGrad,       // made while gradients were disabled
  kMultiOutput,  // one of several views that one operation returned (unbind)
};

// A handle: copies are the same variable (is_same()). A default-constructed one is undefined; only defined(),
// is_same(), assignment and destruction are allowed on it.
//
// Owns its gradient and its grad_fn; shares ownership of its storage with the views of it. Not thread-safe: only one
// thread at a time may use variables that share storage or graph. Exception: several threads may use one leaf, while it
// is not written, in functions of their own sessions and in the backwards of these, unless the backwards are captured
// (CompiledAutograd).
//
//   COTAN_ASSIGN_OR_RETURN(Variable x, Variable::Leaf(tensor));
//   COTAN_ASSIGN_OR_RETURN(Variable row, x.View({view::Select{.dim = 0, .index = 1}}));
//   COTAN_RETURN_IF_ERROR(autograd::Backward({row}, {gradient}, ops));
//   x.grad();  // zeros but in row 1
class Variable {
 public:
  Variable() = default;
  // Creates a leaf over `tensor` that does not require grad, with a version counter of its own.
  explicit Variable(Tensor tensor);
  // Returns a leaf that requires grad. InvalidArgument: the dtype is neither floating point nor complex.
  static absl::StatusOr<Variable> Leaf(Tensor tensor);

  bool defined() const { return state_ != nullptr; }
  // Returns whether both are the same variable, not only the same memory.
  bool is_same(const Variable& other) const { return state_ == other.state_; }

  // Returns the tensor. Autograd does not track writes to its elements: call BumpVersion() after writing.
  const Tensor& tensor() const;
  DType dtype() const { return tensor().dtype(); }
  absl::Span<const int64_t> sizes() const { return tensor().sizes(); }
  const StridedLayout& layout() const { return tensor().layout(); }

  // --- Place in the graph ---

  // Returns true for a leaf after RequiresGrad(true), for values computed from it with gradients enabled, and for views
  // of these.
  bool requires_grad() const;
  // Returns whether the variable has no grad_fn. Does not regenerate the grad_fn of a stale view (one whose base has
  // been written); grad_fn() does.
  bool is_leaf() const;
  // Returns the node of the operation that computed the variable; null for leaves. Regenerates the grad_fn of a stale
  // view. FailedPrecondition: the view's memory has been written with gradients enabled, although a view of its
  // ViewCreation must not be.
  absl::StatusOr<std::shared_ptr<autograd::Node>> grad_fn() const;
  // Returns the index of the variable's gradient among the inputs of grad_fn() (output_nr() in LibTorch). Call
  // grad_fn() first.
  int output_number() const;
  // Returns the destination of the variable's gradient: an input of grad_fn(), or the AccumulateGrad node of a leaf.
  // Undefined if the variable does not require grad, or requires grad only as a view, made under no_grad, of a variable
  // that does. FailedPrecondition: as grad_fn().
  absl::StatusOr<autograd::Edge> GradientEdge() const;
  // Returns the gradient edge as above, but creates the AccumulateGrad node of a leaf, if it has none yet, for
  // gradients of `leaf_sizes`: the sizes that the leaf had when it was used. FailedPrecondition: as grad_fn().
  absl::StatusOr<autograd::Edge> GradientEdge(absl::Span<const int64_t> leaf_sizes) const;

  // Sets grad_fn to `node` and adds an input to the node (set_history() in LibTorch). For new variables.
  void SetHistory(std::shared_ptr<autograd::Node> node);
  // Sets grad_fn to the existing input `input` of `node`.
  void SetHistory(std::shared_ptr<autograd::Node> node, int input);
  // Checks that the variable may be written in place (check_inplace() in LibTorch); call it before writing.
  // `requires_grad`: the variable or a source of the operation requires grad; if false, or if gradients are disabled,
  // the check passes. FailedPrecondition: the variable is a leaf that requires grad, a view of one, a view made under
  // no_grad, or one of the views of a multi-view operation.
  absl::Status CheckInPlace(bool requires_grad) const;
  // Sets grad_fn after an in-place operation with node `node`, whose edge 0 must be the variable's previous
  // GradientEdge() (rebase_history() in LibTorch). Adds an input to the node. For a view, the base gets a CopySlices
  // node as grad_fn, and the grad_fn of its views is regenerated. CheckInPlace(true) must have succeeded.
  // FailedPrecondition: as grad_fn().
  absl::Status RebaseHistory(std::shared_ptr<autograd::Node> node);

  // Sets requires_grad of a leaf. FailedPrecondition: false for a variable that is not a leaf. InvalidArgument: true
  // for a dtype that is neither floating point nor complex.
  absl::Status RequiresGrad(bool requires_grad);

  // Returns the sum of the gradients of all backwards so far; undefined before the first.
  const Variable& grad() const;
  // Replaces grad(). InvalidArgument, and grad() is unchanged: `grad` is undefined or the variable itself, or its
  // dtype (grad_dtype()), sizes or device are others.
  absl::Status SetGrad(Variable grad);
  // Returns the dtype of grad(), to which gradients are cast: that of the variable unless SetGradDType() was called.
  // kUndefined: gradients keep the dtype with which they arrive.
  DType grad_dtype() const;
  // Sets grad_dtype() of a leaf. Graphs that were recorded before keep the former one. InvalidArgument: the dtype is
  // not complex as the variable's, or not floating point as that, or an 8-bit float, which kernels do not add.
  // FailedPrecondition: the variable is not a leaf, or has a grad() of another dtype.
  absl::Status SetGradDType(DType dtype);
  // Makes grad() undefined.
  void ClearGrad();
  // Makes backwards accumulate into grad() although the variable is not a leaf. Does nothing for leaves. A backward
  // that does not know the whole gradient returns Unimplemented (Backward()). FailedPrecondition: the variable does not
  // require grad; as grad_fn().
  absl::Status RetainGrad();

  // Adds a hook that runs in every backward that reaches the variable, with the gradient of its current value: after an
  // in-place write, earlier hooks still get the gradient of the old value. A backward that does not know the whole
  // gradient returns Unimplemented (Backward()). FailedPrecondition: the variable does not require grad; as grad_fn().
  absl::StatusOr<autograd::HookId> AddHook(autograd::GradientHook hook);
  // Adds a hook that runs after a backward has added to grad(), or has reached the variable without a gradient.
  // FailedPrecondition: the variable is not a leaf or does not require grad.
  absl::StatusOr<autograd::HookId> AddPostAccumulateHook(std::function<absl::Status(Variable& leaf)> hook);
  // Removes a hook of either kind that was added after the last in-place write. Returns whether it existed.
  bool RemoveHook(autograd::HookId id);

  // --- Versions ---

  // Returns the number of writes to the elements, shared with all views and detached aliases (_version).
  uint32_t version() const;
  void BumpVersion();

  // --- Views ---

  // Returns a variable that shares storage and version counter, without grad_fn. It is not a view.
  Variable Detach() const;
  // Returns a variable over `seen` that shares the version counter, without grad_fn and not a view. `seen` is in this
  // variable's storage or replaces it.
  Variable DetachAs(Tensor seen) const;
  // Returns a view over `seen`, which is in this variable's storage, without recording a node. SetHistory() may set a
  // grad_fn other than a view node. *this must not be a view.
  Variable ViewAs(Tensor seen, ViewCreation creation) const;
  // Returns the result of applying the view ops `steps` in order, recorded if gradients are enabled. `symbols`: the
  // values of the symbols in the steps. view::Detach detaches. Without steps: an alias. InvalidArgument: a step does
  // not apply to the geometry, or the result exceeds the storage. FailedPrecondition: view::View would need a copy;
  // a view to another dtype of a tensor with conj/neg bits; as grad_fn(). Unimplemented: as ApplyViewStep().
  absl::StatusOr<Variable> View(absl::Span<const ViewStep> steps, absl::Span<const int64_t> symbols = {}) const;
  // Returns the view with `layout` in the storage, recorded as AsStridedBackward if gradients are enabled.
  // InvalidArgument: `layout` exceeds the storage. FailedPrecondition: as grad_fn().
  absl::StatusOr<Variable> AsStrided(const StridedLayout& layout) const;
  // Returns the views of one multi-view operation (unbind), one for each step; they must not be written in place while
  // gradients are enabled. InvalidArgument: a step changes the dtype or the conj/neg bits, or is view::Detach. Other
  // errors: as View().
  absl::StatusOr<std::vector<Variable>> MultiView(absl::Span<const ViewStep> steps) const;

  // Return whether autograd knows the variable as a view, its base (undefined unless is_view(); not itself a view), and
  // how the view was created.
  bool is_view() const;
  const Variable& base() const;
  ViewCreation view_creation() const;

  // --- In place ---

  // Copies the elements of `source`, cast and broadcast (copy_()). Recorded if gradients are enabled and either
  // variable requires grad. FailedPrecondition: as CheckInPlace(). InvalidArgument: the sizes do not broadcast;
  // elements of *this overlap each other or, in part, those of the source. NotFound, Unimplemented: there is no kernel.
  // On these errors nothing has changed.
  absl::Status CopyInPlace(const Variable& source, TensorOps& ops);
  // Sets the layout of this variable in its storage (as_strided_()); other variables in the storage keep theirs.
  // FailedPrecondition: as CheckInPlace() and grad_fn(). InvalidArgument: `layout` exceeds the storage.
  absl::Status AsStridedInPlace(const StridedLayout& layout);
  // Replaces storage and layout by those of `source` (set_()); views and detached aliases keep the old storage. The
  // variable keeps its grad_fn and version counter. InvalidArgument: dtype or device differ. FailedPrecondition:
  // gradients are enabled and either variable requires grad.
  absl::Status SetStorage(const Variable& source);
  // Makes the variable a leaf that does not require grad (detach_()). FailedPrecondition: it is a view.
  absl::Status DetachInPlace();

  // Returns "f32[2,3] grad_fn=ViewBackward", for messages.
  std::string ToString() const;

  // The state shared by all handles; for this package only.
  explicit Variable(std::shared_ptr<autograd::VariableState> state) : state_(std::move(state)) {}
  const std::shared_ptr<autograd::VariableState>& state() const { return state_; }

 private:
  std::shared_ptr<autograd::VariableState> state_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_VARIABLE_H_
