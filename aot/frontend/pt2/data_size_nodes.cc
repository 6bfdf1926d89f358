// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/data_size_nodes.h"

#include <algorithm>
#include <string>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"

namespace cotan::aot::pt2 {
namespace {

bool IsFromData(absl::Span<const Symbol> symbols, const SymInt& size) {
  if (size.kind() != SymInt::Kind::kSymbol) return false;
  const std::string& name = symbols[static_cast<size_t>(size.symbol())].name;
  return name.size() > 1 && name[0] == 'u' && absl::ascii_isdigit(static_cast<unsigned char>(name[1]));
}

// Returns whether argument 0 of the node is one of the names.
bool TakesOneOf(const absl::flat_hash_set<std::string>& names, const Node& node) {
  const Name* name = node.inputs.empty() ? nullptr : std::get_if<Name>(&node.inputs[0].value);
  return name != nullptr && names.contains(name->name);
}

}  // namespace

bool ComparesNumbers(absl::string_view target) {
  return target == "_operator.le" || target == "_operator.lt" || target == "_operator.ge" || target == "_operator.gt";
}

void FindDataSizes(absl::Span<const Symbol> symbols, Graph& graph) {
  constexpr int64_t kLargestSize = int64_t{1} << 40;
  absl::flat_hash_set<int> found;  // symbols of earlier nodes
  for (Node& node : graph.nodes) {
    for (const Argument& output : node.outputs) {
      const Name* name = std::get_if<Name>(&output);
      const auto meta = name == nullptr ? graph.tensor_values.end() : graph.tensor_values.find(name->name);
      if (meta == graph.tensor_values.end()) continue;
      for (const SymInt& size : meta->second.sizes) {
        if (!IsFromData(symbols, size) || !found.insert(size.symbol()).second) continue;
        node.data_size = symbols[static_cast<size_t>(size.symbol())];
        if (node.data_size->max.value_or(0) > kLargestSize) node.data_size->max.reset();
      }
    }
  }
}

void RemoveRangeAssertions(absl::Span<const Symbol> symbols, Graph& graph) {
  absl::flat_hash_set<std::string> sizes, checks;
  for (const Node& node : graph.nodes) {
    const Name* result = node.outputs.size() == 1 ? std::get_if<Name>(&node.outputs[0]) : nullptr;
    if (result == nullptr) continue;
    const auto value = graph.sym_int_values.find(result->name);
    const bool is_size = node.target == "torch.ops.aten.sym_size.int" && value != graph.sym_int_values.end();
    if (is_size && IsFromData(symbols, value->second)) sizes.insert(result->name);
    const bool compares = ComparesNumbers(node.target) && node.inputs.size() == 2 &&
                          std::holds_alternative<int64_t>(node.inputs[1].value);
    if (compares && TakesOneOf(sizes, node)) checks.insert(result->name);
  }
  std::erase_if(graph.nodes, [&](const Node& node) {
    return node.target == "torch.ops.aten._assert_scalar.default" && TakesOneOf(checks, node);
  });
}

bool HasBoundedDataSizes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    if (node.data_size.has_value() && node.data_size->max.value_or(0) >= 1) return true;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [](const NamedArgument& input) {
      const Subgraph* subgraph = std::get_if<Subgraph>(&input.value);
      return subgraph != nullptr && HasBoundedDataSizes(*subgraph->graph);
    });
  });
}

}  // namespace cotan::aot::pt2
