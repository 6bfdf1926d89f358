// SPDX-License-Identifier: Apache-2.0

// Copies between two layouts of the same sizes: the copy op, and the step by which other kernels bring an
// operand into the layout that they need.
#ifndef COTAN_KERNELS_CPU_COPY_COPY_H_
#define COTAN_KERNELS_CPU_COPY_COPY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {

// Returns a kernel that copies input 0 to output 0, elements of `element_size` bytes (1, 2, 4, 8 or 16).
// Strides count elements. `from_strides` may be 0; `to_strides` addresses each element once. The operands do
// not overlap unless pointer and strides are the same; then nothing is copied. Results are bitwise equal for
// any thread count.
std::unique_ptr<Kernel> MakeCopyKernel(size_t element_size, absl::Span<const int64_t> sizes,
                                       absl::Span<const int64_t> from_strides, absl::Span<const int64_t> to_strides,
                                       int threads);

// Returns a copy kernel that broadcasts the source to `to`'s sizes as NumPy does: missing leading dimensions
// and dimensions of size 1 are repeated.
// InvalidArgument: the sizes of `from` do not broadcast to those of `to`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBroadcastCopyKernel(size_t element_size, const StridedLayout& from,
                                                                const StridedLayout& to, int threads);

// Returns a kernel without inputs that sets all elements of output 0 to zero bits.
std::unique_ptr<Kernel> MakeZeroKernel(size_t element_size, const StridedLayout& to, int threads);

// Returns a slot with the elements of `slot`, an operand of layout `spec`, in row-major order: `slot` itself
// if it is row-major already, otherwise scratch that a step added to `pipeline` fills. Later steps may read
// it.
Slot BringRowMajor(const TensorSpec& spec, Slot slot, int threads, Pipeline& pipeline);

// Factory of the copy op for any dtype.
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeCopy(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_COPY_COPY_H_
