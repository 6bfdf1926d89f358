// Helps LibTorch's autograd with the tensors of a trace where it goes by what
// functionalization cannot tell it.
#ifndef COTAN_AOT_CAPTURE_AUTOGRAD_VIEWS_H_
#define COTAN_AOT_CAPTURE_AUTOGRAD_VIEWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cotan::aot {

// Autograd makes the history of a view anew when its memory has been written:
// of ordinary tensors by their place in memory, of functional ones by doing the
// view again. The latter is wrong if the view, or what it is a view of, has got
// other sizes in place since (`y = x.view({-1}); x.t_()`).
//
// Does not keep tensors alive. Not thread-safe.
class AutogradViews {
 public:
  AutogradViews();

  // A tensor that an op returned or wrote; others than functional ones do not
  // matter.
  void Note(const at::Tensor& tensor);
  // The op has given the functional tensor other sizes or strides in place. From
  // now on autograd finds it, and its views, where they are.
  void GeometryChanged(const at::Tensor& tensor);
  // An input that is a view to the caller, and not to the trace. Autograd makes
  // its history anew, too, when its geometry changes while gradients are
  // disabled.
  void AddViewOfCaller(const at::Tensor& input);
  bool IsViewOfCaller(const at::Tensor& tensor) const;
  // The op, a view in place, has given the input of the caller another history in
  // place of `before`: that is the one it had, of the new geometry.
  void NoteGradFnRebased(const void* before, const at::Tensor& input);
  // The history that has been continued to become `node`.
  const void* OriginalGradFn(const void* node) const;
  // Lets the histories of all noted tensors, as far as they are of this trace,
  // forget what they saved: a tensor that was written in place with itself as an
  // operand keeps itself alive.
  void ReleaseHistories();

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::vector<at::Tensor> Alive() const;

  std::vector<WeakTensor> noted_;
  std::vector<const c10::TensorImpl*> views_of_caller_;  // alive as long as histories are noted
  // Nodes and what they continue. Keeps the nodes alive, so that their addresses
  // stay theirs.
  std::vector<std::pair<std::shared_ptr<const void>, const void*>> continued_;
  const uint64_t first_sequence_number_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_AUTOGRAD_VIEWS_H_
