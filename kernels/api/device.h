// SPDX-License-Identifier: Apache-2.0

// The interface of a device: its memory and its queue of work. Code outside kernels/ does not assume host
// pointers.
#ifndef COTAN_KERNELS_API_DEVICE_H_
#define COTAN_KERNELS_API_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan {

enum class DeviceType : uint8_t { kCpu = 0, kCuda = 1 };

// Returns "cpu" or "cuda".
absl::string_view DeviceTypeName(DeviceType type);

// One device. Outlives every session that uses it. Not thread-safe unless a subclass says so.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceType type() const = 0;

  // Allocates `bytes` > 0 bytes, aligned to at least 64 bytes, with undefined content.
  // ResourceExhausted: the device has not enough memory; the message gives `bytes`.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // Frees memory from Allocate() with the same `bytes`. `memory` may be null.
  virtual void Free(void* memory, size_t bytes) = 0;

  // Copy between host and device, ordered after all work queued before. The host memory may be reused when
  // they return.
  virtual absl::Status CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  // Copies within the device, ordered like a kernel. The ranges do not overlap.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;

  // Waits until all queued work is done.
  // Internal: the work failed; the message is the vendor's.
  virtual absl::Status Synchronize() = 0;
};

// Returns the host as a device: Allocate() is aligned operator new (nothrow), copies are memcpy,
// Synchronize() does nothing. Thread-safe. Never destroyed.
Device& HostDevice();

}  // namespace cotan

#endif  // COTAN_KERNELS_API_DEVICE_H_
