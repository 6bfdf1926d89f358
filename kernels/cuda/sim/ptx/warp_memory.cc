// SPDX-License-Identifier: Apache-2.0

// Loads, stores, atomics and asynchronous copies of WarpExecutor.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"
#include "kernels/cuda/sim/ptx/warp_executor.h"

namespace cotan::cuda::ptx {
namespace {

constexpr uint32_t kMaxAccessBytes = 64;

}  // namespace

absl::Status WarpExecutor::ReadAddress(Warp& warp, const Operation& operation, int lane, ThreadAccess& access) const {
  access.space = operation.space;
  access.point = PointOf(warp, operation, lane);
  access.read_only = operation.read_only;
  COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[0], lane, access.address));
  access.address += operation.offset;
  return absl::OkStatus();
}

bool WarpExecutor::GatherAccess(Warp& warp, const Operation& operation, uint32_t mask, WarpAccess& access) const {
  uint64_t buffer[kWarpSize];
  const uint64_t* addresses = Gather(warp, operation.sources[0], mask, buffer);
  access.mask = mask;
  access.space = operation.space;
  access.point = PointOf(warp, operation, 0);
  if (addresses == nullptr) return false;
  for (int lane = 0; lane < kWarpSize; ++lane) access.address[lane] = addresses[lane] + operation.offset;
  return true;
}

absl::Status WarpExecutor::Load(Warp& warp, const Operation& operation, uint32_t mask) {
  COTAN_RETURN_IF_ERROR(CheckWaited(warp, operation, mask, 0));
  const int size = operation.type.Bytes();
  WarpAccess access;
  access.size = static_cast<uint32_t>(size * operation.results.size());
  if (!GatherAccess(warp, operation, mask, access) || operation.strong || !memory_.Locate(access, false)) {
    return LoadLanes(warp, operation, mask, access);
  }
  const auto kind = operation.read_only ? RaceDetector::Kind::kReadOnly : RaceDetector::Kind::kRead;
  int lane = 0;
  if (const absl::Status status = memory_.CheckRaces(access, kind, lane); !status.ok()) {
    return Fault(warp, operation, lane, status);
  }
  for (size_t i = 0; i < operation.results.size(); ++i) {
    uint64_t elements[kWarpSize];
    const size_t offset = i * static_cast<size_t>(size);
    if (size == 4 && !operation.type.IsSigned()) {
      ForEachLane(mask, [&](int each) {
        uint32_t element;
        std::memcpy(&element, access.data[each] + offset, sizeof(element));
        elements[each] = element;
      });
    } else {
      ForEachLane(mask, [&](int each) {
        uint64_t element = 0;
        std::memcpy(&element, access.data[each] + offset, static_cast<size_t>(size));
        elements[each] = operation.type.IsSigned() ? SignExtend(element, operation.type.bits) : element;
      });
    }
    WriteLanes(warp, operation.results[i], mask, elements);
  }
  memory_.CountAccess(access, true);
  return absl::OkStatus();
}

absl::Status WarpExecutor::LoadLanes(Warp& warp, const Operation& operation, uint32_t mask,
                                     const WarpAccess& warp_access) {
  const int size = operation.type.Bytes();
  ThreadAccess access{.size = warp_access.size};
  WarpAccess counted = warp_access;
  std::byte bytes[kMaxAccessBytes];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    COTAN_RETURN_IF_ERROR(ReadAddress(warp, operation, lane, access));
    if (const absl::Status status = memory_.Load(access, bytes); !status.ok()) {
      return Fault(warp, operation, lane, status);
    }
    if (operation.strong) memory_.Synchronize(access, true, false);
    counted.address[lane] = access.address;
    for (size_t i = 0; i < operation.results.size(); ++i) {
      uint64_t element = 0;
      std::memcpy(&element, bytes + i * size, size);
      if (operation.type.IsSigned()) element = SignExtend(element, operation.type.bits);
      Write(warp, operation.results[i], lane, element);
    }
  }
  memory_.ResolveSpace(counted);
  memory_.CountAccess(counted, true);
  return absl::OkStatus();
}

