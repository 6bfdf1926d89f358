// SPDX-License-Identifier: Apache-2.0

// Places buffers with known lifetimes in one block of memory (an arena).
#ifndef COTAN_BASE_MEMORY_PLANNER_H_
#define COTAN_BASE_MEMORY_PLANNER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cotan {

// Alignment of offsets in an arena, in bytes.
inline constexpr int64_t kArenaAlignment = 64;

// Size and lifetime of a buffer.
struct BufferLifetime {
  int64_t bytes = 0;  // >= 0
  // First and last step that uses it, inclusive; first <= last.
  int first = 0;
  int last = 0;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  // one per buffer, in bytes
  int64_t bytes = 0;             // of the arena
};

// Assigns disjoint ranges to buffers that are alive at the same step: largest buffers first, each in the
// smallest gap that fits. Deterministic. Worst-case time is quadratic in the number of buffers.
// ResourceExhausted: the arena would exceed 2^62 bytes.
absl::StatusOr<ArenaLayout> PlanArena(absl::Span<const BufferLifetime> buffers);

// Returns the maximum over all steps of the bytes alive, a lower bound of the arena's size.
int64_t PeakBytes(absl::Span<const BufferLifetime> buffers);

}  // namespace cotan

#endif  // COTAN_BASE_MEMORY_PLANNER_H_
