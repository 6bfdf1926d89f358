// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/memory_unit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::ptx {
namespace {

constexpr uint32_t kSectorBytes = 32;
constexpr uint64_t kOffsetMask = kSharedWindow - 1;

Space SpaceOf(uint64_t address) {
  switch (address >> 56) {
    case 1:
      return Space::kShared;
    case 2:
      return Space::kLocal;
    case 3:
      return Space::kParam;
    default:
      return Space::kGlobal;
  }
}

const char* SpaceName(Space space) {
  switch (space) {
    case Space::kShared:
      return "shared";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      return "parameter";
    default:
      return "global";
  }
}

// Returns the number of passes beyond one that a shared access takes: a bank serves one 4-byte word
// a pass, to any number of lanes. Accesses of 8 and 16 bytes are served by halves and quarters of a warp.
uint64_t BankConflicts(const std::vector<std::pair<uint64_t, uint32_t>>& lanes) {
  uint64_t conflicts = 0;
  for (size_t first = 0; first < lanes.size();) {
    std::vector<uint64_t> words;
    uint32_t bytes = 0;
    for (; first < lanes.size() && (bytes == 0 || bytes + lanes[first].second <= 128); ++first) {
      const auto [address, size] = lanes[first];
      bytes += std::max<uint32_t>(size, 4);
      for (uint64_t word = address / 4; word <= (address + size - 1) / 4; ++word) words.push_back(word);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    uint64_t of_bank[32] = {};
    uint64_t passes = 0;
    for (const uint64_t word : words) passes = std::max(passes, ++of_bank[word % 32]);
    conflicts += passes - 1;
  }
  return conflicts;
}

}  // namespace

uint64_t WindowOf(Space space) {
  switch (space) {
    case Space::kShared:
      return kSharedWindow;
    case Space::kLocal:
      return kLocalWindow;
    case Space::kParam:
      return kParamWindow;
    default:
      return 0;
  }
}

MemoryUnit::MemoryUnit(const Program& program, const Launch& launch, GlobalMemory& global, Counters& counters)
    : program_(program),
      launch_(launch),
      global_(global),
      counters_(counters),
      threads_(uint64_t{launch.block[0]} * launch.block[1] * launch.block[2]) {}

void MemoryUnit::StartBlock() {
  shared_.Reset(program_.static_shared_bytes + launch_.dynamic_shared_bytes);
  frames_.Reset(threads_ * program_.frame_bytes);
  shared_races_.Clear();
}

absl::Status MemoryUnit::Resolve(ThreadAccess& access) const {
  if (access.space == Space::kGeneric) {
    access.space = SpaceOf(access.address);
    if (access.space != Space::kGlobal) access.address &= kOffsetMask;
  }
  if (access.space == Space::kConst) access.space = Space::kGlobal;
  if (access.space == Space::kShared || access.space == Space::kLocal) access.address &= 0xffffffff;
  if (access.address % access.size == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("misaligned access of ", access.size, " bytes at ",
                                                 SpaceName(access.space), " address 0x", absl::Hex(access.address)));
}

absl::Status MemoryUnit::Locate(const ThreadAccess& access, Bytes*& bytes, uint64_t& offset) {
  const bool shared = access.space == Space::kShared;
  bytes = shared ? &shared_ : &frames_;
  const uint64_t size = shared ? shared_.data.size() : program_.frame_bytes;
  if (access.address > size || access.size > size - access.address) {
    return absl::OutOfRangeError(absl::StrCat("access of ", access.size, " bytes at ", SpaceName(access.space),
                                              " address ", access.address, " outside of ", size, " bytes"));
  }
  offset = access.address + (shared ? 0 : access.point.thread * size);
  return absl::OkStatus();
}

GlobalAccess MemoryUnit::ToGlobal(const ThreadAccess& access) const {
  return {access.address, access.size, access.point.block, access.point.thread, access.point.line};
}

absl::Status MemoryUnit::LoadOnChip(const ThreadAccess& access, bool racy, std::byte* to) {
  Bytes* bytes = nullptr;
  uint64_t offset = 0;
  COTAN_RETURN_IF_ERROR(Locate(access, bytes, offset));
  if (access.space == Space::kShared && racy) {
    COTAN_RETURN_IF_ERROR(shared_races_.Access(access.address, access.size, RaceDetector::Kind::kRead, access.point));
  }
  for (uint32_t i = 0; i < access.size; ++i) {
    if (bytes->written[offset + i]) continue;
    return absl::FailedPreconditionError(absl::StrCat("reads ", SpaceName(access.space), " memory at address ",
                                                      access.address + i, " that was never written"));
  }
  std::memcpy(to, bytes->data.data() + offset, access.size);
  return absl::OkStatus();
}

absl::Status MemoryUnit::Load(ThreadAccess access, std::byte* to) {
  COTAN_RETURN_IF_ERROR(Resolve(access));
  if (access.space == Space::kParam) {
    if (access.address + access.size > launch_.parameters.size()) {
      return absl::OutOfRangeError(absl::StrCat("access of ", access.size, " bytes at parameter address ",
                                                access.address, " outside of ", launch_.parameters.size(), " bytes"));
    }
    std::memcpy(to, launch_.parameters.data() + access.address, access.size);
    return absl::OkStatus();
  }
  if (access.space != Space::kGlobal) return LoadOnChip(access, true, to);
  COTAN_RETURN_IF_ERROR(global_.Load(ToGlobal(access), to));
  const auto kind = access.read_only ? RaceDetector::Kind::kReadOnly : RaceDetector::Kind::kRead;
  return global_races_.Access(access.address, access.size, kind, access.point);
}

absl::Status MemoryUnit::Store(ThreadAccess access, const std::byte* from) {
  COTAN_RETURN_IF_ERROR(Resolve(access));
  if (access.space == Space::kParam) return absl::InvalidArgumentError("writes a parameter of the kernel");
  if (access.space == Space::kGlobal) {
    COTAN_RETURN_IF_ERROR(global_.Store(ToGlobal(access), from));
    return global_races_.Access(access.address, access.size, RaceDetector::Kind::kWrite, access.point);
  }
  Bytes* bytes = nullptr;
  uint64_t offset = 0;
  COTAN_RETURN_IF_ERROR(Locate(access, bytes, offset));
  if (access.space == Space::kShared) {
    COTAN_RETURN_IF_ERROR(shared_races_.Access(access.address, access.size, RaceDetector::Kind::kWrite, access.point));
  }
  std::memcpy(bytes->data.data() + offset, from, access.size);
  std::fill_n(bytes->written.begin() + static_cast<int64_t>(offset), access.size, true);
  return absl::OkStatus();
}

absl::Status MemoryUnit::Atomic(ThreadAccess access, absl::FunctionRef<uint64_t(uint64_t)> update, uint64_t& previous) {
  COTAN_RETURN_IF_ERROR(Resolve(access));
  if (access.space == Space::kGlobal) {
    ++counters_.global_atomics;
    COTAN_ASSIGN_OR_RETURN(previous, global_.Atomic(ToGlobal(access), update));
    return global_races_.Access(access.address, access.size, RaceDetector::Kind::kWrite, access.point);
  }
  if (access.space != Space::kShared) return absl::InvalidArgumentError("atomic access outside of global and shared");
  previous = 0;
  COTAN_RETURN_IF_ERROR(LoadOnChip(access, false, reinterpret_cast<std::byte*>(&previous)));
  const uint64_t value = update(previous);
  return Store(access, reinterpret_cast<const std::byte*>(&value));
}

void MemoryUnit::CopyInFrame(uint32_t thread, const FrameCopy& copy) {
  const int64_t base = static_cast<int64_t>(thread) * program_.frame_bytes;
  for (int64_t i = 0; i < copy.size; ++i) {
    frames_.data[base + copy.to + i] = frames_.data[base + copy.from + i];
    frames_.written[base + copy.to + i] = frames_.written[base + copy.from + i];
  }
}

void MemoryUnit::Synchronize(const ThreadAccess& access, bool reads, bool writes) {
  global_races_.Synchronize(access.address, access.point.block, reads, writes);
}

void MemoryUnit::CountAccess(const std::vector<std::pair<uint64_t, uint32_t>>& lanes, bool load) {
  if (lanes.empty()) return;
  const Space space = SpaceOf(lanes[0].first);
  if (space == Space::kShared) {
    ++counters_.shared_accesses;
    counters_.shared_bank_conflicts += BankConflicts(lanes);
  }
  if (space != Space::kGlobal) return;
  std::vector<uint64_t> sectors;
  uint64_t bytes = 0;
  for (const auto& [address, size] : lanes) {
    bytes += size;
    for (uint64_t sector = address / kSectorBytes; sector <= (address + size - 1) / kSectorBytes; ++sector) {
      if (sectors.empty() || sectors.back() != sector) sectors.push_back(sector);
    }
  }
  std::sort(sectors.begin(), sectors.end());
  const auto distinct = std::unique(sectors.begin(), sectors.end()) - sectors.begin();
  (load ? counters_.global_load_bytes : counters_.global_store_bytes) += bytes;
  (load ? counters_.global_load_sectors : counters_.global_store_sectors) += distinct;
}

}  // namespace cotan::cuda::ptx
