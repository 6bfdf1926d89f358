// SPDX-License-Identifier: Apache-2.0

// Device memory that is kept when it is freed, because cuMemFree waits for the device.
#ifndef COTAN_KERNELS_CUDA_DEVICE_MEMORY_CACHE_H_
#define COTAN_KERNELS_CUDA_DEVICE_MEMORY_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// Allocates blocks for work on one stream: a freed block is given out again at once, since the work that uses it next
// is queued behind the work that used it before. Not thread-safe. The context is current in each call.
class MemoryCache {
 public:
  // `keeps_blocks` = false: Free() waits for `stream` and frees, for checkers of memory.
  MemoryCache(const driver::DriverTable& driver, driver::CUstream stream, bool keeps_blocks)
      : driver_(driver), stream_(stream), keeps_blocks_(keeps_blocks) {}
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;
  // Frees the kept blocks. The stream is idle.
  ~MemoryCache();

  // Returns `bytes` > 0 bytes, aligned to 256. A kept block is used if it wastes at most an eighth of itself.
  // ResourceExhausted: the device has not enough memory after all kept blocks were freed; the message has the bytes
  // needed, free and in use.
  absl::StatusOr<driver::CUdeviceptr> Allocate(size_t bytes);
  // Frees a block of Allocate().
  void Free(driver::CUdeviceptr block);

  size_t bytes_in_use() const { return bytes_in_use_; }
  size_t bytes_kept() const { return bytes_kept_; }

 private:
  // Frees all kept blocks, after waiting for the stream.
  void Trim();

  const driver::DriverTable& driver_;
  const driver::CUstream stream_;
  const bool keeps_blocks_;
  std::multimap<size_t, driver::CUdeviceptr> kept_;          // by size
  absl::flat_hash_map<driver::CUdeviceptr, size_t> in_use_;  // size by address
  size_t bytes_in_use_ = 0;
  size_t bytes_kept_ = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_MEMORY_CACHE_H_
