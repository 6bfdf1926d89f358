// Views that are written to, where LibTorch's functionalization does not know how
// to bring the write back to the tensor that was viewed.
#ifndef COTAN_AOT_CAPTURE_VIEW_INVERSES_H_
#define COTAN_AOT_CAPTURE_VIEW_INVERSES_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace cotan::aot {

// Of an op that makes a view:
//
//   const ViewInverse inverse(op, stack);
//   op.redispatchBoxed(...);
//   inverse.Mend(stack);
//
// as_strided of a view: functionalization refuses writes to it, as tensors that
// are computed in the place of others may lie in memory in another way. In a trace
// they lie as in eager mode (written_bases.h).
//
// unfold: elements of the tensor that no window has keep their value. A write to
// windows that overlap is refused: what it gives is not defined.
// expand, if no element is repeated: elements are brought back as they are, of
// whatever dtype.
// view_as_complex: what has been written as conjugates is brought back as what they
// are conjugates of.
// Other ops are left alone.
class ViewInverse {
 public:
  // The op's arguments lie on the stack.
  ViewInverse(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  // The op's result lies on the stack.
  void Mend(const torch::jit::Stack& stack) const;

 private:
  enum class Kind : uint8_t { kOther, kAsStrided, kComplex, kExpand, kUnfold };
  Kind kind_ = Kind::kOther;
  int64_t dim_ = 0, size_ = 0, step_ = 0;  // of windows
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_VIEW_INVERSES_H_
