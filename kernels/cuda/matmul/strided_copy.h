// SPDX-License-Identifier: Apache-2.0

// Copies of the operands of matrix products.
#ifndef COTAN_KERNELS_CUDA_MATMUL_STRIDED_COPY_H_
#define COTAN_KERNELS_CUDA_MATMUL_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

struct CopyDimension {
  int64_t size = 1;
  int64_t from_stride = 0;  // elements; 0 repeats
  int64_t to_stride = 0;    // elements
};

struct StridedCopy {
  size_t element_bytes = 0;  // 1, 2, 4 or 8
  std::vector<CopyDimension> dimensions;
  std::optional<KernelArgument> from;  // none: writes zeros
  KernelArgument to;
  // Copies nothing once an earlier op has failed.
  bool is_guarded = false;
};

// Returns the launch of a copy that is not empty. Elements of the target do not overlap, nor the source.
KernelLaunch PlanStridedCopy(const StridedCopy& copy);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_STRIDED_COPY_H_
