// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/dead_code.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace cotan::aot {

absl::StatusOr<bool> EliminateDeadCode(Graph& graph) {
  std::vector<bool> live(static_cast<size_t>(graph.num_values()), false);
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) live[static_cast<size_t>(output.value)] = true;
  }
  const size_t before = graph.nodes().size();
  for (auto it = graph.nodes().end(); it != graph.nodes().begin();) {
    --it;
    const bool needed = std::any_of(it->outputs.begin(), it->outputs.end(),
                                    [&](ValueId id) { return id != kNoValue && live[static_cast<size_t>(id)]; });
    if (!needed) {
      it = graph.nodes().erase(it);
      continue;
    }
    for (const ValueId id : TensorOperands(*it)) {
      if (id != kNoValue) live[static_cast<size_t>(id)] = true;
    }
  }
  const bool changed = graph.nodes().size() != before;
  if (changed) graph.Compact();
  return changed;
}

}  // namespace cotan::aot
