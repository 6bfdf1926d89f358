// SPDX-License-Identifier: Apache-2.0

// Registration of the CUDA backend.
#ifndef COTAN_KERNELS_CUDA_REGISTER_CUDA_H_
#define COTAN_KERNELS_CUDA_REGISTER_CUDA_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Registers the kernels of DeviceType::kCuda. Does not require a GPU; OpenCudaDevice() does.
// AlreadyExists: `registry` has CUDA kernels for one of the ops.
absl::Status RegisterCudaKernels(KernelRegistry& registry);

// Returns a registry with the CUDA kernels, for SessionOptions.kernels. Never destroyed; thread-safe.
const KernelRegistry& CudaKernels();

}  // namespace cotan

#endif  // COTAN_KERNELS_CUDA_REGISTER_CUDA_H_
