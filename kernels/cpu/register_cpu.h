// SPDX-License-Identifier: Apache-2.0

// The default set of CPU kernels.
#ifndef COTAN_KERNELS_CPU_REGISTER_CPU_H_
#define COTAN_KERNELS_CPU_REGISTER_CPU_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Registers kernels for every op: the expression engine, oneDNN and the portable kernels. On processors other than
// x86-64, for which Debian's oneDNN has reference loops only, these are the kernels of RegisterPortableKernels().
// AlreadyExists: `registry` already has CPU kernels.
absl::Status RegisterCpuKernels(KernelRegistry& registry);

// Returns a registry that has only these kernels; it is filled on first use. Thread-safe.
const KernelRegistry& CpuKernels();

}  // namespace cotan

#endif  // COTAN_KERNELS_CPU_REGISTER_CPU_H_
