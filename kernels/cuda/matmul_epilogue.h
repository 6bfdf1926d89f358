// SPDX-License-Identifier: Apache-2.0

// The kernel of matmul ops with an epilogue on CUDA.
#ifndef COTAN_KERNELS_CUDA_MATMUL_EPILOGUE_H_
#define COTAN_KERNELS_CUDA_MATMUL_EPILOGUE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// Prepares a kernel that computes the whole product into scratch memory, with a kernel of the factory
// `product`, and then the epilogue.
// InvalidArgument: from CheckOp(), or the request's device is not a CudaDevice.
// Unimplemented: from `product` or CompileExpr().
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmulEpilogue(const KernelRequest& request, KernelFactory product);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_EPILOGUE_H_
