// SPDX-License-Identifier: Apache-2.0

// Matrix products by a kernel of this project.
#ifndef COTAN_KERNELS_CUDA_MATMUL_TILED_MATMUL_H_
#define COTAN_KERNELS_CUDA_MATMUL_TILED_MATMUL_H_

#include "kernels/cuda/expr/analysis.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/cuda/matmul/matmul_problem.h"

namespace cotan::cuda {

// Returns the launch that computes a problem, which is not empty, with one rounding of each sum. Integers wrap around.
// `is_guarded`: it writes nothing once an earlier op has failed.
KernelLaunch PlanTiledProduct(const MatmulProblem& problem, bool is_guarded);

// Returns the launch that computes an expression of the product, with the bits that PlanTiledProduct() and PlanExpr()
// give one after another. The problem is not empty, has no c, and its d is row-major: it is input 0 of `epilogue`,
// whose other inputs are the op's from number 2 on. The outputs are guarded as `epilogue` says.
KernelLaunch PlanTiledProduct(const MatmulProblem& problem, const expr::Problem& epilogue);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_TILED_MATMUL_H_
