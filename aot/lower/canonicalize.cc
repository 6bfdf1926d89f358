#include "aot/lower/canonicalize.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/lower/builder.h"
#include "aot/passes/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Whether the permutation swaps the last two dimensions and nothing else.
bool SwapsLastTwo(const std::vector<SymInt>& dims) {
  const size_t rank = dims.size();
  for (size_t i = 0; i < rank; ++i) {
    const size_t expected = i + 2 < rank ? i : 2 * rank - 3 - i;
    if (rank < 2 || !(dims[i] == SymInt(static_cast<int64_t>(expected)))) return false;
  }
  return true;
}

Argument Renamed(const Argument& argument, const absl::flat_hash_map<ValueId, ValueId>& names) {
  const auto rename = [&](Use use) { return use.value == kNoValue ? use : Use{names.at(use.value)}; };
  if (const Use* use = std::get_if<Use>(&argument)) return rename(*use);
  if (const auto* list = std::get_if<std::vector<Use>>(&argument)) {
    std::vector<Use> uses;
    for (const Use use : *list) uses.push_back(rename(use));
    return uses;
  }
  return argument;
}

}  // namespace

absl::StatusOr<bool> TransposeProducts(Graph& graph) {
  absl::flat_hash_map<ValueId, int> uses;
  absl::flat_hash_map<ValueId, const Node*> producers;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : TensorOperands(node)) ++uses[id];
    for (const ValueId id : node.outputs) producers[id] = &node;
  }
  for (const GraphOutput& output : graph.outputs()) ++uses[output.value];
  Graph rewritten;
  rewritten.name = graph.name;
  Builder b(&rewritten);
  absl::flat_hash_map<ValueId, ValueId> names;
  for (const GraphInput& input : graph.inputs()) {
    names[input.value] = rewritten.AddInput(graph.value(input.value).type, input.kind, input.index, input.name);
  }
  bool changed = false;
  for (const Node& node : graph.nodes()) {
    b.set_source(node.source);
    if (node.op == "prim.permute") {
      const auto& dims = std::get<std::vector<SymInt>>(node.arguments[1]);
      const ValueId source = std::get<Use>(node.arguments[0]).value;
      const auto it = producers.find(source);
      const Node* product = it == producers.end() ? nullptr : it->second;
      const bool swaps = product != nullptr && product->op == "prim.matmul" && uses[source] == 1 &&
                         std::holds_alternative<None>(product->arguments[2]) && SwapsLastTwo(dims);
      const auto operand = [&](size_t k) { return b.Value(names.at(std::get<Use>(product->arguments[k]).value)); };
      Tensor result;
      if (swaps) {
        result = b.Matmul(b.Transpose(operand(1), -1, -2), b.Transpose(operand(0), -1, -2));
      } else {
        std::vector<int64_t> order;
        for (const SymInt& dim : dims) order.push_back(dim.constant());
        result = b.Permute(b.Value(names.at(source)), std::move(order));
      }
      changed = changed || swaps;
      names[node.outputs[0]] = result.id();
      continue;
    }
    std::vector<Argument> arguments;
    for (const Argument& argument : node.arguments) arguments.push_back(Renamed(argument, names));
    std::vector<TensorType> types;
    for (const ValueId id : node.outputs) types.push_back(graph.value(id).type);
    const std::vector<Tensor> results = b.EmitNode(node.op, std::move(arguments), types, node.expr);
    for (size_t k = 0; k < results.size(); ++k) names[node.outputs[k]] = results[k].id();
  }
  for (const GraphOutput& output : graph.outputs()) {
    rewritten.AddOutput(output.value == kNoValue ? kNoValue : names.at(output.value), output.kind, output.index, output.name);
  }
  COTAN_RETURN_IF_ERROR(b.status());
  if (!changed) return false;
  graph = std::move(rewritten);
  return EliminateDeadCode(graph).status().ok();
}

}  // namespace cotan::aot
