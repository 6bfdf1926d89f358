// SPDX-License-Identifier: Apache-2.0

// Convolutions by kernels of this project.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_OWN_CONVOLUTION_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_OWN_CONVOLUTION_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans any convolution op without cuDNN: PlanPatchConvolution() if it takes the problem, else PlanDirectConvolution().
// InvalidArgument: from CheckOp(). Unimplemented: as PlanDirectConvolution().
absl::StatusOr<KernelPlan> PlanOwnConvolution(const KernelRequest& request);

// Returns whether PlanOwnConvolution() is expected to be faster than cuDNN, which rounds operands of f32 to TF32 if
// `tf32`: what PlanPatchConvolution() takes, if `tf32` only small ones of f32. Deterministic engines of cuDNN leave
// most of a GPU idle at small sizes, and copy tensors to and from row-major order.
bool PrefersOwnConvolution(const KernelRequest& request, bool tf32);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_OWN_CONVOLUTION_H_
