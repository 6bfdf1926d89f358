// SPDX-License-Identifier: Apache-2.0

// Copies between tensors and the parts of one buffer, many in a launch.
#ifndef COTAN_KERNELS_CUDA_COPY_PART_COPIES_H_
#define COTAN_KERNELS_CUDA_COPY_PART_COPIES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/copy/copy_job.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// The copy of a tensor to its part of the buffer, or from it.
struct PartCopy {
  KernelArgument tensor;
  int64_t offset = 0;  // of the part in the buffer, bytes
  CopyJob job;
};

enum class PartDirection : uint8_t { kToBuffer, kFromBuffer };

// Appends a launch for each 64 copies that have blocks. `entry` is the name of its kernel, `guarded` as
// KernelText::guarded. Unimplemented: more blocks than CUDA allows.
absl::Status AppendPartCopies(absl::string_view entry, absl::Span<const PartCopy> copies, PartDirection direction,
                              const KernelArgument& buffer, bool guarded, KernelPlan& plan);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COPY_PART_COPIES_H_
