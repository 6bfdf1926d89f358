// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/hoist_index_checks.h"

#include <vector>

#include "aot/ir/prim_node.h"

namespace cotan::aot {

absl::StatusOr<bool> HoistIndexChecks(Graph& graph) {
  std::vector<bool> needed(static_cast<size_t>(graph.num_values()));
  Graph::NodeList checks;
  for (auto it = graph.nodes().end(); it != graph.nodes().begin();) {
    const auto node = --it;
    bool moves = IsPrim(*node, PrimOp::kCheckedIndex);
    for (const ValueId id : node->outputs) moves = moves || (id != kNoValue && needed[static_cast<size_t>(id)]);
    if (!moves) continue;
    for (const ValueId id : TensorOperands(*node)) {
      if (id != kNoValue) needed[static_cast<size_t>(id)] = true;
    }
    ++it;
    checks.splice(checks.begin(), graph.nodes(), node);
  }
  if (checks.empty()) return false;
  graph.nodes().splice(graph.nodes().begin(), checks);
  return true;
}

}  // namespace cotan::aot
