// SPDX-License-Identifier: Apache-2.0

// Finds unordered accesses of two threads to one byte.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_RACE_DETECTOR_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_RACE_DETECTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace cotan::cuda::ptx {

// When and by whom an access is made.
struct AccessPoint {
  uint64_t block = 0;        // Linear index within the grid.
  uint32_t thread = 0;       // Linear index within the block.
  uint32_t block_epoch = 1;  // Number of block barriers before, plus 1; 0 means no access.
  uint32_t warp_epoch = 0;   // Number of warp barriers (bar.warp.sync) of the thread's warp before.
  int line = 0;              // Line of the PTX text.
  bool strong = false;       // An atomic, volatile, relaxed, acquire or release access.
};

// Records accesses of one launch. Two accesses to one byte of which one writes are a race unless
// - one thread makes both, or both are strong;
// - both are in one block with a block barrier between them, or in one warp with a warp barrier between;
// - their blocks are ordered by a strong write after a fence in the first and a strong read of the
//   same address before a fence in the second.
// Barriers of some threads of a block count for all, and a fence of a thread counts for its block,
// so that races that hide behind these are not seen. A bulk of accesses to the same byte is
// represented by the last write and two reads.
class RaceDetector {
 public:
  enum class Kind { kRead, kReadOnly, kWrite };  // kReadOnly is ld.global.nc.

  // Records an access and fails with FailedPrecondition if it races with a previous one, or writes
  // a byte that the launch reads with kReadOnly or the reverse.
  absl::Status Access(uint64_t address, uint32_t size, Kind kind, const AccessPoint& point);

  // Records a fence of at least device scope.
  void Fence(uint64_t block);
  // Records a strong access for the order of blocks.
  void Synchronize(uint64_t address, uint64_t block, bool reads, bool writes);

  // Forgets all.
  void Clear();

 private:
  struct Cell {
    AccessPoint write = {.block_epoch = 0};
    AccessPoint reads[2] = {{.block_epoch = 0}, {.block_epoch = 0}};
    int read_only_line = 0;
  };
  static constexpr int kPageBytes = 256;
  struct Page {
    bool bytewise = false;  // One cell a byte instead of one for 4.
    std::vector<Cell> cells;
  };

  Page& PageAt(uint64_t number);
  absl::Status AccessCell(Cell& cell, Kind kind, const AccessPoint& point);
  void RecordRead(Cell& cell, const AccessPoint& point) const;
  bool IsOrdered(const AccessPoint& before, const AccessPoint& after) const;
  bool IsAcquired(uint64_t by, uint64_t block) const;

  absl::flat_hash_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t cached_number_ = ~uint64_t{0};
  Page* cached_ = nullptr;
  absl::flat_hash_map<uint64_t, absl::flat_hash_set<uint64_t>> released_;  // Address -> blocks.
  absl::flat_hash_set<uint64_t> fenced_;                                   // Blocks.
  absl::flat_hash_map<uint64_t, absl::flat_hash_set<uint64_t>> observed_;  // Block -> addresses.
  absl::flat_hash_map<uint64_t, absl::flat_hash_set<uint64_t>> acquired_;  // Block -> addresses.
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_RACE_DETECTOR_H_
