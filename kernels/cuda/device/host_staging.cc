// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/host_staging.h"

#include <algorithm>
#include <cstring>

namespace cotan::cuda {

HostStaging::~HostStaging() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.copied != nullptr) static_cast<void>(driver_.cuEventDestroy_v2(buffer.copied));
    if (buffer.memory != nullptr) static_cast<void>(driver_.cuMemFreeHost(buffer.memory));
  }
}

absl::Status HostStaging::Next(Buffer*& buffer) {
  buffer = &buffers_[next_];
  next_ = (next_ + 1) % buffers_.size();
  if (buffer->memory == nullptr) {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemHostAlloc(&buffer->memory, kBytes, 0));
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventCreate(&buffer->copied, driver::CU_EVENT_DISABLE_TIMING));
  }
  if (!buffer->in_use) return absl::OkStatus();
  buffer->in_use = false;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventSynchronize(buffer->copied));
  return absl::OkStatus();
}

absl::Status HostStaging::CopyToDevice(driver::CUdeviceptr to, const void* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t size = std::min(kBytes, bytes - at);
    Buffer* buffer = nullptr;
    COTAN_RETURN_IF_ERROR(Next(buffer));
    std::memcpy(buffer->memory, static_cast<const char*>(from) + at, size);
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemcpyHtoDAsync_v2(to + at, buffer->memory, size, stream_));
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventRecord(buffer->copied, stream_));
    buffer->in_use = true;
  }
  return absl::OkStatus();
}

absl::Status HostStaging::CopyToHost(void* to, driver::CUdeviceptr from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t size = std::min(kBytes, bytes - at);
    Buffer* buffer = nullptr;
    COTAN_RETURN_IF_ERROR(Next(buffer));
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemcpyDtoHAsync_v2(buffer->memory, from + at, size, stream_));
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamSynchronize(stream_));
    std::memcpy(static_cast<char*>(to) + at, buffer->memory, size);
  }
  return absl::OkStatus();
}

}  // namespace cotan::cuda
