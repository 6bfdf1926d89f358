// SPDX-License-Identifier: Apache-2.0

// Pinned host memory that is kept when it is freed, because cuMemHostAlloc is slow and cuMemFreeHost waits.
#ifndef COTAN_KERNELS_CUDA_DEVICE_HOST_BLOCKS_H_
#define COTAN_KERNELS_CUDA_DEVICE_HOST_BLOCKS_H_

#include <cstddef>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// Allocates blocks for copies on one stream: a freed block is given out again at once, since the copy that uses it next
// is queued behind those that used it before. Not thread-safe. The context is current in each call.
class HostBlocks {
 public:
  // `keeps_blocks` = false: Free() waits for `stream` and frees, for checkers of memory.
  HostBlocks(const driver::DriverTable& driver, driver::CUstream stream, bool keeps_blocks)
      : driver_(driver), stream_(stream), keeps_blocks_(keeps_blocks) {}
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;
  // Frees the kept blocks. The stream is idle.
  ~HostBlocks() { Trim(); }

  // Returns `bytes` > 0 bytes. A kept block is used if it wastes at most an eighth of itself.
  // ResourceExhausted: the host has not enough memory to pin, after all kept blocks were freed. Internal: the driver
  // failed.
  absl::StatusOr<void*> Allocate(size_t bytes);
  // Frees a block of Allocate().
  void Free(void* block);

 private:
  // Frees all kept blocks, after waiting for the stream.
  void Trim();

  const driver::DriverTable& driver_;
  const driver::CUstream stream_;
  const bool keeps_blocks_;
  std::multimap<size_t, void*> kept_;          // by size
  absl::flat_hash_map<void*, size_t> in_use_;  // size by address
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_HOST_BLOCKS_H_
