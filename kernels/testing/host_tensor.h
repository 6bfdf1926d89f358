// SPDX-License-Identifier: Apache-2.0

// Tensors in host memory for tests of kernels.
#ifndef COTAN_KERNELS_TESTING_HOST_TENSOR_H_
#define COTAN_KERNELS_TESTING_HOST_TENSOR_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

// A tensor of any dtype and strides that owns its bytes. Values are read and written as double; integers
// beyond 2^53 lose digits.
class HostTensor {
 public:
  // Makes a tensor filled with bytes 0xa5, so that elements that a kernel does not write are detected.
  HostTensor(DType dtype, StridedLayout layout);
  // Row-major.
  HostTensor(DType dtype, absl::Span<const int64_t> sizes);
  // Makes a row-major tensor with these values, one per element.
  HostTensor(DType dtype, absl::Span<const int64_t> sizes, absl::Span<const double> values);

  DType dtype() const { return dtype_; }
  const StridedLayout& layout() const { return layout_; }
  int64_t numel() const { return NumElements(layout_.sizes); }
  TensorSpec spec() const { return {dtype_, layout_}; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  // Returns all bytes, gaps between elements included.
  absl::Span<const char> bytes() const { return bytes_; }

  // Returns all elements in row-major order of the index space.
  std::vector<double> Values() const;
  void SetValues(absl::Span<const double> values);

 private:
  DType dtype_;
  StridedLayout layout_;
  std::vector<char> bytes_;
};

// Fills `tensor` with uniform values in [low, high), rounded to the dtype; bools are true with probability
// 1/2.
void FillRandom(HostTensor& tensor, std::mt19937_64& random, double low, double high);

// Returns a layout of `sizes` whose dimensions are in a random order in memory, with gaps if `gaps`, and with
// expanded dimensions (stride 0) if `expand`, which is for inputs only.
StridedLayout RandomLayout(absl::Span<const int64_t> sizes, std::mt19937_64& random, bool gaps, bool expand);

// Prepares `op` and runs it once. `inputs` may contain a tensor more than once.
// Internal: the kernel wrote after the end of its scratch memory.
// Errors of `factory` and of the kernel.
absl::Status RunOp(absl::FunctionRef<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelRequest&)> factory,
                   const serialization::Op& op, absl::Span<HostTensor* const> inputs,
                   absl::Span<HostTensor* const> outputs, int threads = 1, absl::Span<const int64_t> symbols = {});

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_HOST_TENSOR_H_
