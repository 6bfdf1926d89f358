// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/warp_executor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
WarpExecutor::WarpExecutor(const Program& program, const Launch& launch, MemoryUnit& memory, Counters& counters)
    : program_(program),
      launch_(launch),
      memory_(memory),
      counters_(counters),
      num_threads_(launch.block[0] * launch.block[1] * launch.block[2]),
      linear_(launch.block[1] == 1 && launch.block[2] == 1) {}

void WarpExecutor::StartBlock(uint64_t block) {
  block_ = block;
  const auto& grid = launch_.grid;
  block_index_ = {static_cast<uint32_t>(block % grid[0]), static_cast<uint32_t>(block / grid[0] % grid[1]),
                  static_cast<uint32_t>(block / grid[0] / grid[1])};
  block_epoch_ = 1;
  async_copies_.clear();
}

std::array<uint32_t, 3> WarpExecutor::ThreadIndex(uint32_t thread) const {
  const auto& block = launch_.block;
  if (linear_) return {thread, 0, 0};
  return {thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]};
}

absl::Status WarpExecutor::Fault(const Warp& warp, const Operation& operation, int lane,
                                 const absl::Status& status) const {
  return absl::Status(
      status.code(),
      absl::StrCat("kernel ", program_.kernel->name, ", PTX line ", operation.instruction->line, " `",
                   operation.instruction->text, "`, block (", absl::StrJoin(block_index_, ", "), "), thread (",
                   absl::StrJoin(ThreadIndex(warp.index * kWarpSize + lane), ", "), "): ", status.message()));
}

absl::Status WarpExecutor::Read(Warp& warp, const Operation& operation, const Value& value, int lane,
                                uint64_t& bits) const {
  switch (value.kind) {
    case ValueKind::kRegister:
      if (launch_.check_registers && (warp.defined[value.reg] >> lane & 1) == 0) {
        const auto& name = program_.module->registers[value.reg].name;
        return Fault(warp, operation, lane,
                     absl::FailedPreconditionError(absl::StrCat("reads register ", name, ", which was never written")));
      }
      bits = warp.Values(value.reg)[lane];
      if (value.negated) bits ^= 1;
      break;
    case ValueKind::kImmediate:
      bits = value.bits;
      break;
    case ValueKind::kSpecial:
      bits = ReadSpecial(warp, value.special, lane);
      break;
    case ValueKind::kSink:
      bits = 0;
      break;
  }
  return absl::OkStatus();
}

void WarpExecutor::Write(Warp& warp, const Value& result, int lane, uint64_t bits) const {
  if (result.kind != ValueKind::kRegister) return;
  warp.Values(result.reg)[lane] = bits & result.mask;
  warp.defined[result.reg] |= 1u << lane;
}

