// SPDX-License-Identifier: Apache-2.0

// The part of a kernel that copies one strided operand to another (kernels/cuda/source/copy.cuh).
#ifndef COTAN_KERNELS_CUDA_COPY_COPY_JOB_H_
#define COTAN_KERNELS_CUDA_COPY_COPY_JOB_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace cotan::cuda {

inline constexpr int kCopyThreads = 256;  // per block

struct CopyJob {
  std::string type;       // of device code
  int64_t blocks = 0;     // of kCopyThreads threads, 0 if there is nothing to copy
  bool is_dense = false;  // both operands are the same sequence of consecutive elements
};

// Chooses how to copy elements of `element_bytes` (1, 2, 4, 8 or 16) bytes. Strides count elements; those of the source
// may be 0.
CopyJob MakeCopyJob(size_t element_bytes, absl::Span<const int64_t> sizes, absl::Span<const int64_t> from_strides,
                    absl::Span<const int64_t> to_strides);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COPY_COPY_JOB_H_
