// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/warp_executor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

constexpr uint32_t kMaxAccessBytes = 64;

}  // namespace

WarpExecutor::WarpExecutor(const Program& program, const Launch& launch, MemoryUnit& memory, Counters& counters)
    : program_(program), launch_(launch), memory_(memory), counters_(counters) {}

void WarpExecutor::StartBlock(uint64_t block) {
  block_ = block;
  const auto& grid = launch_.grid;
  block_index_ = {static_cast<uint32_t>(block % grid[0]), static_cast<uint32_t>(block / grid[0] % grid[1]),
                  static_cast<uint32_t>(block / grid[0] / grid[1])};
  block_epoch_ = 1;
  async_copies_.assign(size_t{launch_.block[0]} * launch_.block[1] * launch_.block[2], {});
}

std::array<uint32_t, 3> WarpExecutor::ThreadIndex(uint32_t thread) const {
  const auto& block = launch_.block;
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
  const int width = program_.module->registers[result.reg].type.TotalBits();
  warp.Values(result.reg)[lane] = bits & LowBits(std::min(width, 64));
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
      return (async_copies_.size() + kWarpSize - 1) / kWarpSize;
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
      ForEachLane(mask, [&](int lane) { ++async_copies_[warp.index * kWarpSize + lane].group; });
      return absl::OkStatus();
    case OpKind::kAsyncWait:
      return WaitForCopies(warp, operation, mask);
    case OpKind::kFence:
      if (operation.release) memory_.Fence(block_);
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
    case OpKind::kBranch:
    case OpKind::kCall:
    case OpKind::kReturn:
    case OpKind::kExit:
    case OpKind::kBarrier:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status WarpExecutor::Scalar(Warp& warp, const Operation& operation, uint32_t mask) {
  uint64_t sources[8] = {};
  const int count = static_cast<int>(operation.sources.size());
  const int width = operation.scalar.result_type.TotalBits();
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    for (int i = 0; i < count; ++i)
      COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[i], lane, sources[i]));
    uint64_t result = EvaluateScalar(operation.scalar, sources) & LowBits(width);
    if (operation.scalar.result_type.IsSigned()) result = SignExtend(result, width);
    Write(warp, operation.results[0], lane, result);
    // setp p|q: the second predicate is the complement.
    if (operation.results.size() > 1) Write(warp, operation.results[1], lane, result ^ 1);
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
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (source.kind == ValueKind::kRegister && (warp.defined[source.reg] >> lane & 1) == 0) {
      if (result.kind == ValueKind::kRegister) warp.defined[result.reg] &= ~(1u << lane);
      continue;
    }
    uint64_t bits = 0;
    COTAN_RETURN_IF_ERROR(Read(warp, operation, source, lane, bits));
    Write(warp, result, lane, bits);
  }
  return absl::OkStatus();
}

absl::Status WarpExecutor::PackOrUnpack(Warp& warp, const Operation& operation, uint32_t mask) {
  const bool pack = operation.kind == OpKind::kPack;
  const auto elements = static_cast<int>(pack ? operation.sources.size() : operation.results.size());
  const int width = operation.type.TotalBits() / elements;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    uint64_t whole = 0;
    if (!pack) COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[0], lane, whole));
    for (int i = 0; i < elements; ++i) {
      if (!pack) {
        Write(warp, operation.results[i], lane, whole >> (i * width) & LowBits(width));
        continue;
      }
      uint64_t element = 0;
      COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[i], lane, element));
      whole |= (element & LowBits(width)) << (i * width);
    }
    if (pack) Write(warp, operation.results[0], lane, whole);
  }
  return absl::OkStatus();
}

absl::Status WarpExecutor::ReadAddress(Warp& warp, const Operation& operation, int lane, ThreadAccess& access) const {
  access.space = operation.space;
  access.point = PointOf(warp, operation, lane);
  access.read_only = operation.read_only;
  COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[0], lane, access.address));
  access.address += operation.offset;
  return absl::OkStatus();
}

absl::Status WarpExecutor::Load(Warp& warp, const Operation& operation, uint32_t mask) {
  const int size = operation.type.Bytes();
  ThreadAccess access{.size = static_cast<uint32_t>(size * operation.results.size())};
  std::byte bytes[kMaxAccessBytes];
  accessed_.clear();
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    COTAN_RETURN_IF_ERROR(ReadAddress(warp, operation, lane, access));
    if (const absl::Status status = memory_.Load(access, bytes); !status.ok()) {
      return Fault(warp, operation, lane, status);
    }
    if (operation.strong) memory_.Synchronize(access, true, false);
    accessed_.emplace_back(access.address + WindowOf(access.space), access.size);
    for (size_t i = 0; i < operation.results.size(); ++i) {
      uint64_t element = 0;
      std::memcpy(&element, bytes + i * size, size);
      if (operation.type.IsSigned()) element = SignExtend(element, operation.type.bits);
      Write(warp, operation.results[i], lane, element);
    }
  }
  memory_.CountAccess(accessed_, true);
  return absl::OkStatus();
}

