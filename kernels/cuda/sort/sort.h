// SPDX-License-Identifier: Apache-2.0

// Sort and top-k along a dimension.
#ifndef COTAN_KERNELS_CUDA_SORT_SORT_H_
#define COTAN_KERNELS_CUDA_SORT_SORT_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans the sort op for every dtype but complex ones, with any strides. Lines of up to 4096 elements (2048 of 64 bits)
// are sorted in one launch. Longer ones are sorted in tiles, which are merged in pairs: each launch reads and writes
// what is left once. If few elements are asked for, a launch leaves a small part.
// InvalidArgument: from CheckOp(). Unimplemented: a line of 2^32 - 1 elements or more, a complex dtype, or more than
// 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanSort(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_SORT_SORT_H_
