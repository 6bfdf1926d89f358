// SPDX-License-Identifier: Apache-2.0

// The memory of a simulated device, as the PTX interpreter sees it.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_GLOBAL_MEMORY_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_GLOBAL_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cotan::cuda::ptx {

// One access of one thread to global memory.
struct GlobalAccess {
  uint64_t address = 0;  // Device address of the first byte; a multiple of `size`.
  uint32_t size = 0;     // In bytes: 1, 2, 4, 8, 16 or 32.
  uint64_t block = 0;    // Linear index of the block within the grid, x fastest.
  uint32_t thread = 0;   // Linear index of the thread within the block, x fastest.
  int line = 0;          // Line of the PTX text.
};

// Memory that the interpreter may access without a call, checking bounds and `written` itself.
struct GlobalBlock {
  uint64_t address = 0;  // Device address of content[0].
  uint64_t bytes = 0;
  std::byte* content = nullptr;
  uint8_t* written = nullptr;  // [byte]: 1 where written, else 0.
};

// Holds the bytes of a device's allocations. Addresses are below 2^56; the interpreter keeps higher
// ones for the shared and local windows of generic addresses. The interpreter checks alignment and
// races; an implementation checks bounds, lifetime and whether bytes that are read were written.
// Errors are explained without the position, which the interpreter adds. Calls come from the thread
// that called Launch.
class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;

  // Copies the bytes of `access` to `to`. Fails with OutOfRange outside of the live allocations and
  // with FailedPrecondition if a byte was never written.
  virtual absl::Status Load(const GlobalAccess& access, std::byte* to) = 0;

  // Copies `from` to the bytes of `access`. Fails with OutOfRange outside of the live allocations.
  virtual absl::Status Store(const GlobalAccess& access, const std::byte* from) = 0;

  // Replaces the bytes of `access` (at most 8, as a little-endian number) by `update` of them and
  // returns the previous value. Fails like Load.
  virtual absl::StatusOr<uint64_t> Atomic(const GlobalAccess& access, absl::FunctionRef<uint64_t(uint64_t)> update) = 0;

  // Returns whether the memory at `address` may be accessed directly, and sets `block`, valid until the launch ends.
  // Accesses that fail the checks are made again by Load or Store, for their message.
  virtual bool FindBlock(uint64_t address, GlobalBlock& block) { return false; }
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_GLOBAL_MEMORY_H_
