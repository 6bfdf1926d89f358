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

// Memory of one GPU and one stream on it, to which all work is queued in
// order. Not thread-safe. Example:
//
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Create());
//   COTAN_ASSIGN_OR_RETURN(void* memory, device->Allocate(bytes));
class CudaDevice final : public Device {
 public:
  // `ordinal` counts the GPUs that CUDA_VISIBLE_DEVICES leaves visible.
  // Unavailable: there is no GPU, or no driver, or it is too old.
  // InvalidArgument: there are fewer GPUs.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(int ordinal = 0);

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  // Waits for queued work.
  ~CudaDevice() override;

  DeviceType type() const override { return DeviceType::kCuda; }

  // Aligned to 256 bytes.
  absl::StatusOr<void*> Allocate(size_t bytes) override;
  void Free(void* memory, size_t bytes) override;
  absl::Status CopyFromHost(void* to, const void* from, size_t bytes) override;
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override;
  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  absl::Status Synchronize() override;

  // Makes this the GPU that the calling thread's CUDA calls address. Kernels
  // do so before they queue work.
  absl::Status Activate();
  cudaStream_t stream() const { return stream_; }

 private:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}

  int ordinal_;
  cudaStream_t stream_ = nullptr;
};

// The device that a kernel is prepared for.
// InvalidArgument: `device` is null or no CUDA device.
absl::StatusOr<CudaDevice*> AsCudaDevice(Device* device);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUDA_DEVICE_H_
