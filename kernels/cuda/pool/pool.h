// SPDX-License-Identifier: Apache-2.0

// Max and average pooling, forward and backward.
#ifndef COTAN_KERNELS_CUDA_POOL_POOL_H_
#define COTAN_KERNELS_CUDA_POOL_POOL_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plan the pooling ops for any strides: f16, bf16, f32 and f64, max pooling integers, too. Sums are in f32 (f64 for
// f64), row-major over the window, or over the windows that contain an element in the backward, and rounded once.
//
// PlanMaxPoolBackward expects indices as max_pool wrote them, each within its own window; an index within the plane but
// outside its window adds to no element. An index outside the plane is recorded; guarded outputs are not written then.
//
// InvalidArgument: from CheckOp(). Unimplemented: more than 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanMaxPool(const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanMaxPoolBackward(const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanAvgPool(const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanAvgPoolBackward(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_POOL_POOL_H_
