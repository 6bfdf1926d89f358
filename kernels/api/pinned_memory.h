// SPDX-License-Identifier: Apache-2.0

// Host memory that a device copies to and from without the host.
#ifndef COTAN_KERNELS_API_PINNED_MEMORY_H_
#define COTAN_KERNELS_API_PINNED_MEMORY_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace cotan {

// Page-locked host memory of a device that queues work (CUDA: cuMemHostAlloc), and copies that are queued like kernels.
// Nothing here waits for the device. Not thread-safe.
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;

  // Returns the device that makes the copies.
  virtual Device& device() = 0;

  // Allocates `bytes` > 0 bytes of host memory with undefined content, aligned to at least 64 bytes. Freed memory is
  // kept for later calls. ResourceExhausted: the host has not enough memory; the message gives `bytes`.
  virtual absl::StatusOr<void*> AllocateHost(size_t bytes) = 0;
  // Frees memory of AllocateHost(), which may be null. Copies that were queued before are not disturbed.
  virtual void FreeHost(void* memory) = 0;

  // Queue a copy of `bytes` bytes between the device and memory of AllocateHost(). The host may read or write this
  // memory after device().Synchronize() only. Internal: the device failed.
  virtual absl::Status QueueCopyToHost(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status QueueCopyToDevice(void* to, const void* from, size_t bytes) = 0;
};

}  // namespace cotan

#endif  // COTAN_KERNELS_API_PINNED_MEMORY_H_
