// SPDX-License-Identifier: Apache-2.0

// The interface of a device: its memory and its queue of work. Code outside kernels/ does not assume host
// pointers.
#ifndef COTAN_KERNELS_API_DEVICE_H_
#define COTAN_KERNELS_API_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::serialization {
class CudaKernels;  // program.proto
}  // namespace cotan::serialization

namespace cotan {

class PinnedMemory;  // pinned_memory.h

enum class DeviceType : uint8_t { kCpu = 0, kCuda = 1 };

// Returns "cpu" or "cuda".
absl::string_view DeviceTypeName(DeviceType type);

// Work that was recorded once and is queued again with the same addresses.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  // Queues the work, ordered like a kernel. Allocates nothing.
  // Internal: the device failed.
  virtual absl::Status Run() = 0;
};

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
  // InvalidArgument: data made an op fail since the last call (see queues_work()); the message names the first such op.
  // CopyToHost() returns this error as well; the one that returns it clears it.
  // Internal: the work failed; the message is the vendor's.
  virtual absl::Status Synchronize() = 0;

  // Notes kernels that were compiled ahead of time, for the plans made from then on; a device that has no use for them
  // ignores them. `segment` returns the bytes of a segment, which are copied.
  virtual void AddCompiledKernels(const serialization::CudaKernels& /*kernels*/,
                                  absl::FunctionRef<absl::string_view(uint32_t)> /*segment*/) {}

  // Returns true if kernels are queued and run later. Errors that data cause then do not come from Kernel::Run().
  virtual bool queues_work() const { return false; }

  // Returns the host memory that the device copies to and from in the order of its queue. It belongs to the device.
  // Null: there is none, because the device works in host memory.
  virtual PinnedMemory* pinned_memory() { return nullptr; }

  // Records the work that `queue` queues, which does not run. Null: the device does not record work, and `queue` was
  // not called. Errors of `queue`; Internal: it did what cannot be recorded, such as an allocation.
  virtual absl::StatusOr<std::unique_ptr<RecordedWork>> Record(absl::FunctionRef<absl::Status()> /*queue*/) {
    return std::unique_ptr<RecordedWork>();
  }
};

// Returns the host as a device: Allocate() is aligned operator new (nothrow), copies are memcpy,
// Synchronize() does nothing. Thread-safe. Never destroyed.
Device& HostDevice();

}  // namespace cotan

#endif  // COTAN_KERNELS_API_DEVICE_H_
