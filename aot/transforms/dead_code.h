#ifndef COTAN_AOT_TRANSFORMS_DEAD_CODE_H_
#define COTAN_AOT_TRANSFORMS_DEAD_CODE_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Removes nodes none of whose results reaches an output, and renumbers the
// values. Graph inputs stay. Graphs are functional: no node has a side effect.
absl::StatusOr<bool> EliminateDeadCode(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_DEAD_CODE_H_
