// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/memory_unit.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

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

// Sets `run` and `uniform`.
void Classify(WarpAccess& access) {
  if (access.mask == 0) return;
  const uint64_t first = access.address[std::countr_zero(access.mask)];
  const int lanes = std::popcount(access.mask);
  bool run = (access.mask & (access.mask + 1)) == 0 && std::has_single_bit(access.size);
  for (int i = 1; run && i < lanes; ++i) run = access.address[i] == first + static_cast<uint64_t>(i) * access.size;
  bool uniform = true;
  for (uint32_t rest = access.mask; uniform && rest != 0; rest &= rest - 1) {
    uniform = access.address[std::countr_zero(rest)] == first;
  }
  access.run = run;
  access.uniform = uniform;
}

// The words of shared memory that one pass may need, by bank.
class Banks {
 public:
  void Add(uint64_t word) {
    const size_t bank = word % kBanks;
    uint64_t* const words = words_[bank];
    for (uint32_t i = 0; i < count_[bank]; ++i) {
      if (words[i] == word) return;
    }
    words[count_[bank]++] = word;
    passes_ = std::max(passes_, count_[bank]);
  }
  uint32_t passes() const { return passes_; }

 private:
  static constexpr size_t kBanks = 32;
  uint32_t passes_ = 0;
  uint32_t count_[kBanks] = {};
  uint64_t words_[kBanks][2 * kWarpSize];  // Only the counted ones are set.
};

// Returns the number of passes beyond one that a shared access takes: a bank serves one 4-byte word
// a pass, to any number of lanes. Accesses of 8 and 16 bytes are served by halves and quarters of a warp.
uint64_t BankConflicts(const WarpAccess& access) {
  const uint32_t at_once = std::max<uint32_t>(1, 128 / std::max<uint32_t>(access.size, 4));
  uint64_t conflicts = 0;
  for (uint32_t rest = access.mask; rest != 0;) {
    Banks banks;
    uint64_t last = ~uint64_t{0};
    for (uint32_t i = 0; i < at_once && rest != 0; ++i, rest &= rest - 1) {
      const uint64_t address = access.address[std::countr_zero(rest)];
      if (address == last) continue;
      last = address;
      for (uint64_t word = address / 4; word <= (address + access.size - 1) / 4; ++word) banks.Add(word);
    }
    conflicts += banks.passes() - 1;
  }
  return conflicts;
}

// Sets `sectors` to those of an access, in ascending order, and returns their number.
size_t FindSectors(const WarpAccess& access, uint64_t (&sectors)[kWarpSize * 3]) {
  size_t count = 0;
  ForEachLane(access.mask, [&](int lane) {
    const uint64_t address = access.address[lane];
    for (uint64_t sector = address / kSectorBytes; sector <= (address + access.size - 1) / kSectorBytes; ++sector) {
      if (count == 0 || sectors[count - 1] != sector) sectors[count++] = sector;
    }
  });
  std::sort(sectors, sectors + count);
  return static_cast<size_t>(std::unique(sectors, sectors + count) - sectors);
}

