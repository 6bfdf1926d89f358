// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_DEAD_CODE_H_
#define COTAN_AOT_TRANSFORMS_DEAD_CODE_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Removes nodes whose results reach no output, and renumbers the values. Keeps graph inputs. Graphs
// are functional, so no node has a side effect. Returns true if the graph changed.
absl::StatusOr<bool> EliminateDeadCode(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_DEAD_CODE_H_