uint64_t WarpExecutor::ReadSpecial(const Warp& warp, SpecialRegister special, int lane) const {
  const auto thread = ThreadIndex(warp.index * kWarpSize + lane);
  const uint32_t self = 1u << lane;
  switch (special) {
    case SpecialRegister::kThreadX:
    case SpecialRegister::kThreadY:
    case SpecialRegister::kThreadZ:
      return thread[static_cast<int>(special) - static_cast<int>(SpecialRegister::kThreadX)];
    case SpecialRegister::kBlockX:
    case SpecialRegister::kBlockY:
    case SpecialRegister::kBlockZ:
      return block_index_[static_cast<int>(special) - static_cast<int>(SpecialRegister::kBlockX)];
    case SpecialRegister::kBlockSizeX:
    case SpecialRegister::kBlockSizeY:
    case SpecialRegister::kBlockSizeZ:
      return launch_.block[static_cast<int>(special) - static_cast<int>(SpecialRegister::kBlockSizeX)];
    case SpecialRegister::kGridSizeX:
    case SpecialRegister::kGridSizeY:
    case SpecialRegister::kGridSizeZ:
      return launch_.grid[static_cast<int>(special) - static_cast<int>(SpecialRegister::kGridSizeX)];
    case SpecialRegister::kLane:
      return lane;
    case SpecialRegister::kWarp:
      return warp.index;
    case SpecialRegister::kWarpCount:
      return (num_threads_ + kWarpSize - 1) / kWarpSize;
    case SpecialRegister::kLaneMaskEqual:
      return self;
    case SpecialRegister::kLaneMaskLess:
      return self - 1;
    case SpecialRegister::kLaneMaskLessEqual:
      return self | (self - 1);
    case SpecialRegister::kLaneMaskGreater:
      return ~(self | (self - 1));
    case SpecialRegister::kLaneMaskGreaterEqual:
      return ~(self - 1);
    case SpecialRegister::kClock:
    case SpecialRegister::kGlobalTimer:
      return warp.executed;
    case SpecialRegister::kMultiprocessor:
      return 0;
    case SpecialRegister::kMultiprocessorCount:
      return 1;
    case SpecialRegister::kStaticSharedSize:
      return program_.static_shared_bytes + launch_.dynamic_shared_bytes;
    case SpecialRegister::kDynamicSharedSize:
      return launch_.dynamic_shared_bytes;
  }
  return 0;
}

AccessPoint WarpExecutor::PointOf(const Warp& warp, const Operation& operation, int lane) const {
  return {.block = block_,
          .thread = static_cast<uint32_t>(warp.index * kWarpSize + lane),
          .block_epoch = block_epoch_,
          .warp_epoch = warp.epoch,
          .line = operation.instruction->line,
          .strong = operation.strong};
}

absl::Status WarpExecutor::CheckExit(const Warp& warp, const Operation& operation, uint32_t exited) const {
  const uint32_t early = exited & ~warp.waited;
  if (!launch_.begins_early || early == 0) return absl::OkStatus();
  return Fault(warp, operation, std::countr_zero(early),
               absl::FailedPreconditionError("exits without griddepcontrol.wait in a kernel that may begin early: the "
                                             "next one could begin before earlier work has ended"));
}

absl::Status WarpExecutor::CheckWaited(Warp& warp, const Operation& operation, uint32_t mask, size_t source) const {
  uint32_t early = mask & ~warp.waited;
  if (!launch_.begins_early || early == 0) return absl::OkStatus();
  if (operation.space != Space::kGlobal && operation.space != Space::kGeneric) return absl::OkStatus();
  for (; early != 0; early &= early - 1) {
    const int lane = std::countr_zero(early);
    uint64_t address = 0;
    COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[source], lane, address));
    if (operation.space == Space::kGeneric && address + operation.offset >= kSharedWindow) continue;
    return Fault(warp, operation, lane,
                 absl::FailedPreconditionError("accesses global memory before griddepcontrol.wait in a kernel that may "
                                               "begin early: earlier work may still run"));
  }
  return absl::OkStatus();
}

