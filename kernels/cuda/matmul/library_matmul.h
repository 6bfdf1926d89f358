// SPDX-License-Identifier: Apache-2.0

// Matrix products by cuBLASLt.
#ifndef COTAN_KERNELS_CUDA_MATMUL_LIBRARY_MATMUL_H_
#define COTAN_KERNELS_CUDA_MATMUL_LIBRARY_MATMUL_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/cuda/matmul/matmul_problem.h"

namespace cotan::cuda {

struct LibraryMatmulPlan {
  KernelPlan plan;
  int64_t num_launches = 0;  // kernels that it queues, those of cuBLASLt included
};

// Plans a problem that is not empty and has k > 0. What cuBLASLt does not take is copied before and after: matrices
// without a dimension of stride 1, addends that are neither stored as the result nor a bias of its dense dimension,
// guarded results. The scratch begins at `scratch_begin` bytes, a multiple of 64; plan.scratch_bytes counts from 0.
// Returns nothing if cuBLASLt has not the dtype, or would need very many calls for a batch that is not evenly strided.
std::optional<LibraryMatmulPlan> PlanLibraryProduct(const MatmulProblem& problem, bool is_guarded,
                                                    int64_t scratch_begin);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_LIBRARY_MATMUL_H_
