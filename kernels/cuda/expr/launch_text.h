// SPDX-License-Identifier: Apache-2.0

// Makes launches of the parts of ops.
#ifndef COTAN_KERNELS_CUDA_EXPR_LAUNCH_TEXT_H_
#define COTAN_KERNELS_CUDA_EXPR_LAUNCH_TEXT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/expr/kernel_part.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda::expr {

// Parameters of a launch: 4,096 bytes of 8-byte pointers, less the error record.
inline constexpr size_t kMaxParameters = 500;

// Returns the launch of one part.
// Unimplemented: more blocks than CUDA allows.
absl::StatusOr<KernelLaunch> LaunchOf(const KernelPart& part);

// Returns one launch of several parts with equal `threads`: ranges of blocks belong to parts. Parts that differ in
// `elements` and arguments only share their statements. The parts have at most kMaxParameters parameters and fewer than
// 2^31 blocks together.
KernelLaunch LaunchOfAll(absl::Span<const KernelPart* const> parts);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_LAUNCH_TEXT_H_
