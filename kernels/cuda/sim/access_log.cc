// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/access_log.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace cotan::cuda::sim {
namespace {

// A list is merged whenever its length is a power of two from here on.
constexpr size_t kMergeLength = 4096;

// Returns the lowest address that is in both lists, which are sorted.
std::optional<uint64_t> FindCommon(const std::vector<AccessLog::Range>& a, const std::vector<AccessLog::Range>& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint64_t begin = std::max(a[i].begin, b[j].begin);
    if (begin < std::min(a[i].end, b[j].end)) return begin;
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return std::nullopt;
}

}  // namespace

void AccessLog::Add(std::vector<Range>& ranges, Range range) {
  if (range.begin == range.end) return;
  if (!ranges.empty()) {
    Range& last = ranges.back();
    if (range.begin <= last.end && range.end >= last.begin) {
      last = {std::min(last.begin, range.begin), std::max(last.end, range.end)};
      return;
    }
  }
  ranges.push_back(range);
  if (ranges.size() >= kMergeLength && std::has_single_bit(ranges.size())) Merge(ranges);
}

void AccessLog::Merge(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const Range& range : ranges) {
    if (kept > 0 && range.begin <= ranges[kept - 1].end) {
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    } else {
      ranges[kept++] = range;
    }
  }
  ranges.resize(kept);
}

void AccessLog::Finish() {
  Merge(reads_);
  Merge(writes_);
}

std::optional<AccessLog::Conflict> AccessLog::FindConflict(const AccessLog& first, const AccessLog& second) {
  std::optional<Conflict> found;
  const auto consider = [&](const std::optional<uint64_t>& address, bool first_writes, bool second_writes) {
    if (!address.has_value() || (found.has_value() && found->address <= *address)) return;
    found = Conflict{*address, first_writes, second_writes};
  };
  consider(FindCommon(first.writes_, second.writes_), true, true);
  consider(FindCommon(first.writes_, second.reads_), true, false);
  consider(FindCommon(first.reads_, second.writes_), false, true);
  return found;
}

}  // namespace cotan::cuda::sim
