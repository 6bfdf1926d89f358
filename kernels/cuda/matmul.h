// SPDX-License-Identifier: Apache-2.0

// The kernel of matmul ops on CUDA, with cuBLASLt.
#ifndef COTAN_KERNELS_CUDA_MATMUL_H_
#define COTAN_KERNELS_CUDA_MATMUL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// Prepares a matmul of f16, bf16, f32 or f64 (a KernelFactory). Sums are accumulated in f32 (f64 for f64),
// never in TF32, and in the same order in each run. A matmul with an epilogue runs two kernels
// (matmul_epilogue.h). Errors as PlanMatmul().
// InvalidArgument: the request's device is not a CudaDevice.
// Unavailable: cuBLASLt is not installed.
// Unimplemented: cuBLASLt has no algorithm, or the dtype is not supported.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_H_
