// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/own_convolution.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/convolution/direct_convolution.h"
#include "kernels/cuda/convolution/patch_convolution.h"

namespace cotan::cuda {

absl::StatusOr<KernelPlan> PlanOwnConvolution(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ConvolutionProblem problem, DescribeConvolution(request));
  if (std::optional<KernelPlan> plan = PlanPatchConvolution(problem, request.guarded_outputs)) return *std::move(plan);
  return PlanDirectConvolution(request);
}

bool PrefersOwnConvolution(const KernelRequest& request, bool tf32) {
  const absl::StatusOr<ConvolutionProblem> problem = DescribeConvolution(request);
  if (!problem.ok() || (tf32 && problem->dtype == DType::kFloat32)) return false;
  return TakesPatchConvolution(*problem);
}

}  // namespace cotan::cuda
