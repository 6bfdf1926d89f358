// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cuda_device.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/status.h"

namespace cotan::cuda {

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(int ordinal) {
  int count = 0;
  if (absl::Status status = ToStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount(&count)"); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("no CUDA device can be used: ", status.message(),
                                                    ". Install an NVIDIA driver for CUDA ", CUDART_VERSION / 1000,
                                                    ", or run on the CPU."));
  }
  if (count == 0) {
    return absl::UnavailableError("no CUDA device is visible: look at CUDA_VISIBLE_DEVICES, or run on the CPU");
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA device ", ordinal, " does not exist: ", count, " visible, counted from 0"));
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
  COTAN_RETURN_IF_ERROR(device->Activate());
  COTAN_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking));
  return device;
}

CudaDevice::~CudaDevice() {
  // Errors of queued work are ignored: Synchronize() reports them.
  if (stream_ == nullptr || !Activate().ok()) return;
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

absl::Status CudaDevice::Activate() { return ToStatus(cudaSetDevice(ordinal_), "cudaSetDevice(ordinal)"); }

absl::StatusOr<void*> CudaDevice::Allocate(size_t bytes) {
  COTAN_RETURN_IF_ERROR(Activate());
  void* memory = nullptr;
  if (cudaError_t result = cudaMalloc(&memory, bytes); result != cudaSuccess) {
    // Clears the error, which the next launch would otherwise report again.
    static_cast<void>(cudaGetLastError());
    return ToStatus(result, absl::StrCat("cudaMalloc of ", bytes, " bytes"));
  }
  return memory;
}

void CudaDevice::Free(void* memory, size_t /*bytes*/) {
  if (memory == nullptr || !Activate().ok()) return;
  static_cast<void>(cudaFree(memory));
}

absl::Status CudaDevice::CopyFromHost(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Activate());
  COTAN_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
  return Synchronize();
}

absl::Status CudaDevice::CopyToHost(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Activate());
  COTAN_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
  return Synchronize();
}

absl::Status CudaDevice::Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Activate());
  COTAN_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  return absl::OkStatus();
}

absl::Status CudaDevice::Synchronize() {
  COTAN_RETURN_IF_ERROR(Activate());
  COTAN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::StatusOr<CudaDevice*> AsCudaDevice(Device* device) {
  if (device == nullptr || device->type() != DeviceType::kCuda) {
    return absl::InvalidArgumentError(absl::StrCat("CUDA kernels need a CUDA device, got ",
                                                   device == nullptr ? "the host" : DeviceTypeName(device->type()),
                                                   ": create the session on a CudaDevice"));
  }
  return static_cast<CudaDevice*>(device);
}

}  // namespace cotan::cuda
