// SPDX-License-Identifier: Apache-2.0

// CPU kernels without oneDNN, for small binaries.
#ifndef COTAN_KERNELS_CPU_REGISTER_PORTABLE_H_
#define COTAN_KERNELS_CPU_REGISTER_PORTABLE_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Registers kernels for the same ops and dtypes as RegisterCpuKernels().
// AlreadyExists: `registry` already has CPU kernels.
absl::Status RegisterPortableKernels(KernelRegistry& registry);

}  // namespace cotan

#endif  // COTAN_KERNELS_CPU_REGISTER_PORTABLE_H_
