// Memory and execution of one device, so that nothing above kernels/ assumes
// host pointers.
#ifndef COTAN_KERNELS_API_DEVICE_H_
#define COTAN_KERNELS_API_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan {

enum class DeviceType : uint8_t { kCpu = 0, kCuda = 1 };

// "cpu", "cuda".
absl::string_view DeviceTypeName(DeviceType type);

// Outlives every session that uses it. Not thread-safe unless a method says so.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceType type() const = 0;

  // `bytes` > 0 of memory, aligned to at least 64 bytes, content undefined.
  // ResourceExhausted: not so much left; the message gives the bytes.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // `memory` comes from Allocate() with the same `bytes`; null is allowed.
  virtual void Free(void* memory, size_t bytes) = 0;

  // Ordered after all work queued before; the host memory may be reused when
  // they return.
  virtual absl::Status CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  // Within the device, ordered like a kernel. Ranges do not overlap.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;

  // Waits until all queued work is done.
  // Internal: the work failed; the message is the vendor's.
  virtual absl::Status Synchronize() = 0;
};

// The host as a device: Allocate is aligned operator new (nothrow), copies are
// memcpy, Synchronize does nothing. Thread-safe. Never destroyed.
Device& HostDevice();

}  // namespace cotan

#endif  // COTAN_KERNELS_API_DEVICE_H_
