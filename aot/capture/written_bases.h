// SPDX-License-Identifier: Apache-2.0

// Keeps the strides of tensors that ops write.
#ifndef COTAN_AOT_CAPTURE_WRITTEN_BASES_H_
#define COTAN_AOT_CAPTURE_WRITTEN_BASES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <vector>

namespace cotan::aot {

class Recorder;

// Keeps the strides of bases that an op writes. An in-place op keeps its tensor's strides, but the
// functional op in its place chooses the strides of its result: without this class, they and the strides of
// everything computed from them may differ from eager mode.
//
//   const WrittenBases written(op, stack);
//   op.redispatchBoxed(...);
//   written.Restore();
class WrittenBases {
 public:
  // Finds the functional tensors among the op's arguments, which are on top of the stack, that the op
  // writes.
  WrittenBases(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  // Records the writes in `recorder`; must be called before the op runs.
  void RecordMutation(Recorder& recorder) const;

  // Gives the written bases the strides and offset that they had before. Skips tensors whose sizes or
  // storage have changed, and overlapping ones.
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
