// SPDX-License-Identifier: Apache-2.0

// The kernels that both sets of CPU kernels share.
#ifndef COTAN_KERNELS_CPU_REGISTER_OWN_KERNELS_H_
#define COTAN_KERNELS_CPU_REGISTER_OWN_KERNELS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/api/registry.h"

namespace cotan::cpu {

// A factory with the op and the dtypes that it is registered for.
struct KernelEntry {
  OpKind kind;
  absl::Span<const DType> dtypes;
  KernelFactory factory;
};

// Registers all `entries` for the CPU.
// AlreadyExists: `registry` already has a CPU kernel for one of them.
absl::Status RegisterEntries(absl::Span<const KernelEntry> entries, KernelRegistry& registry);

// Registers all kernels that do not use oneDNN: expressions, copies, pools, sort, scan, indexing, attention,
// recurrent layers, and matrix products and convolutions of dtypes that oneDNN lacks. The caller registers
// the products of f32, bf16 and f16.
// AlreadyExists: `registry` already has a CPU kernel for one of them.
absl::Status RegisterOwnKernels(KernelRegistry& registry);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_REGISTER_OWN_KERNELS_H_
