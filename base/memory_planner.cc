// SPDX-License-Identifier: Apache-2.0

#include "base/memory_planner.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/status/status.h"

namespace cotan {
namespace {

constexpr int64_t kMaxArena = int64_t{1} << 62;

int64_t Aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

bool Meet(const BufferLifetime& a, const BufferLifetime& b) { return a.first <= b.last && b.first <= a.last; }

// A placed buffer's range in the arena.
struct Range {
  int64_t begin;
  int64_t end;
};

// Returns the start of the smallest gap of at least `bytes` between `taken`, which are sorted by begin; the
// end of all ranges if there is none.
int64_t BestGap(const std::vector<Range>& taken, int64_t bytes) {
  int64_t best = -1;
  int64_t best_size = std::numeric_limits<int64_t>::max();
  int64_t free_from = 0;
  for (const Range& range : taken) {
    const int64_t gap = range.begin - free_from;
    if (gap >= bytes && gap < best_size) {
      best = free_from;
      best_size = gap;
    }
    free_from = std::max(free_from, range.end);
  }
  return best >= 0 ? best : free_from;
}

}  // namespace

absl::StatusOr<ArenaLayout> PlanArena(absl::Span<const BufferLifetime> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  ArenaLayout layout;
  layout.offsets.assign(buffers.size(), 0);
  std::vector<size_t> placed;  // by offset
  std::vector<Range> taken;
  for (size_t index : order) {
    const BufferLifetime& buffer = buffers[index];
    if (buffer.bytes == 0) continue;
    if (buffer.bytes > kMaxArena) return absl::ResourceExhaustedError("a buffer exceeds 2^62 bytes");
    const int64_t bytes = Aligned(buffer.bytes);
    taken.clear();
    for (size_t other : placed) {
      if (Meet(buffer, buffers[other])) {
        taken.push_back({layout.offsets[other], layout.offsets[other] + Aligned(buffers[other].bytes)});
      }
    }
    const int64_t offset = BestGap(taken, bytes);
    if (offset > kMaxArena - bytes) return absl::ResourceExhaustedError("the arena exceeds 2^62 bytes");
    layout.offsets[index] = offset;
    layout.bytes = std::max(layout.bytes, offset + bytes);
    const auto behind = std::upper_bound(placed.begin(), placed.end(), offset,
                                         [&](int64_t at, size_t other) { return at < layout.offsets[other]; });
    placed.insert(behind, index);
  }
  return layout;
}

int64_t PeakBytes(absl::Span<const BufferLifetime> buffers) {
  struct Change {
    int step;
    int64_t bytes;
  };
  std::vector<Change> changes;
  for (const BufferLifetime& buffer : buffers) {
    changes.push_back({buffer.first, Aligned(buffer.bytes)});
    changes.push_back({buffer.last + 1, -Aligned(buffer.bytes)});
  }
  // At equal steps, ends are before begins.
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.step != b.step ? a.step < b.step : a.bytes < b.bytes; });
  int64_t alive = 0;
  int64_t peak = 0;
  for (const Change& change : changes) {
    alive += change.bytes;
    peak = std::max(peak, alive);
  }
  return peak;
}

}  // namespace cotan
