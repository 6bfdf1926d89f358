// SPDX-License-Identifier: Apache-2.0

// Convolutions whose operands lie in shared memory as patches.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_PATCH_CONVOLUTION_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_PATCH_CONVOLUTION_H_

#include <optional>

#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Returns whether PlanPatchConvolution() takes the problem.
bool TakesPatchConvolution(const ConvolutionProblem& problem);

// Plans a convolution of f32 or f64 of one or two spatial dimensions without groups as one launch. Sums are in the
// operands' dtype, in an order that depends on sizes alone; the bias is added last. The gradient of the weight takes
// scratch if blocks share its sums. Nothing: PlanDirectConvolution() takes the problem.
std::optional<KernelPlan> PlanPatchConvolution(const ConvolutionProblem& problem, bool guarded);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_PATCH_CONVOLUTION_H_
