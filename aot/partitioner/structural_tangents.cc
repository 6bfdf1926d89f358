// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/structural_tangents.h"

#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "serialization/schema/expr_inputs.h"

namespace cotan::aot {
namespace {

using Tangents = absl::btree_set<int>;

// Returns 0, 1, ..., size - 1.
std::vector<uint32_t> AllOf(size_t size) {
  std::vector<uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Returns the tangents that reach each gradient, by index of the gradient.
absl::flat_hash_map<int, Tangents> TangentsOfGradients(const Graph& graph) {
  absl::flat_hash_map<ValueId, Tangents> of_value;  // only values that depend on a tangent
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind == InputKind::kTangent) of_value[input.value] = {input.index};
  }
  for (const Node& node : graph.nodes()) {
    const std::vector<ValueId> operands = TensorOperands(node);
    std::vector<std::vector<uint32_t>> inputs(node.outputs.size(), AllOf(operands.size()));
    if (node.op == kExprOp) inputs = InputsOfOutputs(*node.expr);
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      if (node.outputs[output] == kNoValue) continue;
      Tangents reaching;
      for (const uint32_t input : inputs[output]) {
        const auto found = of_value.find(operands[input]);
        if (found != of_value.end()) reaching.insert(found->second.begin(), found->second.end());
      }
      if (!reaching.empty()) of_value[node.outputs[output]] = std::move(reaching);
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
