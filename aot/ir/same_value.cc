// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/same_value.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace cotan::aot {
namespace {

struct Producer {
  const Node* node = nullptr;  // null: an input of the graph
  size_t output = 0;
};

std::vector<Producer> ProducersOf(const Graph& graph) {
  std::vector<Producer> producers(static_cast<size_t>(graph.num_values()));
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) producers[static_cast<size_t>(node.outputs[i])] = {&node, i};
    }
  }
  return producers;
}

// Returns whether the arguments are equal apart from the values that they use.
bool EqualButForUses(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) return false;
  if (std::holds_alternative<Use>(a)) return true;
  if (const auto* uses = std::get_if<std::vector<Use>>(&a)) {
    return uses->size() == std::get<std::vector<Use>>(b).size();
  }
  return a == b;
}

bool EqualButForUses(const Node& a, const Node& b) {
  return a.op == b.op && a.expr == b.expr && a.op.find("effect") == std::string::npos &&
         std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(),
                    [](const Argument& x, const Argument& y) { return EqualButForUses(x, y); });
}

}  // namespace

bool ComputesSame(const Graph& graph, ValueId a, ValueId b) {
  const std::vector<Producer> producers = ProducersOf(graph);
  absl::flat_hash_set<std::pair<ValueId, ValueId>> compared;
  std::vector<std::pair<ValueId, ValueId>> pending = {{a, b}};
  while (!pending.empty()) {
    const auto [x, y] = pending.back();
    pending.pop_back();
    if (x == y || !compared.insert({x, y}).second) continue;
    if (x == kNoValue || y == kNoValue) return false;
    const Producer& of_x = producers[static_cast<size_t>(x)];
    const Producer& of_y = producers[static_cast<size_t>(y)];
    if (of_x.node == nullptr || of_y.node == nullptr || of_x.output != of_y.output) return false;
    if (!EqualButForUses(*of_x.node, *of_y.node)) return false;
    const std::vector<ValueId> operands_x = TensorOperands(*of_x.node);
    const std::vector<ValueId> operands_y = TensorOperands(*of_y.node);
    for (size_t i = 0; i < operands_x.size(); ++i) pending.emplace_back(operands_x[i], operands_y[i]);
  }
  return true;
}

}  // namespace cotan::aot
