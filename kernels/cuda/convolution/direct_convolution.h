// SPDX-License-Identifier: Apache-2.0

// Convolutions of any geometry by kernels of this project.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_DIRECT_CONVOLUTION_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_DIRECT_CONVOLUTION_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans a convolution op for any strides of f16, bf16, f32 and f64: one to three spatial dimensions, groups, dilation,
// transposed. Sums are in f32 (f64 for f64), in an order that depends on sizes alone, and rounded once, after the bias.
// The gradient of the weight of a large batch is summed in parts, which takes scratch.
// InvalidArgument: from CheckOp(). Unimplemented: another dtype, or more than 2^31 tiles of results.
absl::StatusOr<KernelPlan> PlanDirectConvolution(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_DIRECT_CONVOLUTION_H_