// Returns whether `size` bytes from `written` on are all 1.
bool AllWritten(const uint8_t* written, uint32_t size) {
  if (size == 4) {
    uint32_t value;
    std::memcpy(&value, written, sizeof(value));
    return value == 0x01010101;
  }
  if (size % 8 == 0) {
    uint64_t all = 0x0101010101010101;
    for (uint32_t i = 0; i < size; i += 8) {
      uint64_t value;
      std::memcpy(&value, written + i, sizeof(value));
      all &= value;
    }
    return all == 0x0101010101010101;
  }
  return std::memchr(written, 0, size) == nullptr;
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

MemoryUnit::MemoryUnit(const Program& program, const Launch& launch, LaunchMemory& memory)
    : program_(program),
      launch_(launch),
      memory_(memory),
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

absl::Status MemoryUnit::CheckRace(const ThreadAccess& access, RaceDetector::Kind kind) {
  if (!launch_.check_races) return absl::OkStatus();
  RaceDetector& races = access.space == Space::kGlobal ? memory_.races : shared_races_;
  return races.Access(access.address, access.size, kind, access.point);
}

absl::Status MemoryUnit::LoadOnChip(const ThreadAccess& access, bool racy, std::byte* to) {
  Bytes* bytes = nullptr;
  uint64_t offset = 0;
  COTAN_RETURN_IF_ERROR(Locate(access, bytes, offset));
  if (access.space == Space::kShared && racy) {
    COTAN_RETURN_IF_ERROR(CheckRace(access, RaceDetector::Kind::kRead));
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
  COTAN_RETURN_IF_ERROR(memory_.global.Load(ToGlobal(access), to));
  const auto kind = access.read_only ? RaceDetector::Kind::kReadOnly : RaceDetector::Kind::kRead;
  return CheckRace(access, kind);
}

absl::Status MemoryUnit::Store(ThreadAccess access, const std::byte* from) {
  COTAN_RETURN_IF_ERROR(Resolve(access));
  if (access.space == Space::kParam) return absl::InvalidArgumentError("writes a parameter of the kernel");
  if (access.space == Space::kGlobal) {
    COTAN_RETURN_IF_ERROR(memory_.global.Store(ToGlobal(access), from));
    return CheckRace(access, RaceDetector::Kind::kWrite);
  }
  Bytes* bytes = nullptr;
  uint64_t offset = 0;
  COTAN_RETURN_IF_ERROR(Locate(access, bytes, offset));
  if (access.space == Space::kShared) {
    COTAN_RETURN_IF_ERROR(CheckRace(access, RaceDetector::Kind::kWrite));
  }
  std::memcpy(bytes->data.data() + offset, from, access.size);
  std::fill_n(bytes->written.begin() + static_cast<int64_t>(offset), access.size, 1);
  return absl::OkStatus();
}

absl::Status MemoryUnit::Atomic(ThreadAccess access, absl::FunctionRef<uint64_t(uint64_t)> update, uint64_t& previous) {
  COTAN_RETURN_IF_ERROR(Resolve(access));
  if (access.space == Space::kGlobal) {
    ++memory_.counters.global_atomics;
    COTAN_ASSIGN_OR_RETURN(previous, memory_.global.Atomic(ToGlobal(access), update));
    return CheckRace(access, RaceDetector::Kind::kWrite);
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
  memory_.races.Synchronize(access.address, access.point.block, reads, writes);
}

bool MemoryUnit::Locate(WarpAccess& access, bool store) {
  if (access.space == Space::kGeneric) {
    const uint64_t window = access.address[std::countr_zero(access.mask)] >> 56;
    bool same = true;
    ForEachLane(access.mask, [&](int lane) { same &= access.address[lane] >> 56 == window; });
    if (!same) return false;
    access.space = SpaceOf(window << 56);
    if (access.space != Space::kGlobal) {
      ForEachLane(access.mask, [&](int lane) { access.address[lane] &= kOffsetMask; });
    }
  }
  if (access.space == Space::kConst) access.space = Space::kGlobal;
  uint64_t misaligned = 0;
  ForEachLane(access.mask, [&](int lane) { misaligned |= access.address[lane]; });
  if (!std::has_single_bit(access.size) || misaligned % access.size != 0) return false;
  if (access.space == Space::kParam) return !store && LocateParameters(access);
  if (!(access.space == Space::kGlobal ? LocateGlobal(access) : LocateOnChip(access))) return false;
  Classify(access);
  if (store) return true;
  bool written = true;
  ForEachLane(access.mask, [&](int lane) { written &= AllWritten(access.written[lane], access.size); });
  return written;
}

void MemoryUnit::ResolveSpace(WarpAccess& access) const {
  Classify(access);
  if (access.space == Space::kConst) access.space = Space::kGlobal;
  if (access.space != Space::kGeneric) return;
  access.space = SpaceOf(access.address[std::countr_zero(access.mask)]);
}

bool MemoryUnit::LocateGlobal(WarpAccess& access) {
  const GlobalBlock* block = &blocks_[0];
  for (uint32_t rest = access.mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const uint64_t address = access.address[lane];
    if (address - block->address >= block->bytes) {
      block = std::find_if(std::begin(blocks_), std::end(blocks_),
                           [&](const GlobalBlock& known) { return address - known.address < known.bytes; });
      if (block == std::end(blocks_)) {
        GlobalBlock found;
        if (!memory_.global.FindBlock(address, found)) return false;
        block = &(blocks_[next_block_] = found);
        next_block_ = (next_block_ + 1) % kCachedBlocks;
      }
    }
    const uint64_t offset = address - block->address;
    if (access.size > block->bytes - offset) return false;
    access.data[lane] = block->content + offset;
    access.written[lane] = block->written + offset;
  }
  return true;
}

bool MemoryUnit::LocateOnChip(WarpAccess& access) {
  const bool shared = access.space == Space::kShared;
  Bytes& bytes = shared ? shared_ : frames_;
  const uint64_t size = shared ? shared_.data.size() : static_cast<uint64_t>(program_.frame_bytes);
  for (uint32_t rest = access.mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    uint64_t& address = access.address[lane];
    address &= 0xffffffff;
    if (address > size || access.size > size - address) return false;
    const uint64_t offset = address + (shared ? 0 : (access.point.thread + static_cast<uint64_t>(lane)) * size);
    access.data[lane] = bytes.data.data() + offset;
    access.written[lane] = bytes.written.data() + offset;
  }
  return true;
}

bool MemoryUnit::LocateParameters(WarpAccess& access) {
  for (uint32_t rest = access.mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const uint64_t address = access.address[lane], size = launch_.parameters.size();
    if (address > size || access.size > size - address) return false;
    // Nothing is written there: Locate refuses stores.
    access.data[lane] = const_cast<std::byte*>(launch_.parameters.data()) + address;
  }
  return true;
}

absl::Status MemoryUnit::CheckRaces(const WarpAccess& access, RaceDetector::Kind kind, int& lane) {
  if (!launch_.check_races) return absl::OkStatus();
  if (access.space != Space::kGlobal && access.space != Space::kShared) return absl::OkStatus();
  RaceDetector& races = access.space == Space::kGlobal ? memory_.races : shared_races_;
  if (access.run) {
    return races.AccessRun(access.address[0], access.size, std::popcount(access.mask), kind, access.point, lane);
  }
  return races.AccessLanes(access.address, access.size, access.mask, kind, access.point, lane);
}

void MemoryUnit::CountAccess(const WarpAccess& access, bool load) {
  if (access.space == Space::kShared) {
    ++memory_.counters.shared_accesses;
    if (!access.uniform && !(access.run && access.size == 4)) {
      memory_.counters.shared_bank_conflicts += BankConflicts(access);
    }
  }
  if (access.space != Space::kGlobal) return;
  const auto lanes = static_cast<uint64_t>(std::popcount(access.mask));
  SectorSet& known = load ? memory_.loaded_sectors : memory_.stored_sectors;
  uint64_t sectors = 0, distinct = 0;
  if (access.run) {
    const uint64_t first = access.address[0] / kSectorBytes;
    const uint64_t last = (access.address[0] + lanes * access.size - 1) / kSectorBytes;
    sectors = last - first + 1;
    distinct = known.Add(first, last);
  } else {
    uint64_t found[kWarpSize * 3];
    sectors = FindSectors(access, found);
    for (size_t i = 0; i < sectors; ++i) distinct += known.Add(found[i], found[i]);
  }
  (load ? memory_.counters.global_load_bytes : memory_.counters.global_store_bytes) += lanes * access.size;
  (load ? memory_.counters.global_load_sectors : memory_.counters.global_store_sectors) += sectors;
  (load ? memory_.counters.distinct_load_sectors : memory_.counters.distinct_store_sectors) += distinct;
}

uint64_t SectorSet::Add(uint64_t first, uint64_t last) {
  uint64_t added = 0;
  for (uint64_t number = first / 64; number <= last / 64; ++number) {
    if (number != last_number_) {
      last_word_ = &words_[number];
      last_number_ = number;
    }
    const uint64_t begin = std::max(first, number * 64) % 64, end = std::min(last, number * 64 + 63) % 64;
    const uint64_t bits = ~uint64_t{0} >> (63 - (end - begin)) << begin;
    added += static_cast<uint64_t>(std::popcount(bits & ~*last_word_));
    *last_word_ |= bits;
  }
  return added;
}

}  // namespace cotan::cuda::ptx
