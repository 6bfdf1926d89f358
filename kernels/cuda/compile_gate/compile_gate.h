// SPDX-License-Identifier: Apache-2.0

// Registers, spills and memory of compiled kernels, for tests that bound them: a GPU is not needed.
#ifndef COTAN_KERNELS_CUDA_COMPILE_GATE_COMPILE_GATE_H_
#define COTAN_KERNELS_CUDA_COMPILE_GATE_COMPILE_GATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Resources of a kernel as ptxas reports them. Memory is in bytes, per thread unless stated otherwise.
struct KernelResources {
  std::string entry;
  int compute_capability = 0;  // as nvrtc::CompileTarget
  int registers = 0;
  // Local memory: arrays that are indexed at run time, and spilled registers.
  int64_t stack_frame = 0;
  int64_t spill_stores = 0;
  int64_t spill_loads = 0;
  int64_t static_shared = 0;  // per block
};

// The compute capabilities whose machine code differs: A100, H100, B200, RTX 50.
inline constexpr int kGateComputeCapabilities[] = {80, 90, 100, 120};

// Compiles `source` with NVRTC to PTX and with ptxas to machine code of each of `compute_capabilities`. Returns one
// element per kernel of the text and compute capability.
// Unavailable: NVRTC or ptxas is not installed.
// Internal: the text has errors; the message has the compiler's log.
// InvalidArgument: an include of a file that the device library lacks.
absl::StatusOr<std::vector<KernelResources>> CompileForArchitectures(
    const KernelSource& source, absl::Span<const int> compute_capabilities = kGateComputeCapabilities);

// Limits of what a kernel needs, per thread.
struct ResourceBounds {
  int registers = 255;
  int64_t stack_frame = 0;  // bytes
  int64_t spills = 0;       // bytes of stores, and of loads
};

// Checks that no kernel needs more than `bounds`.
// ResourceExhausted: one does; the message has all that do.
absl::Status CheckResources(absl::Span<const KernelResources> resources, const ResourceBounds& bounds);

// As above, without spills and stack frames.
inline absl::Status CheckResources(absl::Span<const KernelResources> resources, int max_registers) {
  return CheckResources(resources, ResourceBounds{.registers = max_registers});
}

// Returns the resources of the kernels that `log`, the output of ptxas -v, describes.
// Internal: the log has no kernel, or an unknown form.
absl::StatusOr<std::vector<KernelResources>> ParsePtxasLog(absl::string_view log, int compute_capability);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COMPILE_GATE_COMPILE_GATE_H_
