// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_HOIST_INDEX_CHECKS_H_
#define COTAN_AOT_TRANSFORMS_HOIST_INDEX_CHECKS_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Moves prim.checked_index nodes and their dependencies before all other nodes; keeps the order
// within both groups. A call that fails a check then changes no state, and all states may still be
// updated in place: the runtime writes no state before the last step that may fail. Returns true if
// the graph changed.
absl::StatusOr<bool> HoistIndexChecks(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_HOIST_INDEX_CHECKS_H_
