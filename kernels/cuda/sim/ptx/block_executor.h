// SPDX-License-Identifier: Apache-2.0

// Runs the threads of a block.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_BLOCK_EXECUTOR_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_BLOCK_EXECUTOR_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/sim/ptx/counters.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/ptx/memory_unit.h"
#include "kernels/cuda/sim/ptx/program.h"
#include "kernels/cuda/sim/ptx/warp.h"
#include "kernels/cuda/sim/ptx/warp_executor.h"

namespace cotan::cuda::ptx {

// Runs one block after another. Warps take turns in an order drawn from the seed; a turn has some thousand instructions
// and ends early where the warp sleeps or reads what another block may write (a strong access). The lanes of a warp
// that are at one instruction execute it together; those at the lowest one go first, so that lanes that parted meet
// again.
class BlockExecutor {
 public:
  // Borrows `program`, `launch` and `memory`. `seed` draws the order of warps; 0: in order.
  BlockExecutor(const Program& program, const Launch& launch, LaunchMemory& memory, uint64_t seed);

  // Begins a block; the one before has ended.
  void Start(uint64_t block);

  // Gives each warp a turn and sets `ended` if all threads have exited. Errors name the position: FailedPrecondition
  // for races, divergent barriers and undefined values, Aborted for traps, DeadlineExceeded for a launch that does not
  // end, and those of MemoryUnit.
  absl::Status RunRound(bool& ended);

 private:
  // Runs `warp` for a turn and sets `progress` if it executed anything.
  absl::Status Turn(Warp& warp, bool& progress);
  // Executes up to `limit` instructions, of which it counts `executed`, for the lanes of `mask`, which are at `pc`,
  // until they part, wait, or reach `other_pc`, where other lanes are. Sets `yields` if the turn has to end.
  absl::Status RunTogether(Warp& warp, uint32_t mask, int pc, int other_pc, uint64_t limit, uint64_t& executed,
                           bool& yields);
  // Sets `active` to the lanes of `mask` whose guard holds.
  absl::Status EvaluateGuard(Warp& warp, const Operation& operation, uint32_t mask, uint32_t& active) const;
  absl::Status Control(Warp& warp, const Operation& operation, uint32_t mask, uint32_t active);
  void Return(Warp& warp, int lane);
  absl::Status ArriveAtSync(Warp& warp, const Operation& operation, uint32_t mask);
  // Executes the warp-wide instruction that all lanes of some mask wait at, if there is one.
  absl::Status ResolveSync(Warp& warp, bool& progress);
  absl::Status ArriveAtBarrier(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status ReleaseBarriers(bool& progress);
  absl::Status ReleaseBarrier(int barrier, bool& progress);
  void WriteReduction(Warp& warp, const Operation& operation, int lane, int barrier) const;
  absl::Status Deadlock() const;
  void Count(const Operation& operation, uint32_t active);

  const Program& program_;
  const Launch& launch_;
  Counters& counters_;
  const uint64_t seed_;
  MemoryUnit memory_;
  WarpExecutor executor_;
  std::mt19937_64 random_;
  std::vector<Warp> warps_;
  std::vector<int> order_;  // Indices into warps_.
  static constexpr int kNumBarriers = 16;
  int agreed_[kNumBarriers] = {};    // Threads whose predicate of bar.red holds.
  int arrived_[kNumBarriers] = {};   // Threads, also those that do not wait.
  int expected_[kNumBarriers] = {};  // Threads; 0 for all of the block.
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_BLOCK_EXECUTOR_H_
