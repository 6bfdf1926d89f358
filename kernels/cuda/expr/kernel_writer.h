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

// The parts of an op, one per launch, in order: one, except of expressions without reductions that have outputs of both
// levels.
struct OpParts {
  std::vector<KernelPart> parts;
  int64_t scratch_bytes = 0;
};

// Writes the kernels of an expression. Each stores at least one value or total.
OpParts WriteKernels(const Problem& problem, const ScheduleOptions& options);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_KERNEL_WRITER_H_
