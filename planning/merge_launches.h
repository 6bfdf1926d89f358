// SPDX-License-Identifier: Apache-2.0

// Order of steps for devices on which a launch costs as much as a small op.
#ifndef COTAN_PLANNING_MERGE_LAUNCHES_H_
#define COTAN_PLANNING_MERGE_LAUNCHES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Chooses the epilogues of products (PlaceEpilogues()), and merges independent expressions into groups (XLA: horizontal
// fusion; Inductor: combo kernels). Expressions wait until no other step can run, so that a group has all that are
// ready then. Those on which nothing depends wait for the end, such as the parameter updates of a whole backward,
// unless their inputs take much memory meanwhile. Other steps keep their order. Steps whose errors depend on data keep
// their order too, and stay before the writes of states and arguments that followed them; checks of indices that follow
// one another are merged, so that the first error is still the first one. `symbols` as for
// MakeSchedule(). Errors of PlaceEpilogues().
absl::Status MergeLaunches(const serialization::Method& method, absl::Span<const int64_t> symbols, Schedule& schedule);

}  // namespace cotan

#endif  // COTAN_PLANNING_MERGE_LAUNCHES_H_
