// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/drop_barriers.h"

#include "aot/ir/prim_node.h"

namespace cotan::aot {

absl::StatusOr<bool> DropBarriers(Graph& graph) {
  bool changed = false;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end();) {
    if (!IsPrim(*it, PrimOp::kBarrier)) {
      ++it;
      continue;
    }
    graph.ReplaceAllUses(it->outputs[0], OperandOf(*it, "x"));
    it = graph.nodes().erase(it);
    changed = true;
  }
  return changed;
}

}  // namespace cotan::aot