absl::Status WarpExecutor::Store(Warp& warp, const Operation& operation, uint32_t mask) {
  COTAN_RETURN_IF_ERROR(CheckWaited(warp, operation, mask, 0));
  const int size = operation.type.Bytes();
  WarpAccess access;
  access.size = static_cast<uint32_t>(size * (operation.sources.size() - 1));
  if (!GatherAccess(warp, operation, mask, access) || operation.strong || !memory_.Locate(access, true)) {
    return StoreLanes(warp, operation, mask, access);
  }
  constexpr size_t kMaxElements = 8;
  uint64_t buffers[kMaxElements][kWarpSize];
  const uint64_t* elements[kMaxElements];
  for (size_t i = 1; i < operation.sources.size(); ++i) {
    elements[i - 1] = Gather(warp, operation.sources[i], mask, buffers[i - 1]);
    if (elements[i - 1] == nullptr) return Undefined(warp, operation, operation.sources[i], mask);
  }
  int lane = 0;
  if (const absl::Status status = memory_.CheckRaces(access, RaceDetector::Kind::kWrite, lane); !status.ok()) {
    return Fault(warp, operation, lane, status);
  }
  ForEachLane(mask, [&](int each) {
    for (size_t i = 0; i + 1 < operation.sources.size(); ++i) {
      std::byte* to = access.data[each] + i * static_cast<size_t>(size);
      if (size == 4) {
        std::memcpy(to, &elements[i][each], 4);
      } else {
        std::memcpy(to, &elements[i][each], static_cast<size_t>(size));
      }
    }
    std::memset(access.written[each], 1, access.size);
  });
  memory_.CountAccess(access, false);
  return absl::OkStatus();
}

absl::Status WarpExecutor::StoreLanes(Warp& warp, const Operation& operation, uint32_t mask,
                                      const WarpAccess& warp_access) {
  const int size = operation.type.Bytes();
  ThreadAccess access{.size = warp_access.size};
  WarpAccess counted = warp_access;
  std::byte bytes[kMaxAccessBytes];
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
    counted.address[lane] = access.address;
  }
  memory_.ResolveSpace(counted);
  memory_.CountAccess(counted, false);
  return absl::OkStatus();
}

absl::Status WarpExecutor::Atomic(Warp& warp, const Operation& operation, uint32_t mask) {
  COTAN_RETURN_IF_ERROR(CheckWaited(warp, operation, mask, 0));
  ThreadAccess access{.size = static_cast<uint32_t>(operation.type.Bytes())};
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    COTAN_RETURN_IF_ERROR(ReadAddress(warp, operation, lane, access));
    uint64_t operand = 0, compare = 0, previous = 0;
    const bool swaps = operation.atomic == AtomicFn::kCompareAndSwap;
    COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[swaps ? 2 : 1], lane, operand));
    if (swaps) COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[1], lane, compare));
    if (operation.release) memory_.Fence(block_);
    const auto update = [&](uint64_t old) { return ApplyAtomic(operation, old, operand, compare); };
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
  COTAN_RETURN_IF_ERROR(CheckWaited(warp, operation, mask, 1));
  async_copies_.resize(num_threads_);
  WarpAccess counted;
  counted.space = Space::kGlobal;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    uint64_t values[5] = {};  // Shared, global, bytes of the copy, bytes that are read, offset of the shared address.
    for (int i = 0; i < 5; ++i) COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[i], lane, values[i]));
    AsyncCopies& pending = async_copies_[warp.index * kWarpSize + lane];
    const uint64_t bytes = std::min<uint64_t>(values[3] & LowBits(32), operation.count);
    pending.copies.push_back(
        {&operation, values[0] + values[4], values[1] + operation.offset, static_cast<uint32_t>(bytes), pending.group});
    if (bytes == 0) continue;
    counted.size = static_cast<uint32_t>(bytes);
    counted.mask |= 1U << lane;
    counted.address[lane] = values[1] + operation.offset;
  }
  if (counted.mask == 0) return absl::OkStatus();
  memory_.ResolveSpace(counted);
  memory_.CountAccess(counted, true);
  return absl::OkStatus();
}

absl::Status WarpExecutor::WaitForCopies(Warp& warp, const Operation& operation, uint32_t mask) {
  async_copies_.resize(num_threads_);
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
