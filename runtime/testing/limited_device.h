// SPDX-License-Identifier: Apache-2.0

// The host as a device that counts its bytes, and whose allocations fail as a test specifies.
#ifndef COTAN_RUNTIME_TESTING_LIMITED_DEVICE_H_
#define COTAN_RUNTIME_TESTING_LIMITED_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace cotan::testing {

class LimitedDevice : public Device {
 public:
  DeviceType type() const override { return DeviceType::kCpu; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    ++num_allocations_;
    if (allocations_left_-- == 0 || bytes > bytes_left_) return absl::ResourceExhaustedError("limited device");
    absl::StatusOr<void*> memory = HostDevice().Allocate(bytes);
    if (memory.ok()) bytes_left_ -= bytes, live_bytes_ += static_cast<int64_t>(bytes);
    return memory;
  }
  void Free(void* memory, size_t bytes) override {
    if (memory != nullptr) bytes_left_ += bytes, live_bytes_ -= static_cast<int64_t>(bytes);
    HostDevice().Free(memory, bytes);
  }
  absl::Status CopyFromHost(void* to, const void* from, size_t bytes) override { return Copy(to, from, bytes); }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override { return Copy(to, from, bytes); }
  absl::Status Copy(void* to, const void* from, size_t bytes) override { return HostDevice().Copy(to, from, bytes); }
  absl::Status Synchronize() override { return absl::OkStatus(); }

  // Makes the allocation after the next `count` ones fail; later ones succeed again.
  void FailAfter(int count) { allocations_left_ = count; }
  void LimitBytes(size_t bytes) { bytes_left_ = bytes; }
  int num_allocations() const { return num_allocations_; }
  // Returns the bytes that are allocated and not freed.
  int64_t live_bytes() const { return live_bytes_; }
  // Returns true if the allocation of FailAfter() has failed.
  bool has_failed() const { return allocations_left_ < 0; }

 private:
  int allocations_left_ = std::numeric_limits<int>::max();
  size_t bytes_left_ = std::numeric_limits<size_t>::max() / 2;
  int num_allocations_ = 0;
  int64_t live_bytes_ = 0;
};

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_LIMITED_DEVICE_H_