absl::Status WarpExecutor::Execute(Warp& warp, const Operation& operation, uint32_t mask) {
  switch (operation.kind) {
    case OpKind::kScalar:
      return Scalar(warp, operation, mask);
    case OpKind::kCarry:
      return Carry(warp, operation, mask);
    case OpKind::kCopy:
      return Copy(warp, operation, mask);
    case OpKind::kPack:
    case OpKind::kUnpack:
      return PackOrUnpack(warp, operation, mask);
    case OpKind::kLoad:
      return Load(warp, operation, mask);
    case OpKind::kStore:
      return Store(warp, operation, mask);
    case OpKind::kAtomic:
      return Atomic(warp, operation, mask);
    case OpKind::kAsyncCopy:
      return StartCopy(warp, operation, mask);
    case OpKind::kAsyncCommit:
      async_copies_.resize(num_threads_);
      ForEachLane(mask, [&](int lane) { ++async_copies_[warp.index * kWarpSize + lane].group; });
      return absl::OkStatus();
    case OpKind::kAsyncWait:
      return WaitForCopies(warp, operation, mask);
    case OpKind::kFence:
      if (operation.release) memory_.Fence(block_);
      return absl::OkStatus();
    case OpKind::kGridWait:
      warp.waited |= mask;
      return absl::OkStatus();
    case OpKind::kActiveMask:
      ForEachLane(mask, [&](int lane) { Write(warp, operation.results[0], lane, mask); });
      return absl::OkStatus();
    case OpKind::kTrap:
      return Fault(warp, operation, std::countr_zero(mask), absl::AbortedError(operation.message));
    case OpKind::kWarpBarrier:
      ++warp.epoch;
      return absl::OkStatus();
    case OpKind::kShuffle:
      return Shuffle(warp, operation, mask);
    case OpKind::kVote:
      return Vote(warp, operation, mask);
    case OpKind::kMatch:
    case OpKind::kReduce:
      return MatchOrReduce(warp, operation, mask);
    case OpKind::kNop:
    case OpKind::kSleep:
    case OpKind::kBranch:
    case OpKind::kCall:
    case OpKind::kReturn:
    case OpKind::kExit:
    case OpKind::kBarrier:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

const uint64_t* WarpExecutor::Gather(Warp& warp, const Value& value, uint32_t mask, uint64_t* buffer) const {
  switch (value.kind) {
    case ValueKind::kRegister: {
      if (launch_.check_registers && (mask & ~warp.defined[value.reg]) != 0) return nullptr;
      const uint64_t* values = warp.Values(value.reg);
      if (!value.negated) return values;
      for (int lane = 0; lane < kWarpSize; ++lane) buffer[lane] = values[lane] ^ 1;
      return buffer;
    }
    case ValueKind::kSpecial:
      for (int lane = 0; lane < kWarpSize; ++lane) buffer[lane] = ReadSpecial(warp, value.special, lane);
      return buffer;
    case ValueKind::kImmediate:
    case ValueKind::kSink:
      std::fill_n(buffer, kWarpSize, value.kind == ValueKind::kSink ? 0 : value.bits);
      return buffer;
  }
  return nullptr;
}

absl::Status WarpExecutor::Undefined(Warp& warp, const Operation& operation, const Value& value, uint32_t mask) const {
  uint64_t bits = 0;
  return Read(warp, operation, value, std::countr_zero(mask & ~warp.defined[value.reg]), bits);
}

void WarpExecutor::WriteLanes(Warp& warp, const Value& result, uint32_t mask, const uint64_t* bits) const {
  if (result.kind != ValueKind::kRegister) return;
  uint64_t* to = warp.Values(result.reg);
  warp.defined[result.reg] |= mask;
  if (mask == ~uint32_t{0}) {
    for (int lane = 0; lane < kWarpSize; ++lane) to[lane] = bits[lane] & result.mask;
  } else {
    ForEachLane(mask, [&](int lane) { to[lane] = bits[lane] & result.mask; });
  }
}

absl::Status WarpExecutor::Scalar(Warp& warp, const Operation& operation, uint32_t mask) {
  constexpr size_t kMaxSources = 8;
  uint64_t buffers[kMaxSources][kWarpSize];
  const uint64_t* sources[kMaxSources];
  const size_t count = operation.sources.size();
  for (size_t i = 0; i < count; ++i) {
    sources[i] = Gather(warp, operation.sources[i], mask, buffers[i]);
    if (sources[i] == nullptr) return Undefined(warp, operation, operation.sources[i], mask);
  }
  uint64_t results[kWarpSize];
  if (operation.warp_fn != nullptr) {
    operation.warp_fn(sources, results);
  } else {
    const int width = operation.scalar.result_type.TotalBits();
    const bool is_signed = operation.scalar.result_type.IsSigned();
    uint64_t values[kMaxSources] = {};
    ForEachLane(mask, [&](int lane) {
      for (size_t i = 0; i < count; ++i) values[i] = sources[i][lane];
      const uint64_t result = EvaluateScalar(operation.scalar, values) & LowBits(width);
      results[lane] = is_signed ? SignExtend(result, width) : result;
    });
  }
  WriteLanes(warp, operation.results[0], mask, results);
  if (operation.results.size() > 1) {
    // setp p|q: the second predicate is the complement.
    ForEachLane(mask, [&](int lane) { results[lane] ^= 1; });
    WriteLanes(warp, operation.results[1], mask, results);
  }
  return absl::OkStatus();
}

absl::Status WarpExecutor::Carry(Warp& warp, const Operation& operation, uint32_t mask) {
  const int bits = operation.type.bits;
  const size_t last = operation.sources.size() - 1;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    uint64_t sources[3] = {};
    for (size_t i = 0; i <= last; ++i) {
      COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[i], lane, sources[i]));
    }
    const uint64_t first = last == 2 ? EvaluateScalar(operation.scalar, sources) : sources[0];
    const unsigned __int128 a = first & LowBits(bits), b = sources[last] & LowBits(bits);
    const unsigned __int128 carry = operation.reads_carry ? warp.carry >> lane & 1 : 0;
    const unsigned __int128 result = operation.subtracts ? a - b - carry : a + b + carry;
    Write(warp, operation.results[0], lane, static_cast<uint64_t>(result) & LowBits(bits));
    if (!operation.writes_carry) continue;
    // The borrow of a difference is in the same bit.
    warp.carry = (warp.carry & ~(1u << lane)) | static_cast<uint32_t>(result >> bits & 1) << lane;
  }
  return absl::OkStatus();
}

