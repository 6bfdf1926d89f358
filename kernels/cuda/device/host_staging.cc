// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/host_staging.h"

#include <algorithm>
#include <cstring>

namespace cotan::cuda {

HostStaging::~HostStaging() {
  for (const Slot& slot : slots_) {
    if (slot.arrived != nullptr) static_cast<void>(driver_.cuEventDestroy_v2(slot.arrived));
    if (slot.moved != nullptr) static_cast<void>(driver_.cuEventDestroy_v2(slot.moved));
  }
  if (transfers_ != nullptr) static_cast<void>(driver_.cuStreamDestroy_v2(transfers_));
  if (on_device_ != 0) static_cast<void>(driver_.cuMemFree_v2(on_device_));
  if (pinned_ != nullptr) static_cast<void>(driver_.cuMemFreeHost(pinned_));
}

absl::Status HostStaging::Create() {
  if (pinned_ == nullptr) {
    void* memory = nullptr;
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemHostAlloc(&memory, kSlots * kBytes, 0));
    pinned_ = static_cast<char*>(memory);
  }
  if (on_device_ == 0) COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemAlloc_v2(&on_device_, kSlots * kBytes));
  if (transfers_ == nullptr) {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamCreate(&transfers_, driver::CU_STREAM_NON_BLOCKING));
  }
  for (Slot& slot : slots_) {
    for (driver::CUevent* const event : {&slot.arrived, &slot.moved}) {
      if (*event != nullptr) continue;
      COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventCreate(event, driver::CU_EVENT_DISABLE_TIMING));
    }
  }
  return absl::OkStatus();
}

absl::Status HostStaging::CopyPiece(driver::CUdeviceptr to, const void* from, size_t bytes) {
  Slot& slot = slots_[next_];
  char* const pinned = pinned_ + next_ * kBytes;
  const driver::CUdeviceptr on_device = on_device_ + next_ * kBytes;
  next_ = (next_ + 1) % kSlots;
  if (slot.in_use) COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventSynchronize(slot.moved));
  slot.in_use = true;
  std::memcpy(pinned, from, bytes);
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemcpyHtoDAsync_v2(on_device, pinned, bytes, transfers_));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventRecord(slot.arrived, transfers_));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamWaitEvent(stream_, slot.arrived, 0));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemcpyDtoDAsync_v2(to, on_device, bytes, stream_));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventRecord(slot.moved, stream_));
  return absl::OkStatus();
}

absl::Status HostStaging::CopyToDevice(driver::CUdeviceptr to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Create());
  for (size_t at = 0; at < bytes; at += kBytes) {
    COTAN_RETURN_IF_ERROR(CopyPiece(to + at, static_cast<const char*>(from) + at, std::min(kBytes, bytes - at)));
  }
  return absl::OkStatus();
}

absl::Status HostStaging::CopyToHost(void* to, driver::CUdeviceptr from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Create());
  constexpr size_t kPiece = kSlots * kBytes;
  for (size_t at = 0; at < bytes; at += kPiece) {
    const size_t size = std::min(kPiece, bytes - at);
    // The stream has waited for all transfers that read the pinned memory.
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemcpyDtoHAsync_v2(pinned_, from + at, size, stream_));
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamSynchronize(stream_));
    std::memcpy(static_cast<char*>(to) + at, pinned_, size);
  }
  for (Slot& slot : slots_) slot.in_use = false;
  return absl::OkStatus();
}

}  // namespace cotan::cuda
