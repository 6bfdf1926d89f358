// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/concat.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/copy_job.h"
#include "kernels/cuda/copy/part_copies.h"

namespace cotan::cuda {

absl::StatusOr<KernelPlan> PlanConcat(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto dim = static_cast<size_t>(request.op.concat().dim());
  const TensorSpec& output = request.outputs[0];
  const size_t element_bytes = ByteSize(output.dtype);
  const int64_t stride_bytes = output.layout.strides[dim] * static_cast<int64_t>(element_bytes);
  std::vector<PartCopy> copies;
  int64_t begin = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const StridedLayout& input = request.inputs[i].layout;
    copies.push_back({.tensor = InputArgument(static_cast<int>(i)),
                      .offset = begin * stride_bytes,
                      .job = MakeCopyJob(element_bytes, input.sizes, input.strides, output.layout.strides)});
    begin += input.sizes[dim];
  }
  KernelPlan plan;
  COTAN_RETURN_IF_ERROR(
      AppendPartCopies("concat", copies, PartDirection::kToBuffer, OutputArgument(0), request.guarded_outputs, plan));
  return plan;
}

}  // namespace cotan::cuda
