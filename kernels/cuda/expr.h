// SPDX-License-Identifier: Apache-2.0

// The kernel of expression ops on CUDA.
#ifndef COTAN_KERNELS_CUDA_EXPR_H_
#define COTAN_KERNELS_CUDA_EXPR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// Prepares an expression kernel (a KernelFactory). Errors as CompileExpr().
// InvalidArgument: the request's device is not a CudaDevice.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareExpr(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_EXPR_H_