// A copy of a register that was never written is not written either: compilers copy undefined values.
absl::Status WarpExecutor::Copy(Warp& warp, const Operation& operation, uint32_t mask) {
  const Value& source = operation.sources[0];
  const Value& result = operation.results[0];
  if (source.kind == ValueKind::kRegister) {
    const uint32_t undefined = mask & ~warp.defined[source.reg];
    if (undefined != 0 && result.kind == ValueKind::kRegister) warp.defined[result.reg] &= ~undefined;
    mask &= ~undefined;
  }
  uint64_t buffer[kWarpSize];
  WriteLanes(warp, result, mask, Gather(warp, source, mask, buffer));
  return absl::OkStatus();
}

absl::Status WarpExecutor::PackOrUnpack(Warp& warp, const Operation& operation, uint32_t mask) {
  const bool pack = operation.kind == OpKind::kPack;
  const size_t elements = pack ? operation.sources.size() : operation.results.size();
  const int width = operation.type.TotalBits() / static_cast<int>(elements);
  uint64_t buffer[kWarpSize];
  uint64_t whole[kWarpSize] = {};
  if (!pack) {
    const uint64_t* source = Gather(warp, operation.sources[0], mask, buffer);
    if (source == nullptr) return Undefined(warp, operation, operation.sources[0], mask);
    std::copy_n(source, kWarpSize, whole);
  }
  for (size_t i = 0; i < elements; ++i) {
    const int shift = static_cast<int>(i) * width;
    if (!pack) {
      for (int lane = 0; lane < kWarpSize; ++lane) buffer[lane] = whole[lane] >> shift & LowBits(width);
      WriteLanes(warp, operation.results[i], mask, buffer);
      continue;
    }
    const uint64_t* element = Gather(warp, operation.sources[i], mask, buffer);
    if (element == nullptr) return Undefined(warp, operation, operation.sources[i], mask);
    for (int lane = 0; lane < kWarpSize; ++lane) whole[lane] |= (element[lane] & LowBits(width)) << shift;
  }
  if (pack) WriteLanes(warp, operation.results[0], mask, whole);
  return absl::OkStatus();
}

}  // namespace cotan::cuda::ptx
