// Helps LibTorch's autograd with the tensors of a trace where it goes by what
// functionalization cannot tell it.
#ifndef COTAN_AOT_TRACE_AUTOGRAD_VIEWS_H_
#define COTAN_AOT_TRACE_AUTOGRAD_VIEWS_H_

#include <ATen/core/Tensor.h>

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
  // A tensor that an op returned or wrote; others than functional ones do not
  // matter.
  void Note(const at::Tensor& tensor);
  // The op has given the functional tensor other sizes or strides in place. From
  // now on autograd finds it, and its views, where they are.
  void GeometryChanged(const at::Tensor& tensor);
  // Lets the histories of all noted tensors forget what they saved: a tensor that
  // was written in place with itself as an operand keeps itself alive.
  void ReleaseHistories();

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::vector<at::Tensor> Alive() const;

  std::vector<WeakTensor> noted_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRACE_AUTOGRAD_VIEWS_H_
