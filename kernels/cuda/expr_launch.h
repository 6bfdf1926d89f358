// SPDX-License-Identifier: Apache-2.0

// Runs an expression program on the GPU.
#ifndef COTAN_KERNELS_CUDA_EXPR_LAUNCH_H_
#define COTAN_KERNELS_CUDA_EXPR_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/device_expr.h"

namespace cotan::cuda {

// Queues the evaluation of `program` at every index of its domain on `stream`. The domain is not empty. The
// pointers are device addresses. Returns the error of the launch.
cudaError_t LaunchExpr(const DeviceExpr& program, const ExprPointers& pointers, cudaStream_t stream);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_EXPR_LAUNCH_H_
