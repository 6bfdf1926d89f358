// Places buffers with known lifetimes in one block of memory (an arena).
#ifndef COTAN_BASE_MEMORY_PLANNER_H_
#define COTAN_BASE_MEMORY_PLANNER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cotan {

// Offsets in an arena are multiples of this, in bytes.
inline constexpr int64_t kArenaAlignment = 64;

// A buffer: how large it is and when it is alive.
struct BufferLifetime {
  int64_t bytes = 0;  // >= 0
  // First and last step, inclusive, that touches it; first <= last.
  int first = 0;
  int last = 0;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  // one per buffer, in bytes
  int64_t bytes = 0;             // of the arena
};

// Gives buffers that are alive at the same step disjoint places. Largest
// buffers first, each in the smallest gap that takes it; equal input gives
// equal output. Takes time quadratic in the number of buffers at worst.
// ResourceExhausted: the arena would exceed 2^62 bytes.
absl::StatusOr<ArenaLayout> PlanArena(absl::Span<const BufferLifetime> buffers);

// The most bytes alive at one step: no arena can be smaller.
int64_t PeakBytes(absl::Span<const BufferLifetime> buffers);

}  // namespace cotan

#endif  // COTAN_BASE_MEMORY_PLANNER_H_
