// From the checked form of an expression to the GPU's.
#ifndef COTAN_KERNELS_CUDA_EXPR_COMPILE_H_
#define COTAN_KERNELS_CUDA_EXPR_COMPILE_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/device_expr.h"

namespace cotan::cuda {

// `request.op` is an Expr.
// InvalidArgument: as ResolveExpr().
// Unimplemented: reductions, dtypes other than f32 and bool, functions that
// COTAN_CUDA_SCALAR_FNS lacks, more operands or instructions than a DeviceExpr
// holds. The message names the first one met.
absl::StatusOr<DeviceExpr> CompileExpr(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_EXPR_COMPILE_H_
