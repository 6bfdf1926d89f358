// SPDX-License-Identifier: Apache-2.0

// The CUDA kernels of a program.
#ifndef COTAN_AOT_CUDA_PROGRAM_KERNELS_H_
#define COTAN_AOT_CUDA_PROGRAM_KERNELS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the kernels that sessions and Functions of `artifact`, which has passed VerifyArtifact(), launch at `sizes`:
// those of all methods for each schedule (function_schedules.h), those of autograd (autograd_ops.h), and those for
// machines that lack a library. Each element of `sizes` has a value for each of the artifact's symbols. Each text
// occurs once, in ascending order, in the launch of most threads.
// Unimplemented: the CUDA backend lacks a kernel for some ops; the message names all of them.
// Errors of MakeSchedule() and SchedulesOf().
absl::StatusOr<std::vector<cuda::KernelLaunch>> ProgramKernels(const serialization::Artifact& artifact,
                                                               absl::Span<const DimVector> sizes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CUDA_PROGRAM_KERNELS_H_
