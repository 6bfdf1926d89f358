// Keeps tensors where they lie in memory while ops write to them.
#ifndef COTAN_AOT_CAPTURE_WRITTEN_BASES_H_
#define COTAN_AOT_CAPTURE_WRITTEN_BASES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <vector>

namespace cotan::aot {

class Recorder;

// An op that writes in place leaves its tensor's strides as they are, while the
// functional op in its place chooses those of its result: they may differ, and
// with them those of all that is computed later.
//
//   const WrittenBases written(op, stack);
//   op.redispatchBoxed(...);
//   written.Restore();
class WrittenBases {
 public:
  // The memory of the functional tensors that the op, whose arguments lie on the
  // stack, writes.
  WrittenBases(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  // The tensors are about to be written.
  void RecordMutation(Recorder& recorder) const;

  // Gives the tensors' new elements the old places. Leaves alone what has other
  // sizes, or another storage, now.
  void Restore() const;

 private:
  struct Written {
    at::Tensor tensor;
    const void* storage = nullptr;
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
  };
  std::vector<Written> written_;
  bool writes_elements_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_WRITTEN_BASES_H_
