// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/own_convolution.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/convolution/direct_convolution.h"
#include "kernels/cuda/convolution/patch_convolution.h"

namespace cotan::cuda {
namespace {

// Own kernels of IEEE f32 are faster than cuDNN's of TF32 up to this many products per element of the kernel, measured
// on an H100: those of 17 M take 11 us (3 x 3) where cuDNN takes 18 with its copies, those of 134 M 66 us to its 29.
constexpr int64_t kMaxProductsPerTap = int64_t{24} << 20;

// Returns the number of products that have a factor from one position of the kernel.
int64_t ProductsPerTap(const ConvolutionProblem& problem) {
  const DimVector& windows = problem.narrow.layout.sizes;
  const DimVector& weights = problem.weights.layout.sizes;
  return windows[0] * windows[2] * windows[3] * windows[4] * weights[0] * weights[1];
}

}  // namespace

absl::StatusOr<KernelPlan> PlanOwnConvolution(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ConvolutionProblem problem, DescribeConvolution(request));
  if (std::optional<KernelPlan> plan = PlanPatchConvolution(problem, request.guarded_outputs)) return *std::move(plan);
  return PlanDirectConvolution(request);
}

bool PrefersOwnConvolution(const KernelRequest& request, bool tf32) {
  const absl::StatusOr<ConvolutionProblem> problem = DescribeConvolution(request);
  if (!problem.ok() || !TakesPatchConvolution(*problem)) return false;
  const bool uses_tensor_cores = tf32 && problem->dtype == DType::kFloat32;
  return !uses_tensor_cores || ProductsPerTap(*problem) <= kMaxProductsPerTap;
}

}  // namespace cotan::cuda
