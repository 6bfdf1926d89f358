// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/block_executor.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

constexpr uint64_t kTurnInstructions = 4096;

bool IsControl(OpKind kind) {
  return kind == OpKind::kBranch || kind == OpKind::kCall || kind == OpKind::kReturn || kind == OpKind::kExit ||
         kind == OpKind::kBarrier;
}

bool IsWarpWide(OpKind kind) {
  return kind == OpKind::kWarpBarrier || kind == OpKind::kShuffle || kind == OpKind::kVote || kind == OpKind::kMatch ||
         kind == OpKind::kReduce;
}

// Whether other blocks may have to go on before a warp gets what it waits for.
bool AwaitsOthers(const Operation& operation) {
  return operation.kind == OpKind::kSleep || (operation.kind == OpKind::kLoad && operation.strong);
}

}  // namespace

BlockExecutor::BlockExecutor(const Program& program, const Launch& launch, LaunchMemory& memory, uint64_t seed)
    : program_(program),
      launch_(launch),
      counters_(memory.counters),
      seed_(seed),
      memory_(program, launch, memory),
      executor_(program, launch, memory_, memory.counters),
      random_(seed) {}

void BlockExecutor::Start(uint64_t block) {
  memory_.StartBlock();
  executor_.StartBlock(block);
  const uint32_t threads = launch_.block[0] * launch_.block[1] * launch_.block[2];
  const size_t registers = program_.module->registers.size();
  warps_.resize((threads + kWarpSize - 1) / kWarpSize);
  for (size_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[i];
    warp.index = static_cast<int>(i);
    const uint32_t lanes = std::min<uint32_t>(kWarpSize, threads - static_cast<uint32_t>(i) * kWarpSize);
    warp.live = static_cast<uint32_t>(LowBits(static_cast<int>(lanes)));
    warp.at_barrier = warp.at_sync = warp.epoch = warp.waited = 0;
    std::fill(std::begin(warp.pc), std::end(warp.pc), 0);
    for (auto& calls : warp.returns) calls.clear();
    warp.values.resize(registers * kWarpSize);
    warp.defined.assign(registers, 0);
  }
  order_.resize(warps_.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (seed_ != 0) std::shuffle(order_.begin(), order_.end(), random_);
  std::fill(std::begin(arrived_), std::end(arrived_), 0);
  std::fill(std::begin(agreed_), std::end(agreed_), 0);
}

absl::Status BlockExecutor::RunRound(bool& ended) {
  bool progress = false;
  uint32_t live = 0;
  for (const int index : order_) {
    COTAN_RETURN_IF_ERROR(Turn(warps_[index], progress));
    live |= warps_[index].live;
  }
  ended = live == 0;
  if (ended) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(ReleaseBarriers(progress));
  if (!progress) return Deadlock();
  if (counters_.warp_instructions > launch_.max_warp_instructions) {
    return absl::DeadlineExceededError(absl::StrCat("kernel ", program_.kernel->name, ": more than ",
                                                    launch_.max_warp_instructions, " warp instructions"));
  }
  return absl::OkStatus();
}

absl::Status BlockExecutor::Turn(Warp& warp, bool& progress) {
  for (uint64_t i = 0; i < kTurnInstructions;) {
    const uint32_t ready = warp.live & ~warp.at_barrier & ~warp.at_sync;
    if (ready == 0) {
      bool resolved = false;
      COTAN_RETURN_IF_ERROR(ResolveSync(warp, resolved));
      if (!resolved) return absl::OkStatus();
      progress = true;
      ++i;
      continue;
    }
    progress = true;
    int pc = warp.pc[std::countr_zero(ready)];
    ForEachLane(ready, [&](int lane) { pc = std::min(pc, warp.pc[lane]); });
    // The last instruction of a turn goes to the highest lanes, so that lanes that wait in a loop
    // for others of their warp do not wait for ever.
    const bool last = i + 1 == kTurnInstructions;
    int other_pc = std::numeric_limits<int>::max();
    if (last) {
      ForEachLane(ready, [&](int lane) { pc = std::max(pc, warp.pc[lane]); });
    }
    uint32_t mask = 0;
    ForEachLane(ready, [&](int lane) {
      if (warp.pc[lane] == pc) {
        mask |= 1u << lane;
      } else if (!last) {
        other_pc = std::min(other_pc, warp.pc[lane]);
      }
    });
    bool yields = false;
    COTAN_RETURN_IF_ERROR(RunTogether(warp, mask, pc, other_pc, last ? 1 : kTurnInstructions - 1 - i, i, yields));
    if (yields) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status BlockExecutor::EvaluateGuard(Warp& warp, const Operation& operation, uint32_t mask,
                                          uint32_t& active) const {
  const Value guard{.kind = ValueKind::kRegister, .negated = false, .reg = operation.guard};
  const uint64_t* predicates = executor_.Gather(warp, guard, mask, nullptr);
  if (predicates == nullptr) return executor_.Undefined(warp, operation, guard, mask);
  uint32_t holds = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) holds |= static_cast<uint32_t>(predicates[lane] & 1) << lane;
  active = mask & (operation.guard_negated ? ~holds : holds);
  return absl::OkStatus();
}

absl::Status BlockExecutor::RunTogether(Warp& warp, uint32_t mask, int pc, int other_pc, uint64_t limit,
                                        uint64_t& executed, bool& yields) {
  const auto set_pc = [&](uint32_t lanes, int value) { ForEachLane(lanes, [&](int lane) { warp.pc[lane] = value; }); };
  for (uint64_t left = limit; left > 0 && pc < other_pc && !yields; --left) {
    const Operation& operation = program_.operations[static_cast<size_t>(pc)];
    uint32_t active = mask;
    if (operation.guard >= 0) COTAN_RETURN_IF_ERROR(EvaluateGuard(warp, operation, mask, active));
    Count(operation, active);
    ++warp.executed;
    ++executed;
    if (operation.kind == OpKind::kBranch && (active == 0 || active == mask)) {
      pc = active == 0 ? pc + 1 : operation.target;
      continue;
    }
    if (IsControl(operation.kind)) {
      set_pc(mask, pc);
      return Control(warp, operation, mask, active);
    }
    if (active != 0 && IsWarpWide(operation.kind)) {
      const bool alone = warp.at_sync == 0;
      set_pc(mask & ~active, pc + 1);
      set_pc(active, pc);
      COTAN_RETURN_IF_ERROR(ArriveAtSync(warp, operation, active));
      if (!alone || warp.at_sync != 0) return absl::OkStatus();
    } else if (active != 0) {
      COTAN_RETURN_IF_ERROR(executor_.Execute(warp, operation, active));
      yields = program_.sleeps && AwaitsOthers(operation);
    }
    ++pc;
  }
  set_pc(mask, pc);
  return absl::OkStatus();
}

absl::Status BlockExecutor::Control(Warp& warp, const Operation& operation, uint32_t mask, uint32_t active) {
  ForEachLane(mask, [&](int lane) { ++warp.pc[lane]; });
  switch (operation.kind) {
    case OpKind::kBranch:
      ForEachLane(active, [&](int lane) { warp.pc[lane] = operation.target; });
      return absl::OkStatus();
    case OpKind::kCall:
      ForEachLane(active, [&](int lane) {
        const uint32_t thread = warp.index * kWarpSize + lane;
        for (const FrameCopy& copy : operation.copies) memory_.CopyInFrame(thread, copy);
        warp.returns[lane].push_back(warp.pc[lane]);
        warp.pc[lane] = operation.target;
      });
      return absl::OkStatus();
    case OpKind::kReturn: {
      const uint32_t live = warp.live;
      ForEachLane(active, [&](int lane) { Return(warp, lane); });
      return executor_.CheckExit(warp, operation, live & ~warp.live);
    }
    case OpKind::kExit:
      warp.live &= ~active;
      return executor_.CheckExit(warp, operation, active);
    default:
      return active == 0 ? absl::OkStatus() : ArriveAtBarrier(warp, operation, active);
  }
}

void BlockExecutor::Return(Warp& warp, int lane) {
  std::vector<int>& returns = warp.returns[lane];
  if (returns.empty()) {
    warp.live &= ~(1u << lane);
    return;
  }
  warp.pc[lane] = returns.back();
  returns.pop_back();
  const Operation& call = program_.operations[warp.pc[lane] - 1];
  for (const FrameCopy& copy : call.copies_back) memory_.CopyInFrame(warp.index * kWarpSize + lane, copy);
}

absl::Status BlockExecutor::ArriveAtSync(Warp& warp, const Operation& operation, uint32_t mask) {
  uint64_t buffer[kWarpSize];
  const uint64_t* masks = executor_.Gather(warp, operation.sources.back(), mask, buffer);
  if (masks == nullptr) return executor_.Undefined(warp, operation, operation.sources.back(), mask);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const uint64_t members = masks[lane];
    warp.members[lane] = static_cast<uint32_t>(members);
    if ((members >> lane & 1) == 0) {
      return executor_.Fault(warp, operation, lane,
                             absl::FailedPreconditionError(absl::StrCat("lane ", lane, " is not in its mask 0x",
                                                                        absl::Hex(members & LowBits(32)))));
    }
  }
  warp.at_sync |= mask;
  bool resolved = false;
  return ResolveSync(warp, resolved);
}

absl::Status BlockExecutor::ResolveSync(Warp& warp, bool& progress) {
  for (uint32_t rest = warp.at_sync; rest != 0; rest &= rest - 1) {
    const int first = std::countr_zero(rest);
    // Lanes that have exited need not come.
    const uint32_t members = warp.members[first] & warp.live;
    const Operation& operation = program_.operations[warp.pc[first]];
    if ((members & ~warp.at_sync) != 0) continue;
    bool together = true;
    ForEachLane(members, [&](int lane) { together = together && warp.pc[lane] == warp.pc[first]; });
    if (!together) continue;
    for (uint32_t others = members; others != 0; others &= others - 1) {
      const int lane = std::countr_zero(others);
      if (warp.members[lane] == warp.members[first]) continue;
      return executor_.Fault(
          warp, operation, lane,
          absl::FailedPreconditionError(absl::StrCat("mask 0x", absl::Hex(warp.members[lane]), ", but lane ", first,
                                                     " has 0x", absl::Hex(warp.members[first]))));
    }
    COTAN_RETURN_IF_ERROR(executor_.Execute(warp, operation, members));
    ForEachLane(members, [&](int lane) { ++warp.pc[lane]; });
    warp.at_sync &= ~members;
    progress = true;
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status BlockExecutor::ArriveAtBarrier(Warp& warp, const Operation& operation, uint32_t mask) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const bool reduces = operation.barrier != BarrierMode::kSync;
    uint64_t barrier = 0, threads = 0, agrees = 0;
    COTAN_RETURN_IF_ERROR(executor_.Read(warp, operation, operation.sources[0], lane, barrier));
    if (reduces) COTAN_RETURN_IF_ERROR(executor_.Read(warp, operation, operation.sources.back(), lane, agrees));
    if (operation.sources.size() > (reduces ? 2 : 1)) {
      COTAN_RETURN_IF_ERROR(executor_.Read(warp, operation, operation.sources[1], lane, threads));
    }
    if (barrier >= kNumBarriers) {
      return executor_.Fault(warp, operation, lane,
                             absl::OutOfRangeError(absl::StrCat("barrier ", barrier, " of ", kNumBarriers)));
    }
    if (arrived_[barrier] != 0 && expected_[barrier] != static_cast<int>(threads)) {
      return executor_.Fault(
          warp, operation, lane,
          absl::FailedPreconditionError(absl::StrCat("expects ", threads, " threads, but others at barrier ", barrier,
                                                     " expect ", expected_[barrier])));
    }
    expected_[barrier] = static_cast<int>(threads);
    ++arrived_[barrier];
    agreed_[barrier] += static_cast<int>(agrees & 1);
    if (operation.arrive_only) continue;
    warp.barrier[lane] = static_cast<int>(barrier);
    warp.at_barrier |= 1u << lane;
  }
  return absl::OkStatus();
}

absl::Status BlockExecutor::ReleaseBarriers(bool& progress) {
  int live = 0;
  for (const Warp& warp : warps_) live += std::popcount(warp.live);
  for (int barrier = 0; barrier < kNumBarriers; ++barrier) {
    if (arrived_[barrier] == 0) continue;
    const int expected = expected_[barrier] == 0 ? live : expected_[barrier];
    if (arrived_[barrier] >= expected) COTAN_RETURN_IF_ERROR(ReleaseBarrier(barrier, progress));
  }
  return absl::OkStatus();
}

// The threads of a warp must be at the same instruction, and those of the block if all take part.
absl::Status BlockExecutor::ReleaseBarrier(int barrier, bool& progress) {
  int block_pc = -1;
  for (Warp& warp : warps_) {
    int warp_pc = -1;
    for (uint32_t rest = warp.at_barrier; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if (warp.barrier[lane] != barrier) continue;
      const int pc = warp.pc[lane];
      const int other = warp_pc >= 0 ? warp_pc : expected_[barrier] == 0 ? block_pc : -1;
      if (other >= 0 && other != pc) {
        return executor_.Fault(
            warp, program_.operations[pc - 1], lane,
            absl::FailedPreconditionError(absl::StrCat("divergent barrier: other threads wait at PTX line ",
                                                       program_.operations[other - 1].instruction->line)));
      }
      warp_pc = block_pc = pc;
      warp.at_barrier &= ~(1u << lane);
      WriteReduction(warp, program_.operations[pc - 1], lane, barrier);
    }
  }
  arrived_[barrier] = agreed_[barrier] = 0;
  executor_.PassBarrier();
  progress = true;
  return absl::OkStatus();
}

void BlockExecutor::WriteReduction(Warp& warp, const Operation& operation, int lane, int barrier) const {
  const int agreed = agreed_[barrier];
  switch (operation.barrier) {
    case BarrierMode::kSync:
      return;
    case BarrierMode::kCount:
      return executor_.Write(warp, operation.results[0], lane, agreed);
    case BarrierMode::kOr:
      return executor_.Write(warp, operation.results[0], lane, agreed > 0);
    case BarrierMode::kAnd:
      return executor_.Write(warp, operation.results[0], lane, agreed == arrived_[barrier]);
  }
}

absl::Status BlockExecutor::Deadlock() const {
  for (const Warp& warp : warps_) {
    if (warp.at_sync == 0) continue;
    const int lane = std::countr_zero(warp.at_sync);
    return executor_.Fault(warp, program_.operations[warp.pc[lane]], lane,
                           absl::FailedPreconditionError(
                               absl::StrCat("waits for lanes 0x", absl::Hex(warp.members[lane] & warp.live),
                                            " of its mask, which are not all there: 0x", absl::Hex(warp.at_sync))));
  }
  for (const Warp& warp : warps_) {
    if (warp.at_barrier == 0) continue;
    const int lane = std::countr_zero(warp.at_barrier);
    return executor_.Fault(warp, program_.operations[warp.pc[lane] - 1], lane,
                           absl::FailedPreconditionError("waits at a barrier that other threads never reach"));
  }
  return absl::InternalError("no thread can continue");
}

void BlockExecutor::Count(const Operation& operation, uint32_t active) {
  ++counters_.warp_instructions;
  const int threads = std::popcount(active);
  switch (operation.kind) {
    case OpKind::kLoad:
    case OpKind::kStore:
    case OpKind::kAtomic:
    case OpKind::kAsyncCopy:
    case OpKind::kAsyncCommit:
    case OpKind::kAsyncWait:
      counters_.memory += threads;
      break;
    case OpKind::kBranch:
    case OpKind::kCall:
    case OpKind::kReturn:
    case OpKind::kExit:
    case OpKind::kTrap:
      counters_.control += threads;
      break;
    case OpKind::kBarrier:
    case OpKind::kFence:
      counters_.barriers += threads;
      break;
    default:
      (IsWarpWide(operation.kind) ? counters_.warp : counters_.arithmetic) += threads;
  }
}

}  // namespace cotan::cuda::ptx
