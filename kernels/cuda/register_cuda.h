// The CUDA backend, for binaries that want it.
#ifndef COTAN_KERNELS_CUDA_REGISTER_CUDA_H_
#define COTAN_KERNELS_CUDA_REGISTER_CUDA_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Adds the kernels of DeviceType::kCuda. Looks for no GPU: that is
// cuda::CudaDevice::Create()'s to do.
// AlreadyExists: there are such kernels already.
absl::Status RegisterCudaKernels(KernelRegistry& registry);

}  // namespace cotan

#endif  // COTAN_KERNELS_CUDA_REGISTER_CUDA_H_
