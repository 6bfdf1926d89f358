// SPDX-License-Identifier: Apache-2.0

// Cumulative reductions along a dimension.
#ifndef COTAN_KERNELS_CUDA_SCAN_SCAN_H_
#define COTAN_KERNELS_CUDA_SCAN_SCAN_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans the scan op for floats and integers, with any strides. Floats are accumulated in f64. The input is read once;
// where few lines are long, a launch before reduces parts of them, and the input is read twice.
// InvalidArgument: from CheckOp(). Unimplemented: LOGSUMEXP of integers, another dtype, or more than 2^31 - 1 blocks of
// threads.
absl::StatusOr<KernelPlan> PlanScan(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_SCAN_SCAN_H_
