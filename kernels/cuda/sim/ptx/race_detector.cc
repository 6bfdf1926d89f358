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
  const bool words = address % 4 == 0 && size % 4 == 0;
  for (uint64_t at = address; at < address + size;) {
    Page& page = PageAt(at / kPageBytes);
    if (page.saturated && page.block != point.block && (kind == Kind::kRead || page.read_only) &&
        kind != Kind::kWrite) {
      at = (at / kPageBytes + 1) * kPageBytes;
      continue;
    }
    if (page.state != PageState::kCells || (!words && !page.bytewise)) Expand(page, !words);
    if (kind == Kind::kWrite) page.saturated = false;
    const uint32_t step = page.bytewise ? 1 : 4;
    COTAN_RETURN_IF_ERROR(AccessCell(page.cells[at % kPageBytes / step], kind, point));
    at += step;
  }
  return absl::OkStatus();
}

absl::Status RaceDetector::AccessRun(uint64_t address, uint32_t size, int lanes, Kind kind, const AccessPoint& point,
                                     int& lane) {
  const auto shift = static_cast<uint8_t>(std::countr_zero(size));
  const uint64_t end = address + size * static_cast<uint64_t>(lanes);
  AccessPoint of_lane = point;
  for (uint64_t at = address; at < end;) {
    const uint64_t page_end = (at / kPageBytes + 1) * kPageBytes;
    const bool whole = at % kPageBytes == 0 && page_end <= end;
    AccessPoint first = point;
    first.thread = point.thread + static_cast<uint32_t>((at - address) >> shift);
    if (whole && RunPage(PageAt(at / kPageBytes), shift, kind, first)) {
      at = page_end;
      continue;
    }
    const uint64_t stop = std::min(page_end, end);
    for (; at < stop; at += size) {
      lane = static_cast<int>((at - address) >> shift);
      of_lane.thread = point.thread + static_cast<uint32_t>(lane);
      COTAN_RETURN_IF_ERROR(Access(at, size, kind, of_lane));
    }
    if (whole) Simplify(PageAt(page_end / kPageBytes - 1), shift, kind, first);
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
      return page.saturated && page.block != first.block && kind != Kind::kWrite &&
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
  page.state = PageState::kCells;
  page.bytewise = bytewise;
  page.cells = std::move(cells);
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
  bool saturated = true, read_only = true;
  for (uint32_t i = 0; i < kPageBytes / (page.bytewise ? 1 : 4); ++i) {
    const Cell& cell = page.cells[i];
    saturated = saturated && cell.write.block_epoch == 0 && cell.reads[0].block_epoch != 0 &&
                cell.reads[1].block_epoch != 0 && cell.reads[0].block != cell.reads[1].block;
    read_only = read_only && cell.read_only_line != 0;
  }
  page.saturated = saturated;
  page.read_only = read_only;
  page.block = first.block;
}

absl::Status RaceDetector::AccessCell(Cell& cell, Kind kind, const AccessPoint& point) {
  const AccessPoint& write = cell.write;
  if (write.block_epoch != 0 && !IsOrdered(write, point)) {
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
  for (const uint64_t address : addresses->second) {
    const auto blocks = released_.find(address);
    if (blocks != released_.end() && blocks->second.contains(block)) return true;
  }
  return false;
}

void RaceDetector::Fence(uint64_t block) {
  fenced_.insert(block);
  const auto observed = observed_.find(block);
  if (observed == observed_.end()) return;
  acquired_[block].insert(observed->second.begin(), observed->second.end());
}

void RaceDetector::Synchronize(uint64_t address, uint64_t block, bool reads, bool writes) {
  if (reads) observed_[block].insert(address);
  if (writes && fenced_.contains(block)) released_[address].insert(block);
}

void RaceDetector::Clear() {
  ++generation_;
  released_.clear();
  fenced_.clear();
  observed_.clear();
  acquired_.clear();
}

RaceDetector::Page& RaceDetector::PageAt(uint64_t number) {
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
