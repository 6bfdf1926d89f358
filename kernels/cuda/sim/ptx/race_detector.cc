// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/race_detector.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
    if (!words && !page.bytewise) {
      std::vector<Cell> cells(kPageBytes);
      for (int i = 0; i < kPageBytes; ++i) cells[i] = page.cells[i / 4];
      page.cells = std::move(cells);
      page.bytewise = true;
    }
    const int step = page.bytewise ? 1 : 4;
    COTAN_RETURN_IF_ERROR(AccessCell(page.cells[at % kPageBytes / step], kind, point));
    at += step;
  }
  return absl::OkStatus();
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

void RaceDetector::Clear() { *this = RaceDetector(); }

RaceDetector::Page& RaceDetector::PageAt(uint64_t number) {
  if (number == cached_number_) return *cached_;
  std::unique_ptr<Page>& page = pages_[number];
  if (page == nullptr) {
    page = std::make_unique<Page>();
    page->cells.resize(kPageBytes / 4);
  }
  cached_number_ = number;
  cached_ = page.get();
  return *page;
}

}  // namespace cotan::cuda::ptx
