// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/forward_only.h"

#include <algorithm>
#include <vector>

#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {

bool HasBackward(const Graph& graph) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [](const GraphOutput& output) { return output.kind == OutputKind::kGradient; });
}

absl::StatusOr<Graph> ForwardOnly(const Graph& joint) {
  Graph forward = joint;
  std::erase_if(forward.outputs(), [](const GraphOutput& output) {
    return output.kind == OutputKind::kGradient || output.kind == OutputKind::kBackwardUpdate ||
           (output.kind == OutputKind::kToken && output.index == 1);
  });
  COTAN_RETURN_IF_ERROR(EliminateDeadCode(forward).status());
  std::erase_if(forward.inputs(), [](const GraphInput& input) {
    return input.kind == InputKind::kTangent || (input.kind == InputKind::kToken && input.index == 1);
  });
  return forward;
}

}  // namespace cotan::aot
