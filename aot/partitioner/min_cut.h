// SPDX-License-Identifier: Apache-2.0

// The values that a forward saves, as a minimum cut of the joint graph.
#ifndef COTAN_AOT_PARTITIONER_MIN_CUT_H_
#define COTAN_AOT_PARTITIONER_MIN_CUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/partitioner/joint_facts.h"

namespace cotan::aot {

// Values that the forward saves and that the backward recomputes, by value.
struct SavedChoice {
  std::vector<bool> saved;
  std::vector<bool> recomputed;
  int64_t saved_bytes = 0;  // estimated
};

// Which nodes the backward may, and must, compute instead of reading saved results. Indexed like JointFacts::nodes.
struct RecomputeLimits {
  std::vector<bool> may;
  std::vector<bool> must;
};

// Returns the values to save so that the backward can compute all that it reads: of all choices within the limits,
// one with the fewest bytes. Of these it takes one that saves arguments of the forward rather than other values, the
// base of views rather than the views, few values rather than many; and of the choices that are still equal the one
// that recomputes the fewest nodes.
//
// Each value is an edge whose capacity is its size. Inputs of the forward and results of nodes that may not be
// recomputed are connected to the source, values that the backward reads to the sink, and operands to results.
// The formulation is that of PyTorch's min_cut_rematerialization_partition.
// Internal: a value that must be recomputed cannot be.
absl::StatusOr<SavedChoice> MinimumCut(const JointFacts& facts, const RecomputeLimits& limits);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_MIN_CUT_H_
