// Matmul ops with an epilogue, on CUDA.
#ifndef COTAN_KERNELS_CUDA_MATMUL_EPILOGUE_H_
#define COTAN_KERNELS_CUDA_MATMUL_EPILOGUE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// The whole product by a kernel of `product`, in scratch, and then the
// expression.
// InvalidArgument: from CheckOp(); the request's device is no CudaDevice.
// Unimplemented: from `product` or CompileExpr().
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmulEpilogue(const KernelRequest& request, KernelFactory product);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_EPILOGUE_H_
