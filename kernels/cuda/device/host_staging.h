// SPDX-License-Identifier: Apache-2.0

// Pinned host memory through which pageable memory is copied to and from the device.
#ifndef COTAN_KERNELS_CUDA_DEVICE_HOST_STAGING_H_
#define COTAN_KERNELS_CUDA_DEVICE_HOST_STAGING_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// Two buffers of kBytes, made at first use. Not thread-safe. The context is current in each call.
class HostStaging {
 public:
  static constexpr size_t kBytes = size_t{4} << 20;

  HostStaging(const driver::DriverTable& driver, driver::CUstream stream) : driver_(driver), stream_(stream) {}
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;
  // The stream is idle.
  ~HostStaging();

  // Queues a copy; `from` may change when it returns. Waits only if both buffers are in use.
  // ResourceExhausted: no pinned memory. Internal: the driver failed.
  absl::Status CopyToDevice(driver::CUdeviceptr to, const void* from, size_t bytes);
  // Copies after all queued work, and waits. Errors as CopyToDevice(), and those of queued work.
  absl::Status CopyToHost(void* to, driver::CUdeviceptr from, size_t bytes);

 private:
  struct Buffer {
    void* memory = nullptr;
    driver::CUevent copied = nullptr;
    bool in_use = false;
  };

  // Returns the next buffer once its last copy has ended.
  absl::Status Next(Buffer*& buffer);

  const driver::DriverTable& driver_;
  const driver::CUstream stream_;
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_HOST_STAGING_H_
