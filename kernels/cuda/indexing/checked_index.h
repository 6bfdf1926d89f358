// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_KERNELS_CUDA_INDEXING_CHECKED_INDEX_H_
#define COTAN_KERNELS_CUDA_INDEXING_CHECKED_INDEX_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans the checked_index op. An element that is out of range is recorded, and 0 is written for it. Guarded outputs are
// not written then.
// InvalidArgument: from CheckOp() and IndexRange::Of(). Unimplemented: more than 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanCheckedIndex(const KernelRequest& request);

// Plans several checked_index ops as few launches, of which none writes what another one reads and none has guarded
// outputs. Inputs and outputs are numbered over all ops in order. The error is that of the first op that has one, with
// the lowest position; the text begins with KernelRequest::name of that op.
// Errors as PlanCheckedIndex(). InvalidArgument: guarded outputs.
absl::StatusOr<KernelPlan> PlanCheckedIndexGroup(absl::Span<const KernelRequest> requests);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_INDEXING_CHECKED_INDEX_H_
