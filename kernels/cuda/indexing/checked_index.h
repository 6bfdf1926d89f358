// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_KERNELS_CUDA_INDEXING_CHECKED_INDEX_H_
#define COTAN_KERNELS_CUDA_INDEXING_CHECKED_INDEX_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans the checked_index op. An element that is out of range is recorded, and 0 is written for it. Guarded outputs are
// not written then.
// InvalidArgument: from CheckOp() and IndexRange::Of(). Unimplemented: more than 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanCheckedIndex(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_INDEXING_CHECKED_INDEX_H_
