// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/memory_cache.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cotan::cuda {
namespace {

constexpr size_t kGranule = 512;

size_t Rounded(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

}  // namespace

MemoryCache::~MemoryCache() { Trim(); }

absl::StatusOr<driver::CUdeviceptr> MemoryCache::Allocate(size_t bytes) {
  const size_t size = keeps_blocks_ ? Rounded(bytes) : bytes;
  if (const auto found = kept_.lower_bound(size); found != kept_.end() && found->first - size <= found->first / 8) {
    const auto [kept_size, block] = *found;
    kept_.erase(found);
    bytes_kept_ -= kept_size;
    bytes_in_use_ += kept_size;
    in_use_[block] = kept_size;
    return block;
  }
  driver::CUdeviceptr block = 0;
  driver::CUresult result = driver_.cuMemAlloc_v2(&block, size);
  if (result == driver::CUDA_ERROR_OUT_OF_MEMORY && !kept_.empty()) {
    Trim();
    result = driver_.cuMemAlloc_v2(&block, size);
  }
  if (result == driver::CUDA_ERROR_OUT_OF_MEMORY) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    static_cast<void>(driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    return absl::ResourceExhaustedError(absl::StrCat("the CUDA device has not enough memory: ", bytes,
                                                     " bytes needed, ", free_bytes, " of ", total_bytes, " free, ",
                                                     bytes_in_use_, " in use here"));
  }
  if (result != driver::CUDA_SUCCESS) {
    return driver_.ToStatus(result, absl::StrCat("cuMemAlloc_v2 of ", size, " bytes"));
  }
  in_use_[block] = size;
  bytes_in_use_ += size;
  return block;
}

void MemoryCache::Free(driver::CUdeviceptr block) {
  const auto found = in_use_.find(block);
  if (found == in_use_.end()) return;
  const size_t size = found->second;
  in_use_.erase(found);
  bytes_in_use_ -= size;
  kept_.emplace(size, block);
  bytes_kept_ += size;
  if (!keeps_blocks_) Trim();
}

void MemoryCache::Trim() {
  if (kept_.empty()) return;
  static_cast<void>(driver_.cuStreamSynchronize(stream_));
  for (const auto& [size, block] : kept_) static_cast<void>(driver_.cuMemFree_v2(block));
  kept_.clear();
  bytes_kept_ = 0;
}

}  // namespace cotan::cuda
