// SPDX-License-Identifier: Apache-2.0

// Executes instructions of a warp that do not change where it continues.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_WARP_EXECUTOR_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_WARP_EXECUTOR_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/sim/ptx/counters.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/ptx/memory_unit.h"
#include "kernels/cuda/sim/ptx/program.h"
#include "kernels/cuda/sim/ptx/warp.h"

namespace cotan::cuda::ptx {

// One for a launch. All functions take the lanes that execute as a mask; errors name the kernel, the
// line, the block and the thread.
class WarpExecutor {
 public:
  // Borrows all of them.
  WarpExecutor(const Program& program, const Launch& launch, MemoryUnit& memory, Counters& counters);

  void StartBlock(uint64_t block);
  // Records that all threads of the block passed a barrier.
  void PassBarrier() { ++block_epoch_; }

  // Executes an operation other than those of control flow and block barriers.
  absl::Status Execute(Warp& warp, const Operation& operation, uint32_t mask);

  // FailedPrecondition: the kernel may begin early, and a lane of `exited` has not waited for earlier work: the next
  // kernel could begin before that has ended.
  absl::Status CheckExit(const Warp& warp, const Operation& operation, uint32_t exited) const;

  // Reads a source of one lane.
  absl::Status Read(Warp& warp, const Operation& operation, const Value& value, int lane, uint64_t& bits) const;

  // Writes a result of one lane.
  void Write(Warp& warp, const Value& result, int lane, uint64_t bits) const;

  // Returns a source of all lanes, in `buffer` if it is not a register, or null if a lane of `mask` never wrote it;
  // Undefined returns the error then.
  const uint64_t* Gather(Warp& warp, const Value& value, uint32_t mask, uint64_t* buffer) const;
  absl::Status Undefined(Warp& warp, const Operation& operation, const Value& value, uint32_t mask) const;

  // Writes a result of the lanes of `mask`; `bits` has all lanes.
  void WriteLanes(Warp& warp, const Value& result, uint32_t mask, const uint64_t* bits) const;

  // Returns `status` with the position of `lane` added.
  absl::Status Fault(const Warp& warp, const Operation& operation, int lane, const absl::Status& status) const;

 private:
  struct PendingCopy {
    const Operation* operation;
    uint64_t shared_address;
    uint64_t global_address;
    uint32_t bytes;  // The rest of the copy is zeros.
    int group;
  };
  struct AsyncCopies {
    int group = 0;  // The one being filled.
    std::vector<PendingCopy> copies;
  };

  // FailedPrecondition: the kernel may begin early, and a lane accesses global memory before it waits for earlier work.
  // Source number `source` of the operation is the address.
  absl::Status CheckWaited(Warp& warp, const Operation& operation, uint32_t mask, size_t source) const;
  absl::Status Scalar(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status Carry(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status Copy(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status PackOrUnpack(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status Load(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status Store(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status Atomic(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status StartCopy(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status WaitForCopies(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status Shuffle(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status Vote(Warp& warp, const Operation& operation, uint32_t mask);
  absl::Status MatchOrReduce(Warp& warp, const Operation& operation, uint32_t mask);

  // Sets the addresses of an access; false: some are undefined.
  bool GatherAccess(Warp& warp, const Operation& operation, uint32_t mask, WarpAccess& access) const;
  // The same as Load and Store, lane by lane.
  absl::Status LoadLanes(Warp& warp, const Operation& operation, uint32_t mask, const WarpAccess& access);
  absl::Status StoreLanes(Warp& warp, const Operation& operation, uint32_t mask, const WarpAccess& access);
  absl::Status ReadAddress(Warp& warp, const Operation& operation, int lane, ThreadAccess& access) const;
  uint64_t ReadSpecial(const Warp& warp, SpecialRegister special, int lane) const;
  AccessPoint PointOf(const Warp& warp, const Operation& operation, int lane) const;
  std::array<uint32_t, 3> ThreadIndex(uint32_t thread) const;

  const Program& program_;
  const Launch& launch_;
  MemoryUnit& memory_;
  Counters& counters_;
  uint64_t block_ = 0;
  std::array<uint32_t, 3> block_index_ = {};
  uint32_t block_epoch_ = 1;
  uint32_t num_threads_ = 0;               // Of a block.
  bool linear_ = false;                    // The block has one dimension.
  std::vector<AsyncCopies> async_copies_;  // [thread], empty before the first copy.
};

// Returns what an atomic, or a step of redux, leaves in memory that holds `old`. `compare` is only used by
// compare-and-swap.
uint64_t ApplyAtomic(const Operation& operation, uint64_t old, uint64_t operand, uint64_t compare);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_WARP_EXECUTOR_H_
