// The kernel of expression ops on CUDA.
#ifndef COTAN_KERNELS_CUDA_EXPR_H_
#define COTAN_KERNELS_CUDA_EXPR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// A KernelFactory. Errors as CompileExpr(), and InvalidArgument if the
// request's device is no CudaDevice.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareExpr(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_EXPR_H_
