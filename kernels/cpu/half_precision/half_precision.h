// SPDX-License-Identifier: Apache-2.0

// Ops on f16 and bf16 tensors by f32 kernels: operands are converted to f32, the result is rounded once.
#ifndef COTAN_KERNELS_CPU_HALF_PRECISION_HALF_PRECISION_H_
#define COTAN_KERNELS_CPU_HALF_PRECISION_HALF_PRECISION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Returns a kernel that converts the elements of input 0 to those of output 0, as FN_CAST does. Both layouts
// have the same sizes.
// Unimplemented: a dtype that expressions do not support.
absl::StatusOr<std::unique_ptr<Kernel>> MakeCastKernel(const TensorSpec& from, const TensorSpec& to, int threads);

// Returns the kernel that `f32_factory` makes for `request` with f32 in place of f16 and bf16, between casts
// of all such operands. The f32 copies have the operand's order of dimensions in memory, without gaps.
// Errors: those of `f32_factory`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidenedKernel(const KernelRequest& request, KernelFactory f32_factory);

// A kernel factory: MakeWidenedKernel() with `kF32Factory`.
template <KernelFactory kF32Factory>
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidened(const KernelRequest& request) {
  return MakeWidenedKernel(request, kF32Factory);
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_HALF_PRECISION_HALF_PRECISION_H_
