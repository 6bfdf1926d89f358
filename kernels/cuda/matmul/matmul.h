// SPDX-License-Identifier: Apache-2.0

// Plans of matmul ops.
#ifndef COTAN_KERNELS_CUDA_MATMUL_MATMUL_H_
#define COTAN_KERNELS_CUDA_MATMUL_MATMUL_H_

#include "absl/status/statusor.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans a matmul op: integers and small products (IsSmallProduct()) by a kernel of this project, others by cuBLASLt.
// Sums, and an addend, are in f32 (f64 for f64) and are rounded once; those of integers wrap around. They are added in
// the same order in each run.
//
// The epilogue of a small product is a part of its kernel, which has the bits of the product
// followed by an Expr op. Otherwise it is planned by `plan_epilogue` as an Expr op whose input 0 is the product, in
// scratch. InvalidArgument, Unimplemented: from CheckOp() or `plan_epilogue`.
absl::StatusOr<KernelPlan> PlanMatmul(const KernelRequest& request, PlanKernel plan_epilogue);

// As PlanMatmul(), without cuBLASLt; epilogues are parts of all kernels.
absl::StatusOr<KernelPlan> PlanTiledMatmul(const KernelRequest& request, PlanKernel plan_epilogue);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_MATMUL_H_
