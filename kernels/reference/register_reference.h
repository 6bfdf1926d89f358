#ifndef COTAN_KERNELS_REFERENCE_REGISTER_REFERENCE_H_
#define COTAN_KERNELS_REFERENCE_REGISTER_REFERENCE_H_

#include "absl/status/status.h"
#include "kernels/api/registry.h"

namespace cotan {

// Registers the slow reference kernels of every op for DeviceType::kCpu.
// AlreadyExists if another CPU backend is registered.
absl::Status RegisterReferenceKernels(KernelRegistry& registry);

}  // namespace cotan

#endif  // COTAN_KERNELS_REFERENCE_REGISTER_REFERENCE_H_
