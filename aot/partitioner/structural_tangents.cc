#include "aot/partitioner/structural_tangents.h"

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"

namespace cotan::aot {
namespace {

using Tangents = absl::btree_set<int>;

// By index of a graph output that is a gradient: the tangents that reach it.
absl::flat_hash_map<int, Tangents> TangentsOfGradients(const Graph& graph) {
  absl::flat_hash_map<ValueId, Tangents> of_value;  // of those that depend on any
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind == InputKind::kTangent) of_value[input.value] = {input.index};
  }
  for (const Node& node : graph.nodes()) {
    Tangents all;
    for (const ValueId operand : TensorOperands(node)) {
      if (const auto found = of_value.find(operand); found != of_value.end()) {
        all.insert(found->second.begin(), found->second.end());
      }
    }
    if (all.empty()) continue;
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) of_value[output] = all;
    }
  }
  absl::flat_hash_map<int, Tangents> of_gradient;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    if (const auto found = of_value.find(output.value); found != of_value.end()) {
      of_gradient[output.index] = found->second;
    }
  }
  return of_gradient;
}

}  // namespace

std::vector<std::vector<int>> StructuralTangents(const Graph& traced, const Graph& backward) {
  const absl::flat_hash_map<int, Tangents> by_derivation = TangentsOfGradients(traced);
  const absl::flat_hash_map<int, Tangents> by_ops = TangentsOfGradients(backward);
  std::vector<std::vector<int>> idle;
  for (const GraphOutput& output : backward.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    std::vector<int>& tangents = idle.emplace_back();
    const auto derived = by_derivation.find(output.index);
    if (derived == by_derivation.end()) continue;
    const auto read = by_ops.find(output.index);
    for (const int tangent : derived->second) {
      if (read == by_ops.end() || !read->second.contains(tangent)) tangents.push_back(tangent);
    }
  }
  return idle;
}

}  // namespace cotan::aot
