// SPDX-License-Identifier: Apache-2.0

// Inverses of views that LibTorch's functionalization lacks or that fail on proxies.
#ifndef COTAN_AOT_CAPTURE_VIEW_INVERSES_H_
#define COTAN_AOT_CAPTURE_VIEW_INVERSES_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace cotan::aot {

// Replaces inverses of functionalization (aten/src/ATen/FunctionalInverses.cpp) for ops that make views:
//
//   const ViewInverse inverse(op, stack);
//   op.redispatchBoxed(...);
//   inverse.Mend(stack);
//
// - as_strided: FunctionalStorageImpl::add_update (aten/src/ATen/FunctionalStorageImpl.cpp) rejects writes
//   through as_strided of a view, as the strides of computed tensors may differ from eager mode. In a trace
//   they are the same (written_bases.h), so the check is disabled.
// - unfold: unfold_inverse zeroes the elements that are in no window; here they keep their value. A write
//   to overlapping windows throws c10::Error: its result is undefined.
// - expand: expand_inverse adds the sum of the differences, which bool does not support; if no element is
//   repeated, the view is written back as it is.
// - view_as_complex: view_as_complex_inverse cannot resolve the conj bit of a proxy; here it is resolved.
//
// Other ops are unchanged.
class ViewInverse {
 public:
  // The op's arguments are on top of the stack.
  ViewInverse(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  // Replaces the inverse of the last view step of the op's result, which is on top of the stack.
  void Mend(const torch::jit::Stack& stack) const;

 private:
  enum class Kind : uint8_t { kOther, kAsStrided, kComplex, kExpand, kUnfold };
  Kind kind_ = Kind::kOther;
  int64_t dim_ = 0, size_ = 0, step_ = 0;  // of unfold
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_VIEW_INVERSES_H_
