// The kernels that both sets of CPU kernels share.
#ifndef COTAN_KERNELS_CPU_REGISTER_OWN_KERNELS_H_
#define COTAN_KERNELS_CPU_REGISTER_OWN_KERNELS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/api/registry.h"

namespace cotan::cpu {

// A line of a backend's list: one factory for some dtypes.
struct KernelEntry {
  OpKind kind;
  absl::Span<const DType> dtypes;
  KernelFactory factory;
};

// AlreadyExists: a CPU kernel for one of them is there.
absl::Status RegisterEntries(absl::Span<const KernelEntry> entries, KernelRegistry& registry);

// All kernels in own code: expressions, copies, pools, indexing, attention, and
// products of what oneDNN has no types for. All ops but products of f32.
// AlreadyExists: as above.
absl::Status RegisterPortableFamilyKernels(KernelRegistry& registry);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_REGISTER_OWN_KERNELS_H_
