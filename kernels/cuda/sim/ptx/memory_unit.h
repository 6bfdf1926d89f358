// SPDX-License-Identifier: Apache-2.0

// Executes the memory accesses of the threads of a block, with checks.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_MEMORY_UNIT_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_MEMORY_UNIT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/cuda/sim/ptx/counters.h"
#include "kernels/cuda/sim/ptx/global_memory.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/ptx/program.h"
#include "kernels/cuda/sim/ptx/race_detector.h"
#include "kernels/cuda/sim/ptx/warp.h"

namespace cotan::cuda::ptx {

// Generic addresses of other spaces than global memory: window + offset.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << 56;
inline constexpr uint64_t kParamWindow = uint64_t{3} << 56;

// Returns the window of `space`, 0 for global and constant memory.
uint64_t WindowOf(Space space);

// An access of a thread. `address` is an offset in the space, or a generic address.
struct ThreadAccess {
  Space space = Space::kGeneric;
  uint64_t address = 0;
  uint32_t size = 0;  // In bytes.
  bool read_only = false;
  AccessPoint point = {};
};

// The accesses of the lanes of a warp that one instruction makes.
struct WarpAccess {
  Space space = Space::kGeneric;  // Of all lanes.
  uint32_t size = 0;              // In bytes, of one lane.
  uint32_t mask = 0;              // Of the lanes that take part.
  AccessPoint point = {};         // Of lane 0.
  uint64_t address[kWarpSize];    // As ThreadAccess::address.
  std::byte* data[kWarpSize];     // Where the bytes are; set by Locate.
  uint8_t* written[kWarpSize];    // [byte]; null for parameters.
  // Set by Locate and ResolveSpace.
  bool run = false;      // The lanes are the first of the warp and access consecutive elements.
  bool uniform = false;  // They access one element.
};

// The sectors of global memory that a launch accessed.
class SectorSet {
 public:
  // Adds the sectors from `first` to `last` and returns how many of them are new.
  uint64_t Add(uint64_t first, uint64_t last);

 private:
  // [sector / 64], a bit for each sector; nodes stay where they are.
  absl::node_hash_map<uint64_t, uint64_t> words_;
  uint64_t last_number_ = ~uint64_t{0};  // of the word that was used last
  uint64_t* last_word_ = nullptr;
};

// State that all blocks of a launch share. Borrows the references.
struct LaunchMemory {
  GlobalMemory& global;
  Counters& counters;
  RaceDetector races = {};
  SectorSet loaded_sectors = {};
  SectorSet stored_sectors = {};
};

// One for each block that runs; StartBlock is called for each block. Errors are explained without the position:
// OutOfRange for bounds, InvalidArgument for alignment, FailedPrecondition for races and for bytes
// never written.
class MemoryUnit {
 public:
  // Borrows all of them.
  MemoryUnit(const Program& program, const Launch& launch, LaunchMemory& memory);

  // Forgets shared memory and the frames of all threads.
  void StartBlock();

  absl::Status Load(ThreadAccess access, std::byte* to);
  absl::Status Store(ThreadAccess access, const std::byte* from);
  absl::Status Atomic(ThreadAccess access, absl::FunctionRef<uint64_t(uint64_t)> update, uint64_t& previous);

  // Sets `data` and `written` of an access, resolves a generic space, and returns true, if all lanes may make it;
  // otherwise Load and Store, called for each, say what is wrong. Records nothing.
  bool Locate(WarpAccess& access, bool store);
  // Replaces a generic space by that of the first lane and sets `run` and `uniform`.
  void ResolveSpace(WarpAccess& access) const;
  // Records an access that Locate allowed. `lane` gets the one whose access is a race, if there is one.
  absl::Status CheckRaces(const WarpAccess& access, RaceDetector::Kind kind, int& lane);

  // Moves bytes within the frame of a thread, written or not.
  void CopyInFrame(uint32_t thread, const FrameCopy& copy);

  // Records a fence for the order of blocks, and a strong access.
  void Fence(uint64_t block) { memory_.races.Fence(block); }
  void Synchronize(const ThreadAccess& access, bool reads, bool writes);

  // Counts one instruction of a warp.
  void CountAccess(const WarpAccess& access, bool load);

 private:
  // Bytes with a mark for those that were written.
  struct Bytes {
    std::vector<std::byte> data;
    std::vector<uint8_t> written;  // 1 where written.

    void Reset(size_t size) {
      data.assign(size, std::byte{0xcd});
      written.assign(size, 0);
    }
  };

  // Finds the space of a generic address and checks alignment.
  absl::Status Resolve(ThreadAccess& access) const;
  // Returns where a shared or local access is within its bytes, checking bounds.
  absl::Status Locate(const ThreadAccess& access, Bytes*& bytes, uint64_t& offset);
  bool LocateGlobal(WarpAccess& access);
  bool LocateOnChip(WarpAccess& access);
  bool LocateParameters(WarpAccess& access);
  absl::Status LoadOnChip(const ThreadAccess& access, bool racy, std::byte* to);
  GlobalAccess ToGlobal(const ThreadAccess& access) const;
  // Records an access of a thread.
  absl::Status CheckRace(const ThreadAccess& access, RaceDetector::Kind kind);

  const Program& program_;
  const Launch& launch_;
  LaunchMemory& memory_;
  RaceDetector shared_races_;
  Bytes shared_;
  Bytes frames_;  // [thread][byte]
  uint64_t threads_;
  static constexpr size_t kCachedBlocks = 4;
  GlobalBlock blocks_[kCachedBlocks];  // Of global memory, that were accessed lately.
  size_t next_block_ = 0;              // The one to be replaced.
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_MEMORY_UNIT_H_
