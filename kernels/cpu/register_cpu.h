// The default set of CPU kernels.
#ifndef COTAN_KERNELS_CPU_REGISTER_CPU_H_
#define COTAN_KERNELS_CPU_REGISTER_CPU_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Adds kernels for every op: the expression engine, oneDNN and own code.
// AlreadyExists: `registry` has CPU kernels already.
absl::Status RegisterCpuKernels(KernelRegistry& registry);

// A registry with just these kernels, filled on first use. Thread-safe.
const KernelRegistry& CpuKernels();

}  // namespace cotan

#endif  // COTAN_KERNELS_CPU_REGISTER_CPU_H_
