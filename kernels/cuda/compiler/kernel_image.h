// SPDX-License-Identifier: Apache-2.0

// A compiled kernel.
#ifndef COTAN_KERNELS_CUDA_COMPILER_KERNEL_IMAGE_H_
#define COTAN_KERNELS_CUDA_COMPILER_KERNEL_IMAGE_H_

#include <string>

#include "kernels/cuda/nvrtc/nvrtc_table.h"

namespace cotan::cuda {

// An image for cuModuleLoadData: PTX text or a cubin, and the compute capability that it was compiled for.
struct KernelImage {
  nvrtc::CompileTarget target;
  std::string bytes;
};

// Returns true if a GPU of this compute capability executes images of `target`: cubins of the same major version and no
// later minor one, PTX of no later version.
inline bool Executes(int compute_capability, const nvrtc::CompileTarget& target) {
  if (target.compute_capability > compute_capability) return false;
  return target.kind == nvrtc::ImageKind::kPtx || target.compute_capability / 10 == compute_capability / 10;
}

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COMPILER_KERNEL_IMAGE_H_
