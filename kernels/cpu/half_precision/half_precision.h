// Ops on half-precision tensors by kernels of f32: operands are widened, the
// result is rounded once.
#ifndef COTAN_KERNELS_CPU_HALF_PRECISION_HALF_PRECISION_H_
#define COTAN_KERNELS_CPU_HALF_PRECISION_HALF_PRECISION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Converts the elements of input 0 to output 0, as FN_CAST does. Sizes of both
// layouts are equal.
// Unimplemented: dtypes that expressions do not have.
absl::StatusOr<std::unique_ptr<Kernel>> MakeCastKernel(const TensorSpec& from, const TensorSpec& to, int threads);

// The kernel that `f32_factory` makes for `request` with f32 in the place of
// f16 and bf16, between casts of all such operands. Each operand keeps its
// order in memory, without gaps. Errors of the factory.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidenedKernel(const KernelRequest& request, KernelFactory f32_factory);

// A factory that widens.
template <KernelFactory kF32Factory>
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidened(const KernelRequest& request) {
  return MakeWidenedKernel(request, kF32Factory);
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_HALF_PRECISION_HALF_PRECISION_H_
