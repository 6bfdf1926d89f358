// SPDX-License-Identifier: Apache-2.0

// Lifetimes of the arena buffers of a schedule.
#ifndef COTAN_PLANNING_LIFETIMES_H_
#define COTAN_PLANNING_LIFETIMES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/memory_planner.h"
#include "planning/schedule.h"

namespace cotan {

// Returns one lifetime per buffer of the schedule (0 bytes if it is not in the device's arena), then one per step
// for its kernel's scratch of `scratch_bytes[step]` bytes.
std::vector<BufferLifetime> ArenaLifetimes(const Schedule& schedule, absl::Span<const int64_t> scratch_bytes);

// Returns one lifetime per buffer of the schedule (0 bytes if it is not in the arena on the host).
std::vector<BufferLifetime> HostLifetimes(const Schedule& schedule);

}  // namespace cotan

#endif  // COTAN_PLANNING_LIFETIMES_H_
