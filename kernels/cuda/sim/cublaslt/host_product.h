// SPDX-License-Identifier: Apache-2.0

// Products on the memory of a simulated GPU.
#ifndef COTAN_KERNELS_CUDA_SIM_CUBLASLT_HOST_PRODUCT_H_
#define COTAN_KERNELS_CUDA_SIM_CUBLASLT_HOST_PRODUCT_H_

#include "absl/status/status.h"
#include "kernels/cuda/sim/cublaslt/product_contract.h"
#include "kernels/cuda/sim/device_memory.h"

namespace cotan::cuda::sim {

// Computes d = alpha op(a) op(b) + beta c, plus a bias if the epilogue adds one, with sums in the compute type and one
// rounding, and overwrites the workspace. Reads no gaps between elements. The product has passed the checks of
// product_contract.h. Errors of DeviceMemory: an element is outside of an allocation, or was never written.
absl::Status ComputeProduct(const ProductArguments& product, DeviceMemory& memory);

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUBLASLT_HOST_PRODUCT_H_
