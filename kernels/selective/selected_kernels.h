// SPDX-License-Identifier: Apache-2.0

// The kernels that a cotan_runtime() target (defs.bzl) links. The target defines these functions; a binary links one.
#ifndef COTAN_KERNELS_SELECTIVE_SELECTED_KERNELS_H_
#define COTAN_KERNELS_SELECTIVE_SELECTED_KERNELS_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Registers CPU kernels that run the programs of the target, with the bits of RegisterPortableKernels(). For every
// other op and dtype it registers a factory that fails with FailedPrecondition and names the op and the target.
// AlreadyExists: `registry` already has CPU kernels.
absl::Status RegisterSelectedKernels(KernelRegistry& registry);

// Returns OK if the kernels of the target run all methods of `artifact` (Program::artifact()). Call it when a program
// is loaded that may not be one of the target's; otherwise the call that needs a missing kernel fails.
// FailedPrecondition: a kernel or a function of an expression is not linked; the message names it and the target.
absl::Status CheckSelectedKernels(const serialization::Artifact& artifact);

}  // namespace cotan

#endif  // COTAN_KERNELS_SELECTIVE_SELECTED_KERNELS_H_
