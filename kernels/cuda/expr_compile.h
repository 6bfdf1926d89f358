// From the program's form of an expression to the GPU's.
#ifndef COTAN_KERNELS_CUDA_EXPR_COMPILE_H_
#define COTAN_KERNELS_CUDA_EXPR_COMPILE_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/expr_program.h"

namespace cotan::cuda {

// `request.op` is an Expr.
// Unimplemented: reductions, dtypes other than f32 and bool, functions that
// COTAN_CUDA_SCALAR_FNS lacks, more operands or instructions than an
// ExprProgram holds. The message names the first one met.
// InvalidArgument: an expression that breaks the rules of expr.proto, or
// operands that do not fit it.
absl::StatusOr<ExprProgram> CompileExpr(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_EXPR_COMPILE_H_
