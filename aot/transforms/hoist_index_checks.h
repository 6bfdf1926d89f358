#ifndef COTAN_AOT_TRANSFORMS_HOIST_INDEX_CHECKS_H_
#define COTAN_AOT_TRANSFORMS_HOIST_INDEX_CHECKS_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Moves prim.checked_index nodes, and what they depend on, before all others;
// the order within both groups stays. A run that a check refuses then changes
// no state, and still all states may be updated in place: the runtime writes
// none before the last step that may refuse.
absl::StatusOr<bool> HoistIndexChecks(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_HOIST_INDEX_CHECKS_H_
