// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_KERNELS_REFERENCE_REGISTER_REFERENCE_H_
#define COTAN_KERNELS_REFERENCE_REGISTER_REFERENCE_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Registers the reference kernels of every op for DeviceType::kCpu.
// AlreadyExists: `registry` has a CPU kernel for one of the ops. Kernels registered before it remain.
absl::Status RegisterReferenceKernels(KernelRegistry& registry);

}  // namespace cotan

#endif  // COTAN_KERNELS_REFERENCE_REGISTER_REFERENCE_H_
