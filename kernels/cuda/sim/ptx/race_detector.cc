// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/race_detector.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::ptx {
namespace {

bool SameWarp(const AccessPoint& a, const AccessPoint& b) {
  return a.block == b.block && a.thread / 32 == b.thread / 32;
}
bool SameThread(const AccessPoint& a, const AccessPoint& b) { return a.block == b.block && a.thread == b.thread; }

// Returns the bits of `size` bytes of a page.
uint64_t BytesOf(uint64_t address, uint64_t size) { return (~uint64_t{0} >> (64 - size)) << address % 64; }

absl::Status Race(const char* verb, const char* other_verb, const AccessPoint& other, const AccessPoint& point) {
  std::string who = absl::StrCat("thread ", other.thread);
  const char* missing = "without a barrier between them";
  if (other.block != point.block) {
    who = absl::StrCat("block ", other.block, " (", who, ")");
    missing = "in the same launch";
  }
  return absl::FailedPreconditionError(
      absl::StrCat("race: ", verb, " what ", who, " ", other_verb, " at PTX line ", other.line, " ", missing));
}

}  // namespace

absl::Status RaceDetector::Access(uint64_t address, uint32_t size, Kind kind, const AccessPoint& point) {
  const uint64_t end = address + size;
  for (uint64_t at = address; at < end;) {
    const uint64_t stop = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    COTAN_RETURN_IF_ERROR(AccessPage(PageAt(at / kPageBytes), at, static_cast<uint32_t>(stop - at), kind, point));
    at = stop;
  }
  return absl::OkStatus();
}

absl::Status RaceDetector::AccessPage(Page& page, uint64_t address, uint32_t size, Kind kind,
                                      const AccessPoint& point) {
  const bool reads = kind != Kind::kWrite;
  if (page.saturated && page.block != point.block && reads && (kind == Kind::kRead || page.read_only)) {
    return absl::OkStatus();
  }
  if (IsSettled(page, BytesOf(address, size), kind, point)) return absl::OkStatus();
  const bool words = address % 4 == 0 && size % 4 == 0;
  if (page.state != PageState::kCells || (!words && !page.bytewise)) Expand(page, !words);
  if (!reads) {
    page.saturated = false;
    page.settled = page.settled_read_only = 0;
  }
  const uint32_t step = page.bytewise ? 1 : 4;
  const uint64_t begin = address % kPageBytes;
  for (uint64_t at = begin; at < begin + size; at += step) {
    Cell& cell = page.cells[at / step];
    COTAN_RETURN_IF_ERROR(AccessCell(cell, kind, point));
    if (reads) Settle(page, cell, BytesOf(at, step), point);
  }
  return absl::OkStatus();
}

absl::Status RaceDetector::AccessLanes(const uint64_t* addresses, uint32_t size, uint32_t mask, Kind kind,
                                       const AccessPoint& point, int& lane) {
  AccessPoint of_lane = point;
  // Two reads of a byte are kept, of which those of the first two lanes are as good as all.
  uint64_t last[2] = {~uint64_t{0}, ~uint64_t{0}};
  for (; mask != 0; mask &= mask - 1) {
    const int each = std::countr_zero(mask);
    const uint64_t address = addresses[each];
    if (kind != Kind::kWrite) {
      if (address == last[0] && address == last[1]) continue;
      last[1] = last[0];
      last[0] = address;
    }
    const uint64_t in_page = address % kPageBytes;
    if (in_page + size <= kPageBytes && IsSettled(PageAt(address / kPageBytes), BytesOf(in_page, size), kind, point)) {
      continue;
    }
    lane = each;
    of_lane.thread = point.thread + static_cast<uint32_t>(each);
    COTAN_RETURN_IF_ERROR(Access(address, size, kind, of_lane));
  }
  return absl::OkStatus();
}

bool RaceDetector::IsSettled(const Page& page, uint64_t bytes, Kind kind, const AccessPoint& point) {
  if (kind == Kind::kWrite || page.state != PageState::kCells || page.settled_block != point.block ||
      page.settled_epoch != point.block_epoch) {
    return false;
  }
  return (bytes & ~(kind == Kind::kReadOnly ? page.settled_read_only : page.settled)) == 0;
}

// Two warps of the block read the cell in this epoch, so that each write in the epoch is a race with one of them, and
// a barrier orders all reads of the epoch before later writes of the block. Other blocks see no difference between the
// reads of a block.
void RaceDetector::Settle(Page& page, const Cell& cell, uint64_t bytes, const AccessPoint& point) {
  const auto is_of_epoch = [&](const AccessPoint& read) {
    return read.block == point.block && read.block_epoch == point.block_epoch && !read.strong;
  };
  if (!is_of_epoch(cell.reads[0]) || !is_of_epoch(cell.reads[1]) || SameWarp(cell.reads[0], cell.reads[1])) return;
  const AccessPoint& write = cell.write;
  const bool is_ordered =
      write.block_epoch == 0 || (write.block == point.block && write.block_epoch < point.block_epoch);
  if (!is_ordered) return;
  if (page.settled_block != point.block || page.settled_epoch != point.block_epoch) {
    page.settled_block = point.block;
    page.settled_epoch = point.block_epoch;
    page.settled = page.settled_read_only = 0;
  }
  page.settled |= bytes;
  if (cell.read_only_line != 0) page.settled_read_only |= bytes;
}

