// SPDX-License-Identifier: Apache-2.0

#include "aot/optimizer/gradient_outputs.h"

#include <algorithm>
#include <utility>

namespace cotan::aot {

std::vector<Gradient> TakeGradients(Graph& graph) {
  std::vector<Gradient> gradients;
  std::vector<GraphOutput> kept;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind != OutputKind::kGradient) {
      kept.push_back(output);
      continue;
    }
    const GraphInput& input = graph.inputs()[static_cast<size_t>(output.index)];
    if (output.value != kNoValue && input.kind == InputKind::kParameter) gradients.push_back({input, output.value});
  }
  graph.outputs() = std::move(kept);
  return gradients;
}

ValueId TakeContent(Graph& graph, const GraphInput& parameter) {
  std::vector<GraphOutput>& outputs = graph.outputs();
  const auto written = std::find_if(outputs.begin(), outputs.end(), [&](const GraphOutput& output) {
    return output.kind == OutputKind::kMutatedInput &&
           graph.inputs()[static_cast<size_t>(output.index)].value == parameter.value;
  });
  if (written == outputs.end()) return parameter.value;
  const ValueId content = written->value;
  outputs.erase(written);
  return content;
}

}  // namespace cotan::aot
