// SPDX-License-Identifier: Apache-2.0

// Corrects the view functions of functional tensors after metadata mutations.
#ifndef COTAN_AOT_CAPTURE_AUTOGRAD_VIEWS_H_
#define COTAN_AOT_CAPTURE_AUTOGRAD_VIEWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cotan::aot {

// Keeps the ViewFunc of differentiable views (torch/csrc/autograd/variable.h) correct during a trace.
//
// After a write to its memory, a view's grad_fn is regenerated (VariableHooks::grad_fn in variable.cpp): by
// AsStridedBackward for ordinary tensors, and by replay of the ViewFunc for functional tensors, for which
// TensorImpl::support_as_strided() is false. Replay is wrong if the view or its base has had a metadata
// mutation since:
//
//   y = x.view({-1}); x.t_();
//
// Does not keep tensors alive. Not thread-safe.
class AutogradViews {
 public:
  AutogradViews();

  // Records a tensor that an op returned or wrote. Ignores tensors that are not functional.
  void Note(const at::Tensor& tensor);
  // Handles a metadata mutation of the functional tensor: replaces the ViewFuncs of the tensor and of its
  // noted views by ones that start from the present geometry.
  void GeometryChanged(const at::Tensor& tensor);
  // Marks an input that is a view for the caller but not in the trace. For the caller, autograd regenerates
  // its grad_fn also when its geometry changes under no_grad.
  void AddViewOfCaller(const at::Tensor& input);
  bool IsViewOfCaller(const at::Tensor& tensor) const;
  // Records that an in-place view op replaced the grad_fn `before` of a marked input by `input.grad_fn()`,
  // which is equivalent but has the new geometry. Does nothing if both are the same node or `before` is
  // null.
  void NoteGradFnRebased(const void* before, const at::Tensor& input);
  // Returns the grad_fn from which `node` was derived by the replacements in NoteGradFnRebased(); `node`
  // itself if there was none.
  const void* OriginalGradFn(const void* node) const;
  // Releases the saved variables of all grad_fns of this trace that noted tensors reach, and forgets the
  // tensors. This breaks reference cycles: a tensor that was written in place with itself as an operand is
  // saved by its own grad_fn.
  void ReleaseHistories();

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::vector<at::Tensor> Alive() const;

  std::vector<WeakTensor> noted_;
  std::vector<const c10::TensorImpl*> views_of_caller_;  // not owned; cleared by ReleaseHistories()
  // Pairs of a grad_fn and the one that it replaced. Keeps the former alive, so that its address stays
  // unique.
  std::vector<std::pair<std::shared_ptr<const void>, const void*>> continued_;
  const uint64_t first_sequence_number_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_AUTOGRAD_VIEWS_H_
