// SPDX-License-Identifier: Apache-2.0

// Executes the memory accesses of the threads of a block, with checks.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_MEMORY_UNIT_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_MEMORY_UNIT_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/cuda/sim/ptx/counters.h"
#include "kernels/cuda/sim/ptx/global_memory.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/ptx/program.h"
#include "kernels/cuda/sim/ptx/race_detector.h"

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

// One for a launch; StartBlock is called for each block. Errors are explained without the position:
// OutOfRange for bounds, InvalidArgument for alignment, FailedPrecondition for races and for bytes
// never written.
class MemoryUnit {
 public:
  // Borrows all of them.
  MemoryUnit(const Program& program, const Launch& launch, GlobalMemory& global, Counters& counters);

  // Forgets shared memory and the frames of all threads.
  void StartBlock();

  absl::Status Load(ThreadAccess access, std::byte* to);
  absl::Status Store(ThreadAccess access, const std::byte* from);
  absl::Status Atomic(ThreadAccess access, absl::FunctionRef<uint64_t(uint64_t)> update, uint64_t& previous);

  // Moves bytes within the frame of a thread, written or not.
  void CopyInFrame(uint32_t thread, const FrameCopy& copy);

  // Records a fence for the order of blocks, and a strong access.
  void Fence(uint64_t block) { global_races_.Fence(block); }
  void Synchronize(const ThreadAccess& access, bool reads, bool writes);

  // Counts one instruction of a warp: the accesses of its lanes as (generic address, bytes).
  void CountAccess(const std::vector<std::pair<uint64_t, uint32_t>>& lanes, bool load);

 private:
  // Bytes with a mark for those that were written.
  struct Bytes {
    std::vector<std::byte> data;
    std::vector<bool> written;

    void Reset(size_t size) {
      data.assign(size, std::byte{0xcd});
      written.assign(size, false);
    }
  };

  // Finds the space of a generic address and checks alignment.
  absl::Status Resolve(ThreadAccess& access) const;
  // Returns where a shared or local access is within its bytes, checking bounds.
  absl::Status Locate(const ThreadAccess& access, Bytes*& bytes, uint64_t& offset);
  absl::Status LoadOnChip(const ThreadAccess& access, bool racy, std::byte* to);
  GlobalAccess ToGlobal(const ThreadAccess& access) const;

  const Program& program_;
  const Launch& launch_;
  GlobalMemory& global_;
  Counters& counters_;
  RaceDetector global_races_;
  RaceDetector shared_races_;
  Bytes shared_;
  Bytes frames_;  // [thread][byte]
  uint64_t threads_;
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_MEMORY_UNIT_H_
