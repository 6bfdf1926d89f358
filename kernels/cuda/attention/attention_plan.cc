// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cudnn_attention.h"

namespace cotan::cuda {
namespace {

absl::StatusOr<KernelPlan> Plan(const KernelRequest& request, PlanKernel flash) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  if (!CudnnAttention::Supports(request)) return flash(request);
  auto call = std::make_shared<const CudnnAttention>(request);
  KernelPlan plan;
  plan.scratch_bytes = call->scratch_bytes();
  std::vector<KernelArgument> arguments = call->Arguments();
  plan.steps.push_back(LibraryCall{std::move(call), std::move(arguments)});
  return plan;
}

}  // namespace

absl::StatusOr<KernelPlan> PlanAttention(const KernelRequest& request) { return Plan(request, PlanFlashAttention); }

absl::StatusOr<KernelPlan> PlanAttentionBackward(const KernelRequest& request) {
  return Plan(request, PlanFlashAttentionBackward);
}

}  // namespace cotan::cuda