absl::Status RaceDetector::AccessRun(uint64_t address, uint32_t size, int lanes, Kind kind, const AccessPoint& point,
                                     int& lane) {
  const auto shift = static_cast<uint8_t>(std::countr_zero(size));
  const uint64_t end = address + size * static_cast<uint64_t>(lanes);
  AccessPoint of_lane = point;
  for (uint64_t at = address; at < end;) {
    const uint64_t page_end = (at / kPageBytes + 1) * kPageBytes;
    Page& page = PageAt(at / kPageBytes);
    if (IsSettled(page, BytesOf(at, std::min(page_end, end) - at), kind, point)) {
      at = page_end;
      continue;
    }
    const bool whole = at % kPageBytes == 0 && page_end <= end;
    AccessPoint first = point;
    first.thread = point.thread + static_cast<uint32_t>((at - address) >> shift);
    if (whole && RunPage(page, shift, kind, first)) {
      at = page_end;
      continue;
    }
    const uint64_t stop = std::min(page_end, end);
    for (; at < stop; at += size) {
      lane = static_cast<int>((at - address) >> shift);
      of_lane.thread = point.thread + static_cast<uint32_t>(lane);
      COTAN_RETURN_IF_ERROR(AccessPage(page, at, size, kind, of_lane));
    }
    if (whole) Simplify(page, shift, kind, first);
  }
  return absl::OkStatus();
}

bool RaceDetector::RunPage(Page& page, uint8_t shift, Kind kind, const AccessPoint& first) {
  const Stamp stamp{first.block_epoch, first.warp_epoch, first.line};
  switch (page.state) {
    case PageState::kEmpty:
      if (first.strong) return false;
      page.state = PageState::kRun;
      page.shift = shift;
      page.first_thread = first.thread;
      page.block = first.block;
      page.write = page.read = {};
      page.read_only_line = 0;
      break;
    case PageState::kRun:
      if (first.strong || page.block != first.block || page.first_thread != first.thread || page.shift != shift ||
          (kind == Kind::kWrite && page.read_only_line != 0) ||
          (kind == Kind::kReadOnly && page.write.block_epoch != 0)) {
        return false;
      }
      break;
    case PageState::kCells:
      return page.saturated && page.block != first.block && page.other_block != first.block && kind != Kind::kWrite &&
             (kind == Kind::kRead || page.read_only);
  }
  (kind == Kind::kWrite ? page.write : page.read) = stamp;
  if (kind == Kind::kReadOnly) page.read_only_line = first.line;
  return true;
}

void RaceDetector::Expand(Page& page, bool bytewise) {
  if (page.state == PageState::kRun && page.shift < 2) bytewise = true;
  const uint32_t step = bytewise ? 1 : 4;
  std::unique_ptr<Cell[]> cells = std::make_unique<Cell[]>(kPageBytes / step);
  for (uint32_t byte = 0; byte < kPageBytes; byte += step) {
    Cell& cell = cells[byte / step];
    if (page.state == PageState::kCells) cell = page.cells[byte / 4];
    if (page.state != PageState::kRun) continue;
    const auto point_of = [&](const Stamp& stamp) {
      return AccessPoint{.block = page.block,
                         .thread = page.first_thread + (byte >> page.shift),
                         .block_epoch = stamp.block_epoch,
                         .warp_epoch = stamp.warp_epoch,
                         .line = stamp.line};
    };
    cell.write = point_of(page.write);
    cell.reads[0] = point_of(page.read);
    cell.read_only_line = page.read_only_line;
  }
  if (page.state != PageState::kCells) page.settled = page.settled_read_only = 0;
  page.state = PageState::kCells;
  page.bytewise = bytewise;
  page.cells = std::move(cells);
}

bool RaceDetector::IsReadByTwo(const Cell& cell) {
  return cell.write.block_epoch == 0 && cell.reads[0].block_epoch != 0 && cell.reads[1].block_epoch != 0 &&
         cell.reads[0].block != cell.reads[1].block;
}

