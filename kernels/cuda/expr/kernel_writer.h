// SPDX-License-Identifier: Apache-2.0

// Writes the statements of kernels.
#ifndef COTAN_KERNELS_CUDA_EXPR_KERNEL_WRITER_H_
#define COTAN_KERNELS_CUDA_EXPR_KERNEL_WRITER_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/expr/analysis.h"
#include "kernels/cuda/expr/kernel_part.h"
#include "kernels/cuda/expr/schedule.h"

namespace cotan::cuda::expr {

// Writes the kernels of an expression: the parts of its launches, in order. There is one, except of expressions without
// reductions that have outputs of both levels. Each stores at least one value or total.
std::vector<KernelPart> WriteKernels(const Problem& problem, const ScheduleOptions& options);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_KERNEL_WRITER_H_
