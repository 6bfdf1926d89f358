// SPDX-License-Identifier: Apache-2.0

// Compiles a checked expression to a DeviceExpr.
#ifndef COTAN_KERNELS_CUDA_EXPR_COMPILE_H_
#define COTAN_KERNELS_CUDA_EXPR_COMPILE_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/device_expr.h"

namespace cotan::cuda {

// Compiles `request.op`, an Expr, for the GPU.
// InvalidArgument: as ResolveExpr().
// Unimplemented: reductions, dtypes other than f32 and bool, functions that COTAN_CUDA_SCALAR_FNS lacks, more
// operands or instructions than a DeviceExpr holds. The message names the first one found.
absl::StatusOr<DeviceExpr> CompileExpr(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_EXPR_COMPILE_H_
