// The kernel of matmul ops on CUDA: cuBLASLt.
#ifndef COTAN_KERNELS_CUDA_MATMUL_H_
#define COTAN_KERNELS_CUDA_MATMUL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// A KernelFactory for f16, bf16, f32 and f64. Sums are taken in f32 (f64 for
// f64), never in TF32, and in the same order in each run.
// A matmul with an epilogue is two kernels (matmul_epilogue.h).
// Errors as PlanMatmul(); InvalidArgument if the request's device is no
// CudaDevice; Unavailable without cuBLASLt; Unimplemented if cuBLASLt has no
// algorithm.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_H_
