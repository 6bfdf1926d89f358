// Moves elements between two geometries of the same sizes: the copy op, and
// the step of other kernels that brings an operand into a layout they like.
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

// A kernel that copies input 0 to output 0, elements of `element_size` bytes
// (1, 2, 4, 8 or 16). `from` may have strides of 0; `to` addresses each
// element once, and the two do not overlap unless they are the same pointer
// and strides (then nothing is done). Bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeCopyKernel(size_t element_size, absl::Span<const int64_t> sizes,
                                       absl::Span<const int64_t> from_strides, absl::Span<const int64_t> to_strides,
                                       int threads);

// As above with the source broadcast to `to`'s sizes as NumPy does: missing
// leading dimensions and dimensions of size 1 repeat.
// InvalidArgument: `from` does not broadcast so.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBroadcastCopyKernel(size_t element_size, const StridedLayout& from,
                                                                const StridedLayout& to, int threads);

// A kernel without inputs that sets all elements of output 0 to zero bits.
std::unique_ptr<Kernel> MakeZeroKernel(size_t element_size, const StridedLayout& to, int threads);

// Where the elements of `slot`, an operand with this geometry, lie in row-major
// order: there, if they do so already, else in scratch that steps added to
// `pipeline` from now on may read.
Slot BringRowMajor(const TensorSpec& spec, Slot slot, int threads, Pipeline& pipeline);

// Factory of the copy op, any dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeCopy(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_COPY_COPY_H_