absl::Status WarpExecutor::Store(Warp& warp, const Operation& operation, uint32_t mask) {
  const int size = operation.type.Bytes();
  ThreadAccess access{.size = static_cast<uint32_t>(size * (operation.sources.size() - 1))};
  std::byte bytes[kMaxAccessBytes];
  accessed_.clear();
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    COTAN_RETURN_IF_ERROR(ReadAddress(warp, operation, lane, access));
    for (size_t i = 1; i < operation.sources.size(); ++i) {
      uint64_t element = 0;
      COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[i], lane, element));
      std::memcpy(bytes + (i - 1) * size, &element, size);
    }
    if (const absl::Status status = memory_.Store(access, bytes); !status.ok()) {
      return Fault(warp, operation, lane, status);
    }
    if (operation.release) memory_.Fence(block_);
    if (operation.strong) memory_.Synchronize(access, false, true);
    accessed_.emplace_back(access.address + WindowOf(access.space), access.size);
  }
  memory_.CountAccess(accessed_, false);
  return absl::OkStatus();
}

absl::Status WarpExecutor::Atomic(Warp& warp, const Operation& operation, uint32_t mask) {
  ThreadAccess access{.size = static_cast<uint32_t>(operation.type.Bytes())};
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    COTAN_RETURN_IF_ERROR(ReadAddress(warp, operation, lane, access));
    uint64_t operand = 0, compare = 0, previous = 0;
    const bool swaps = operation.atomic == AtomicFn::kCompareAndSwap;
    COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[swaps ? 2 : 1], lane, operand));
    if (swaps) COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[1], lane, compare));
    if (operation.release) memory_.Fence(block_);
    const auto update = [&](uint64_t old) {
      return ApplyAtomic(operation.atomic, operation.type, old, operand, compare);
    };
    if (const absl::Status status = memory_.Atomic(access, update, previous); !status.ok()) {
      return Fault(warp, operation, lane, status);
    }
    memory_.Synchronize(access, true, true);
    if (operation.acquire) memory_.Fence(block_);
    if (!operation.results.empty()) Write(warp, operation.results[0], lane, previous);
  }
  return absl::OkStatus();
}

// The copy is made when it is waited for, so that a missing wait always shows.
absl::Status WarpExecutor::StartCopy(Warp& warp, const Operation& operation, uint32_t mask) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    uint64_t values[5] = {};  // Shared, global, bytes of the copy, bytes that are read, offset of the shared address.
    for (int i = 0; i < 5; ++i) COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[i], lane, values[i]));
    AsyncCopies& pending = async_copies_[warp.index * kWarpSize + lane];
    const uint64_t bytes = std::min<uint64_t>(values[3] & LowBits(32), operation.count);
    pending.copies.push_back(
        {&operation, values[0] + values[4], values[1] + operation.offset, static_cast<uint32_t>(bytes), pending.group});
  }
  return absl::OkStatus();
}

absl::Status WarpExecutor::WaitForCopies(Warp& warp, const Operation& operation, uint32_t mask) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    AsyncCopies& pending = async_copies_[warp.index * kWarpSize + lane];
    const bool all = operation.instruction->text.find("wait_all") != std::string::npos;
    const int before = all ? pending.group + 1 : pending.group - operation.count;
    size_t done = 0;
    for (; done < pending.copies.size() && pending.copies[done].group < before; ++done) {
      const PendingCopy& copy = pending.copies[done];
      std::byte bytes[16] = {};
      ThreadAccess access{.space = Space::kGlobal,
                          .address = copy.global_address,
                          .size = static_cast<uint32_t>(copy.operation->count),
                          .point = PointOf(warp, *copy.operation, lane)};
      absl::Status status;
      if (copy.bytes > 0) {
        access.size = copy.bytes;
        status = memory_.Load(access, bytes);
        memory_.CountAccess({{access.address, access.size}}, true);
      }
      access.space = Space::kShared;
      access.address = copy.shared_address;
      access.size = copy.operation->count;
      if (status.ok()) status = memory_.Store(access, bytes);
      if (!status.ok()) return Fault(warp, *copy.operation, lane, status);
    }
    pending.copies.erase(pending.copies.begin(), pending.copies.begin() + static_cast<int64_t>(done));
  }
  return absl::OkStatus();
}

}  // namespace cotan::cuda::ptx
