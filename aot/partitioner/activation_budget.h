// SPDX-License-Identifier: Apache-2.0

// Chooses what a forward saves for its backward.
#ifndef COTAN_AOT_PARTITIONER_ACTIVATION_BUDGET_H_
#define COTAN_AOT_PARTITIONER_ACTIVATION_BUDGET_H_

#include <vector>

#include "absl/status/statusor.h"
#include "aot/partitioner/joint_facts.h"
#include "aot/partitioner/min_cut.h"
#include "aot/partitioner/recompute_rules.h"

namespace cotan::aot {

// Returns the choice with the fewest bytes that recomputes only classes before `first_saved`. `classes` are those of
// RecomputeClasses(). Errors of MinimumCut().
absl::StatusOr<SavedChoice> SavedUpTo(RecomputeClass first_saved, const JointFacts& facts,
                                      const std::vector<RecomputeClass>& classes);

// Let `most` be the bytes that are saved if only cheap nodes are recomputed, and `least` those if all but kNever are.
// Returns a choice of at most least + budget * (most - least) bytes: of those tried, the one that repeats the least
// work, by NodeCost(). A smaller budget never saves more bytes. `budget` is in [0, 1].
//
// Each value that is saved under budget 1 is an item of a knapsack: its weight is its size, its value the work of the
// chain that computes it from what else is saved. The choices for all capacities (knapsack.h) are evaluated, from the
// most to the least valuable, each by a minimum cut in which the chains of the omitted items may be recomputed;
// the first that fits is taken. Corresponds to activation_memory_budget of PyTorch's min-cut partitioner.
// Errors of MinimumCut().
absl::StatusOr<SavedChoice> SavedWithin(double budget, const JointFacts& facts,
                                        const std::vector<RecomputeClass>& classes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_ACTIVATION_BUDGET_H_
