// SPDX-License-Identifier: Apache-2.0

// A CUDA GPU as a Device.
#ifndef COTAN_KERNELS_CUDA_CUDA_DEVICE_H_
#define COTAN_KERNELS_CUDA_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace cotan::cuda {

// One GPU with one stream, on which all work is queued in order. Not thread-safe. Example:
//
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Create());
//   COTAN_ASSIGN_OR_RETURN(void* memory, device->Allocate(bytes));
class CudaDevice final : public Device {
 public:
  // Opens GPU number `ordinal`, counted among those that CUDA_VISIBLE_DEVICES leaves visible.
  // Unavailable: there is no GPU or no driver, or the driver is too old.
  // InvalidArgument: `ordinal` is not below the number of visible GPUs.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(int ordinal = 0);

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  // Waits for queued work; ignores its errors, which Synchronize() reports.
  ~CudaDevice() override;

  DeviceType type() const override { return DeviceType::kCuda; }

  // Allocates memory aligned to 256 bytes.
  absl::StatusOr<void*> Allocate(size_t bytes) override;
  void Free(void* memory, size_t bytes) override;
  absl::Status CopyFromHost(void* to, const void* from, size_t bytes) override;
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override;
  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  absl::Status Synchronize() override;

  // Makes this GPU the current device of the calling thread (cudaSetDevice). Kernels call it before they
  // queue work.
  absl::Status Activate();
  cudaStream_t stream() const { return stream_; }

 private:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}

  int ordinal_;
  cudaStream_t stream_ = nullptr;
};

// Returns `device` as a CudaDevice.
// InvalidArgument: `device` is null or not a CUDA device.
absl::StatusOr<CudaDevice*> AsCudaDevice(Device* device);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUDA_DEVICE_H_