void RaceDetector::Simplify(Page& page, uint8_t shift, Kind kind, const AccessPoint& first) {
  if (page.state != PageState::kCells) return;
  if (kind == Kind::kWrite) {
    // All before is ordered before these writes, and so before what is ordered after them.
    if (first.strong) return;
    page.state = PageState::kRun;
    page.shift = shift;
    page.first_thread = first.thread;
    page.block = first.block;
    page.write = {first.block_epoch, first.warp_epoch, first.line};
    page.read = {};
    page.read_only_line = 0;
    page.saturated = false;
    return;
  }
  const AccessPoint(&reads)[2] = page.cells[0].reads;
  bool saturated = true, read_only = true;
  for (uint32_t i = 0; i < kPageBytes / (page.bytewise ? 1 : 4); ++i) {
    const Cell& cell = page.cells[i];
    saturated = saturated && IsReadByTwo(cell) && cell.reads[0].block == reads[0].block &&
                cell.reads[1].block == reads[1].block;
    read_only = read_only && cell.read_only_line != 0;
  }
  page.saturated = saturated;
  page.read_only = read_only;
  page.block = reads[0].block;
  page.other_block = reads[1].block;
}

absl::Status RaceDetector::AccessCell(Cell& cell, Kind kind, const AccessPoint& point) {
  const AccessPoint& write = cell.write;
  const bool is_before_barrier = write.block == point.block && write.block_epoch < point.block_epoch;
  if (write.block_epoch != 0 && !is_before_barrier && !IsOrdered(write, point)) {
    return Race(kind == Kind::kWrite ? "writes" : "reads", "writes", write, point);
  }
  if (kind == Kind::kWrite) {
    if (cell.read_only_line != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("writes what the launch reads with .nc at PTX line ", cell.read_only_line));
    }
    for (const AccessPoint& read : cell.reads) {
      if (read.block_epoch != 0 && !IsOrdered(read, point)) return Race("writes", "reads", read, point);
    }
    cell.write = point;
    return absl::OkStatus();
  }
  if (kind == Kind::kReadOnly) {
    if (write.block_epoch != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("reads with .nc what the launch writes at PTX line ", write.line));
    }
    cell.read_only_line = point.line;
  }
  RecordRead(cell, point);
  return absl::OkStatus();
}

void RaceDetector::RecordRead(Cell& cell, const AccessPoint& point) const {
  AccessPoint& first = cell.reads[0];
  AccessPoint& second = cell.reads[1];
  const auto replaceable = [&](const AccessPoint& read) {
    return read.block_epoch == 0 || SameThread(read, point) ||
           (read.block == point.block && !(read.strong && point.strong) && IsOrdered(read, point));
  };
  if (replaceable(first)) {
    first = point;
    return;
  }
  // The second read is the one farthest from the first: another block, else another warp.
  if (replaceable(second) || (second.block == first.block && point.block != first.block) ||
      (SameWarp(first, second) && !SameWarp(first, point))) {
    second = point;
  }
}

bool RaceDetector::IsOrdered(const AccessPoint& before, const AccessPoint& after) const {
  if (before.strong && after.strong) return true;
  if (before.block != after.block) return IsAcquired(after.block, before.block);
  return before.thread == after.thread || before.block_epoch < after.block_epoch ||
         (SameWarp(before, after) && before.warp_epoch < after.warp_epoch);
}

bool RaceDetector::IsAcquired(uint64_t by, uint64_t block) const {
  const auto addresses = acquired_.find(by);
  if (addresses == acquired_.end()) return false;
  for (const auto& [address, read_time] : addresses->second) {
    const auto blocks = released_.find(address);
    if (blocks == released_.end()) continue;
    const auto write_time = blocks->second.find(block);
    if (write_time != blocks->second.end() && write_time->second <= read_time) return true;
  }
  return false;
}

void RaceDetector::Fence(uint64_t block) {
  fenced_.insert(block);
  const auto observed = observed_.find(block);
  if (observed == observed_.end()) return;
  Times& acquired = acquired_[block];
  for (const auto& [address, time] : observed->second) acquired[address] = time;
}

void RaceDetector::Synchronize(uint64_t address, uint64_t block, bool reads, bool writes) {
  ++time_;
  if (reads) observed_[block][address] = time_;
  if (writes && fenced_.contains(block)) released_[address].try_emplace(block, time_);
}

void RaceDetector::Clear() {
  ++generation_;
  last_number_ = kNoPage;
  released_.clear();
  fenced_.clear();
  observed_.clear();
  acquired_.clear();
}

RaceDetector::Page& RaceDetector::FindPage(uint64_t number) {
  const uint64_t chunk_number = number / kChunkPages;
  CachedChunk& cached = cache_[chunk_number % kCachedChunks];
  if (cached.number != chunk_number) {
    std::unique_ptr<Chunk>& chunk = chunks_[chunk_number];
    if (chunk == nullptr) chunk = std::make_unique<Chunk>();
    cached = {chunk_number, chunk.get()};
  }
  Page& page = cached.chunk->pages[number % kChunkPages];
  if (page.generation != generation_) {
    page.generation = generation_;
    page.state = PageState::kEmpty;
    page.saturated = false;
  }
  return page;
}

}  // namespace cotan::cuda::ptx
