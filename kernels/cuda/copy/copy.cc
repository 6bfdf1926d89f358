// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/copy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/copy_job.h"
#include "kernels/cuda/copy/kernel_text.h"

namespace cotan::cuda {

absl::Status AppendCopy(size_t element_bytes, const CopyOperand& from, const CopyOperand& to, bool guarded,
                        KernelPlan& plan) {
  const CopyJob job = MakeCopyJob(element_bytes, to.layout.sizes, from.layout.strides, to.layout.strides);
  if (job.blocks == 0) return absl::OkStatus();
  if (job.is_dense && !guarded) {
    const int64_t bytes = NumElements(to.layout.sizes) * static_cast<int64_t>(element_bytes);
    plan.steps.push_back(MemoryCopy{to.argument, from.argument, bytes});
    return absl::OkStatus();
  }
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch,
                         MakeLaunch({.entry = "copy",
                                     .header = "copy.cuh",
                                     .definitions = absl::StrCat("using Job = ", job.type, ";\n"),
                                     .parameters = {{"const void* from", from.argument}, {"void* to", to.argument}},
                                     .guarded = guarded,
                                     .body = "  Job::Run(blockIdx.x, from, to);\n",
                                     .blocks = job.blocks,
                                     .threads = kCopyThreads}));
  plan.steps.push_back(std::move(launch));
  return absl::OkStatus();
}

absl::StatusOr<KernelPlan> PlanCopy(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  KernelPlan plan;
  COTAN_RETURN_IF_ERROR(AppendCopy(ByteSize(request.outputs[0].dtype), {InputArgument(0), request.inputs[0].layout},
                                   {OutputArgument(0), request.outputs[0].layout}, request.guarded_outputs, plan));
  return plan;
}

}  // namespace cotan::cuda
