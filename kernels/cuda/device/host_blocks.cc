// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/host_blocks.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cotan::cuda {

absl::StatusOr<void*> HostBlocks::Allocate(size_t bytes) {
  if (const auto found = kept_.lower_bound(bytes); found != kept_.end() && found->first - bytes <= found->first / 8) {
    const auto [size, block] = *found;
    kept_.erase(found);
    in_use_[block] = size;
    return block;
  }
  void* block = nullptr;
  driver::CUresult result = driver_.cuMemHostAlloc(&block, bytes, 0);
  if (result == driver::CUDA_ERROR_OUT_OF_MEMORY && !kept_.empty()) {
    Trim();
    result = driver_.cuMemHostAlloc(&block, bytes, 0);
  }
  if (result == driver::CUDA_ERROR_OUT_OF_MEMORY) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has not enough memory to pin: ", bytes, " bytes needed for values that are kept there"));
  }
  if (result != driver::CUDA_SUCCESS) {
    return driver_.ToStatus(result, absl::StrCat("cuMemHostAlloc of ", bytes, " bytes"));
  }
  in_use_[block] = bytes;
  return block;
}

void HostBlocks::Free(void* block) {
  const auto found = in_use_.find(block);
  if (found == in_use_.end()) return;
  kept_.emplace(found->second, block);
  in_use_.erase(found);
  if (!keeps_blocks_) Trim();
}

void HostBlocks::Trim() {
  if (kept_.empty()) return;
  static_cast<void>(driver_.cuStreamSynchronize(stream_));
  for (const auto& [size, block] : kept_) static_cast<void>(driver_.cuMemFreeHost(block));
  kept_.clear();
}

}  // namespace cotan::cuda
