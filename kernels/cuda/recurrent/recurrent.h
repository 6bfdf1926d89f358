// SPDX-License-Identifier: Apache-2.0

// Recurrent layers over all time steps, forward and backward.
#ifndef COTAN_KERNELS_CUDA_RECURRENT_RECURRENT_H_
#define COTAN_KERNELS_CUDA_RECURRENT_RECURRENT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plan recurrent and recurrent_backward for floats, with any strides; f16 and bf16 are computed in f32. One launch
// computes all time steps, with some batch entries per block, which keeps the weights in registers and shared memory.
// If they do not fit, another launch packs them before, and each block reads them in each step.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype, or more than 2^31 - 1 blocks of threads.
absl::StatusOr<KernelPlan> PlanRecurrent(const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanRecurrentBackward(const KernelRequest& request);

// As above, with at most `shared_bytes` bytes of shared memory per block. States that do not fit lie in scratch.
absl::StatusOr<KernelPlan> PlanRecurrentWithin(int64_t shared_bytes, const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanRecurrentBackwardWithin(int64_t shared_bytes, const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_RECURRENT_RECURRENT_H_
