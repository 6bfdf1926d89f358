// A tensor in host memory for tests: owns its bytes, any dtype, any strides.
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

// Values are read and written as double; integers beyond 2^53 lose digits.
class HostTensor {
 public:
  // Filled with bytes 0xa5, so that what a kernel leaves unwritten shows.
  HostTensor(DType dtype, StridedLayout layout);
  // Row-major.
  HostTensor(DType dtype, absl::Span<const int64_t> sizes);
  // Row-major with these values, which are as many as the sizes say.
  HostTensor(DType dtype, absl::Span<const int64_t> sizes, absl::Span<const double> values);

  DType dtype() const { return dtype_; }
  const StridedLayout& layout() const { return layout_; }
  int64_t numel() const { return NumElements(layout_.sizes); }
  TensorSpec spec() const { return {dtype_, layout_}; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  // All bytes, gaps between elements included.
  absl::Span<const char> bytes() const { return bytes_; }

  // All elements, in row-major order of the index space.
  std::vector<double> Values() const;
  void SetValues(absl::Span<const double> values);

 private:
  DType dtype_;
  StridedLayout layout_;
  std::vector<char> bytes_;
};

// Uniform in [low, high), rounded to the dtype; bools are fair coins.
void FillRandom(HostTensor& tensor, std::mt19937_64& random, double low, double high);

// Row-major sizes laid out with the dimensions in a random order, with gaps if
// `gaps`; an input may also expand dimensions (stride 0) if `expand`.
StridedLayout RandomLayout(absl::Span<const int64_t> sizes, std::mt19937_64& random, bool gaps, bool expand);

// Prepares `op` and runs it once. Pointers in `inputs` may repeat.
// Internal: the kernel wrote behind its scratch memory; else what `factory` and the kernel return.
absl::Status RunOp(absl::FunctionRef<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelRequest&)> factory,
                   const serialization::Op& op, absl::Span<HostTensor* const> inputs,
                   absl::Span<HostTensor* const> outputs, int threads = 1, absl::Span<const int64_t> symbols = {});

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_HOST_TENSOR_H_
