// CPU kernels without oneDNN, for binaries that must be small.
#ifndef COTAN_KERNELS_CPU_REGISTER_PORTABLE_H_
#define COTAN_KERNELS_CPU_REGISTER_PORTABLE_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Adds kernels for the same ops and dtypes as RegisterCpuKernels().
// AlreadyExists: `registry` has CPU kernels already.
absl::Status RegisterPortableKernels(KernelRegistry& registry);

}  // namespace cotan

#endif  // COTAN_KERNELS_CPU_REGISTER_PORTABLE_H_
