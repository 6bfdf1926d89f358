// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/common_subexpressions.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

// Returns a text that is equal for two nodes exactly if they compute equal results.
std::string Key(const Graph& graph, const Node& node) {
  Node anonymous = node;
  anonymous.source.clear();
  anonymous.outputs.clear();
  std::string key = PrintNode(graph, anonymous);
  for (const ValueId output : node.outputs) {
    absl::StrAppend(&key, ";", output == kNoValue ? "_" : PrintType(graph.value(output).type));
  }
  return key;
}

void Rename(Argument& argument, const std::vector<ValueId>& names) {
  const auto rename = [&](Use& use) {
    if (use.value != kNoValue) use.value = names[static_cast<size_t>(use.value)];
  };
  if (Use* use = std::get_if<Use>(&argument)) rename(*use);
  if (auto* list = std::get_if<std::vector<Use>>(&argument)) {
    for (Use& use : *list) rename(use);
  }
}

}  // namespace

absl::StatusOr<bool> EliminateCommonSubexpressions(Graph& graph) {
  return EliminateCommonSubexpressionsIf(graph, [](const Node&) { return true; });
}

absl::StatusOr<bool> EliminateCommonSubexpressionsIf(Graph& graph, const std::function<bool(const Node&)>& eligible) {
  std::vector<ValueId> names(static_cast<size_t>(graph.num_values()));
  for (size_t i = 0; i < names.size(); ++i) names[i] = static_cast<ValueId>(i);
  absl::flat_hash_map<std::string, const Node*> seen;
  bool changed = false;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end();) {
    for (Argument& argument : it->arguments) Rename(argument, names);
    if (!eligible(*it)) {
      ++it;
      continue;
    }
    const auto [entry, is_new] = seen.try_emplace(Key(graph, *it), &*it);
    if (is_new) {
      ++it;
      continue;
    }
    for (size_t k = 0; k < it->outputs.size(); ++k) {
      if (it->outputs[k] != kNoValue) names[static_cast<size_t>(it->outputs[k])] = entry->second->outputs[k];
    }
    it = graph.nodes().erase(it);
    changed = true;
  }
  for (GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) output.value = names[static_cast<size_t>(output.value)];
  }
  if (changed) graph.Compact();
  return changed;
}

}  // namespace cotan::aot
