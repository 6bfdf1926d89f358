// SPDX-License-Identifier: Apache-2.0

// Finds unordered accesses of two threads to one byte.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_RACE_DETECTOR_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_RACE_DETECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

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
  int line : 31 = 0;         // Line of the PTX text.
  bool strong : 1 = false;   // An atomic, volatile, relaxed, acquire or release access.
};

// Records accesses of one launch. Two accesses to one byte of which one writes are a race unless
// - one thread makes both, or both are strong;
// - both are in one block with a block barrier between them, or in one warp with a warp barrier between;
// - their blocks are ordered by a strong write after a fence in the first and a later strong read of the
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

  // The same for `lanes` consecutive threads that access consecutive aligned elements of `size` bytes, a
  // power of two up to 32. `point` is that of the first; `lane` gets the number of the one that fails.
  absl::Status AccessRun(uint64_t address, uint32_t size, int lanes, Kind kind, const AccessPoint& point, int& lane);

  // The same for the lanes of `mask`, which are consecutive threads that access `size` bytes at `addresses`, by lane.
  // `point` is that of lane 0.
  absl::Status AccessLanes(const uint64_t* addresses, uint32_t size, uint32_t mask, Kind kind, const AccessPoint& point,
                           int& lane);

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
  // When the threads of a run made an access; block_epoch 0 means never.
  struct Stamp {
    uint32_t block_epoch = 0;
    uint32_t warp_epoch = 0;
    int line = 0;
  };
  static constexpr uint32_t kPageBytes = 64;
  enum class PageState : uint8_t {
    kEmpty,
    kRun,    // Accessed by runs only, always the same thread for each byte: no cells are needed.
    kCells,  // One cell for 4 bytes, or for each if `bytewise`.
  };
  struct Page {
    uint32_t generation = 0;  // Of the detector; the page is empty if it differs.
    PageState state = PageState::kEmpty;
    bool bytewise = false;
    uint8_t shift = 0;  // Of kRun: log2 of the bytes of an element.
    // For kCells: nothing is written, and all cells have reads of the same two blocks.
    bool saturated = false;
    bool read_only = false;      // Of a saturated page: all cells have a read_only_line.
    uint32_t settled_epoch = 0;  // Of kCells: the block epoch of settled_block that the following two are of.
    uint64_t settled_block = 0;
    uint64_t settled = 0;            // Bytes, of which further reads in the epoch add nothing; see IsSettled().
    uint64_t settled_read_only = 0;  // Those with a read_only_line.
    uint32_t first_thread = 0;       // Of kRun.
    uint64_t block = 0;              // Of kRun, or the first one that a saturated page has reads of.
    uint64_t other_block = 0;        // Of a saturated page: the second one.
    Stamp write, read;               // Of kRun.
    int read_only_line = 0;          // Of kRun.
    std::unique_ptr<Cell[]> cells;
  };
  static constexpr uint64_t kNoPage = ~uint64_t{0};
  static constexpr uint64_t kChunkPages = 64;
  struct Chunk {
    Page pages[kChunkPages];
  };

  Page& PageAt(uint64_t number) {
    if (number != last_number_) {
      last_page_ = &FindPage(number);
      last_number_ = number;
    }
    return *last_page_;
  }
  Page& FindPage(uint64_t number);
  // Access() within a page.
  absl::Status AccessPage(Page& page, uint64_t address, uint32_t size, Kind kind, const AccessPoint& point);
  // Returns true if a cell has reads of two blocks, so that those of a third one add nothing.
  static bool IsReadByTwo(const Cell& cell);
  // Returns true if reads by `point` of the bytes with a bit in `bytes` are known to add nothing.
  static bool IsSettled(const Page& page, uint64_t bytes, Kind kind, const AccessPoint& point);
  // Sees whether a read by `point` left the cell at `bytes` settled.
  static void Settle(Page& page, const Cell& cell, uint64_t bytes, const AccessPoint& point);
  // Records a run over a whole page and returns true, if that needs no cells.
  bool RunPage(Page& page, uint8_t shift, Kind kind, const AccessPoint& first);
  // Gives the page cells, one a byte if `bytewise`.
  static void Expand(Page& page, bool bytewise);
  // Sees whether a page with cells can be simplified after a run over all of it.
  static void Simplify(Page& page, uint8_t shift, Kind kind, const AccessPoint& first);
  absl::Status AccessCell(Cell& cell, Kind kind, const AccessPoint& point);
  void RecordRead(Cell& cell, const AccessPoint& point) const;
  bool IsOrdered(const AccessPoint& before, const AccessPoint& after) const;
  bool IsAcquired(uint64_t by, uint64_t block) const;

  static constexpr size_t kCachedChunks = 16;
  struct CachedChunk {
    uint64_t number = ~uint64_t{0};
    Chunk* chunk = nullptr;
  };
  absl::flat_hash_map<uint64_t, std::unique_ptr<Chunk>> chunks_;
  CachedChunk cache_[kCachedChunks];
  uint64_t last_number_ = kNoPage;  // The page that was accessed last.
  Page* last_page_ = nullptr;
  uint32_t generation_ = 1;
  // Numbers of calls of Synchronize().
  using Times = absl::flat_hash_map<uint64_t, uint64_t>;
  uint64_t time_ = 0;
  absl::flat_hash_map<uint64_t, Times> released_;  // Address -> block -> first write after a fence.
  absl::flat_hash_set<uint64_t> fenced_;           // Blocks.
  absl::flat_hash_map<uint64_t, Times> observed_;  // Block -> address -> last read.
  absl::flat_hash_map<uint64_t, Times> acquired_;  // Block -> address -> last read before a fence.
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_RACE_DETECTOR_H_
