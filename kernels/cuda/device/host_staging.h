// SPDX-License-Identifier: Apache-2.0

// Memory through which pageable memory of the host is copied to and from the device.
#ifndef COTAN_KERNELS_CUDA_DEVICE_HOST_STAGING_H_
#define COTAN_KERNELS_CUDA_DEVICE_HOST_STAGING_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// Slots of kBytes in pinned memory and on the device, made at first use. A copy to the device crosses the bus in a
// stream of its own, while earlier work of the main stream still runs, and the main stream then moves it to its place:
// a bus transfer within the main stream would leave the GPU idle. Not thread-safe. The context is current in each call.
class HostStaging {
 public:
  static constexpr size_t kBytes = size_t{512} << 10;
  static constexpr size_t kSlots = 16;

  HostStaging(const driver::DriverTable& driver, driver::CUstream stream) : driver_(driver), stream_(stream) {}
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;
  // The stream is idle.
  ~HostStaging();

  // Queues a copy in the order of the stream; `from` may change when it returns. Waits only if all slots are in use.
  // ResourceExhausted: no pinned or device memory. Internal: the driver failed.
  absl::Status CopyToDevice(driver::CUdeviceptr to, const void* from, size_t bytes);
  // Copies after all queued work, and waits. Errors as CopyToDevice(), and those of queued work.
  absl::Status CopyToHost(void* to, driver::CUdeviceptr from, size_t bytes);

 private:
  struct Slot {
    driver::CUevent arrived = nullptr;  // on the device
    driver::CUevent moved = nullptr;    // to its place
    bool in_use = false;
  };

  absl::Status Create();
  // Copies at most kBytes.
  absl::Status CopyPiece(driver::CUdeviceptr to, const void* from, size_t bytes);

  const driver::DriverTable& driver_;
  const driver::CUstream stream_;
  driver::CUstream transfers_ = nullptr;
  char* pinned_ = nullptr;             // kSlots * kBytes
  driver::CUdeviceptr on_device_ = 0;  // as many
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_HOST_STAGING_H_
