// SPDX-License-Identifier: Apache-2.0

// Pinned host memory of a simulated GPU, and checks of copies that are queued from and to it.
#ifndef COTAN_KERNELS_CUDA_SIM_HOST_MEMORY_H_
#define COTAN_KERNELS_CUDA_SIM_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::cuda::sim {

// Blocks of host memory. Freed ones stay reserved without access, so that a host access faults. Not thread-safe.
class HostMemory {
 public:
  // `on_leak` as DeviceMemory::Options::on_leak.
  explicit HostMemory(std::function<void(absl::string_view)> on_leak) : on_leak_(std::move(on_leak)) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  // Returns `bytes` > 0 bytes, aligned to a page, with a page without access behind their last page.
  // InvalidArgument: bytes is 0. ResourceExhausted: the host has no memory.
  absl::StatusOr<void*> Allocate(size_t bytes, absl::string_view label);

  // InvalidArgument: no live block starts at `memory`.
  absl::Status Free(void* memory);

  // Checks [memory, memory + bytes) as an operand of a copy. Memory that is not pinned passes if `pageable_allowed`.
  // FailedPrecondition: not pinned. OutOfRange: freed, or behind the end of its block.
  absl::Status Check(const void* memory, size_t bytes, bool pageable_allowed) const;

  // Returns whether `memory` is in a block, live or freed.
  bool IsPinned(const void* memory) const { return Find(memory) != nullptr; }

  // The bytes that a queued copy will read.
  struct Snapshot {
    const void* memory = nullptr;
    std::vector<std::byte> content;
    uint64_t device_writes = 0;  // Of the block when the snapshot was taken.
  };

  // Returns the bytes of pinned memory as they are when a copy is queued. Errors as Check().
  absl::StatusOr<Snapshot> Take(const void* memory, size_t bytes) const;

  // Checks, when the copy runs, that the host changed nothing since. Bytes of blocks that a copy from the device wrote
  // since are not compared.
  // FailedPrecondition: a byte differs; the message names the block and the offset. OutOfRange: the block was freed.
  absl::Status CheckUnchanged(const Snapshot& snapshot) const;

  // Notes that a copy from the device wrote to `memory`.
  void NoteDeviceWrite(const void* memory);

  // FailedPrecondition: there are live blocks; the message lists them.
  absl::Status CheckLeaks() const;

 private:
  struct Block {
    size_t bytes = 0;
    size_t mapped_bytes = 0;
    std::string label;
    bool live = true;
    uint64_t device_writes = 0;
  };

  // Returns the block whose pages have `memory`, freed ones too, or null.
  const std::pair<const uintptr_t, Block>* Find(const void* memory) const;

  std::function<void(absl::string_view)> on_leak_;
  std::map<uintptr_t, Block> blocks_;  // By address.
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_HOST_MEMORY_H_
