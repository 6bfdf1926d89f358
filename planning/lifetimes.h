// What a schedule needs of the arena.
#ifndef COTAN_PLANNING_LIFETIMES_H_
#define COTAN_PLANNING_LIFETIMES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/memory_planner.h"
#include "planning/schedule.h"

namespace cotan {

// One lifetime per buffer of the schedule, of 0 bytes if it is not in the arena,
// then one per step: its kernel's scratch, of `scratch_bytes[step]` bytes.
std::vector<BufferLifetime> ArenaLifetimes(const Schedule& schedule, absl::Span<const int64_t> scratch_bytes);

}  // namespace cotan

#endif  // COTAN_PLANNING_LIFETIMES_H_
