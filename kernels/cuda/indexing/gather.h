// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_KERNELS_CUDA_INDEXING_GATHER_H_
#define COTAN_KERNELS_CUDA_INDEXING_GATHER_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans the gather op for any dtype and strides. An index that is out of range is recorded, and row 0 is read for it.
// Guarded outputs are not written then.
// InvalidArgument: from CheckOp(). Unimplemented: more than 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanGather(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_INDEXING_GATHER_H_
