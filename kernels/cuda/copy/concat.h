// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_KERNELS_CUDA_COPY_CONCAT_H_
#define COTAN_KERNELS_CUDA_COPY_CONCAT_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans the concat op for any dtype: a launch for each 64 inputs.
// InvalidArgument: from CheckOp(). Unimplemented: more than 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanConcat(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COPY_CONCAT_H_
