// SPDX-License-Identifier: Apache-2.0

// Conditions on flags without negation, such as "a and b, or c".
#ifndef COTAN_AOT_AOTAUTOGRAD_FLAG_CONDITION_H_
#define COTAN_AOT_AOTAUTOGRAD_FLAG_CONDITION_H_

#include <vector>

#include "absl/container/btree_set.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Flags, values bool[] of a graph, in ascending order.
using FlagSet = std::vector<ValueId>;

// True if all flags of one of the sets are. No set contains another one.
using FlagCondition = absl::btree_set<FlagSet>;

// Return the conditions that are always true, and that are true if all of the flags are.
FlagCondition Always();
FlagCondition AllOf(const FlagSet& flags);
// Returns whether `condition` is true only if `other` is.
bool Implies(const FlagCondition& condition, const FlagCondition& other);

// Return the conjunction and the disjunction. Of each group of flags at least one is true, so that
// "(a and c) or (b and c)" is "c" if a and b are a group.
FlagCondition Both(const FlagCondition& a, const FlagCondition& b, absl::Span<const FlagSet> groups);
FlagCondition Either(const FlagCondition& a, const FlagCondition& b, absl::Span<const FlagSet> groups);

// Returns the condition on the flags of `group` that is left if all other flags are true.
FlagCondition RestrictedTo(const FlagSet& group, const FlagCondition& condition);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_FLAG_CONDITION_H_
