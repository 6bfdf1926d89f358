// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/outline_updates.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/call_node.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using NodeIterator = Graph::NodeList::iterator;

// The update of one parameter: nodes in order, what they read, and the new contents of the parameter and its slots.
struct Update {
  std::vector<NodeIterator> nodes;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  bool reads_call = false;
};

template <typename Rename>
void RenameUses(Argument& argument, Rename rename) {
  if (Use* use = std::get_if<Use>(&argument)) {
    if (use->value != kNoValue) use->value = rename(use->value);
  }
  auto* list = std::get_if<std::vector<Use>>(&argument);
  if (list == nullptr) return;
  for (Use& use : *list) {
    if (use.value != kNoValue) use.value = rename(use.value);
  }
}

class Outliner {
 public:
  Outliner(const NewStates& slots, BlockLowerer& blocks, Graph& graph) : blocks_(blocks), graph_(graph) {
    for (const serialization::State& slot : slots) {
      if (!slot.owner().empty()) owner_[slot.name()] = slot.owner();
    }
  }

  absl::Status Run() {
    FindUpdates();
    FindNodes();
    for (const Node& node : graph_.nodes()) {
      if (node.op == kCallOp) of_call_.insert(node.outputs.begin(), node.outputs.end());
    }
    absl::flat_hash_map<std::string, size_t> index_of;
    std::vector<std::vector<const Update*>> equal;  // in order of the first update
    for (Update& update : updates_) {
      FindOperands(update);
      if (!update.reads_call || update.nodes.empty()) continue;
      const auto [entry, is_new] = index_of.try_emplace(KeyOf(update), equal.size());
      if (is_new) equal.emplace_back();
      equal[entry->second].push_back(&update);
    }
    for (size_t i = 0; i < equal.size(); ++i) {
      const std::vector<const Update*>& list = equal[i];
      if (list.size() < 2) continue;
      COTAN_ASSIGN_OR_RETURN(const AddedBlock block, blocks_.Add(GraphOf(*list[0]), absl::StrCat("update.", i)));
      for (const Update* update : list) Replace(*update, block);
    }
    return absl::OkStatus();
  }

 private:
  // Finds the parameters that get an update, and which of its values are their new contents.
  void FindUpdates() {
    absl::flat_hash_set<std::string> parameters;
    absl::flat_hash_map<std::string, int> index_of;
    for (const GraphInput& input : graph_.inputs()) {
      if (input.kind == InputKind::kParameter) parameters.insert(input.name);
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.kind != OutputKind::kStateUpdate) continue;
      const auto owner = owner_.find(output.name);
      const std::string& parameter = owner == owner_.end() ? output.name : owner->second;
      if (!parameters.contains(parameter) || graph_.value(output.value).type.sizes.empty()) continue;
      const auto [entry, is_new] = index_of.try_emplace(parameter, static_cast<int>(updates_.size()));
      if (is_new) updates_.emplace_back();
      updates_[static_cast<size_t>(entry->second)].results.push_back(output.value);
      update_of_[output.value] = entry->second;
    }
  }

  // Assigns each node whose results only one update uses to that update.
  void FindNodes() {
    absl::flat_hash_set<ValueId> shared;
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.value != kNoValue && !(output.kind == OutputKind::kStateUpdate && update_of_.contains(output.value))) {
        shared.insert(output.value);
      }
    }
    for (auto node = graph_.nodes().end(); node != graph_.nodes().begin();) {
      --node;
      const int update = UpdateOf(*node, shared);
      for (const ValueId id : TensorOperands(*node)) {
        if (id == kNoValue) continue;
        const auto [entry, is_new] = update_of_.try_emplace(id, update);
        if (update == kNone || (!is_new && entry->second != update)) shared.insert(id);
      }
      if (update != kNone) {
        std::vector<NodeIterator>& nodes = updates_[static_cast<size_t>(update)].nodes;
        nodes.insert(nodes.begin(), node);
      }
    }
  }

  // Returns the only update that uses the results; kNone if there is none.
  int UpdateOf(const Node& node, const absl::flat_hash_set<ValueId>& shared) const {
    if (node.expr == nullptr || node.op != kExprOp || node.outputs.size() != 1) return kNone;
    const ValueId result = node.outputs[0];
    const auto found = update_of_.find(result);
    const bool is_own = found != update_of_.end() && !shared.contains(result);
    return is_own && !graph_.value(result).type.sizes.empty() ? found->second : kNone;
  }

  void FindOperands(Update& update) {
    absl::flat_hash_set<ValueId> known;
    for (const NodeIterator node : update.nodes) {
      for (const ValueId id : TensorOperands(*node)) {
        if (id != kNoValue && known.insert(id).second) update.operands.push_back(id);
      }
      known.insert(node->outputs.begin(), node->outputs.end());
    }
    update.reads_call = std::any_of(update.operands.begin(), update.operands.end(),
                                    [this](ValueId id) { return of_call_.contains(id); });
    // A result that another part of the graph computes, or that is an operand, cannot be the result of a call.
    const bool is_complete = std::all_of(update.results.begin(), update.results.end(), [&](ValueId id) {
      return std::any_of(update.nodes.begin(), update.nodes.end(),
                         [id](NodeIterator node) { return node->outputs[0] == id; });
    });
    if (!is_complete) update.nodes.clear();
  }

  // Returns a text that is equal for equal updates.
  std::string KeyOf(const Update& update) const {
    std::string key;
    absl::flat_hash_map<ValueId, size_t> numbers;
    const auto append = [&](ValueId id) {
      const auto [entry, is_new] = numbers.try_emplace(id, numbers.size());
      absl::StrAppend(&key, "%", entry->second);
      if (is_new) absl::StrAppend(&key, ":", PrintType(graph_.value(id).type));
    };
    for (const ValueId id : update.operands) append(id);
    for (const NodeIterator node : update.nodes) {
      absl::StrAppend(&key, "\n", node->expr->SerializeAsString());
      for (const ValueId id : TensorOperands(*node)) append(id);
      append(node->outputs[0]);
    }
    for (const ValueId id : update.results) append(id);
    return key;
  }

  // Returns the update as a graph of its own.
  Graph GraphOf(const Update& update) const {
    Graph graph;
    graph.name = "update";
    absl::flat_hash_map<ValueId, ValueId> values;
    for (const ValueId id : update.operands) {
      const int index = static_cast<int>(values.size());
      values[id] = graph.AddInput(graph_.value(id).type, InputKind::kUserInput, index, "");
    }
    for (const NodeIterator node : update.nodes) {
      std::vector<Argument> arguments = node->arguments;
      for (Argument& argument : arguments) RenameUses(argument, [&](ValueId id) { return values.at(id); });
      const TensorType types[] = {graph_.value(node->outputs[0]).type};
      Node& copy = graph.InsertNode(graph.nodes().end(), node->op, std::move(arguments), types);
      copy.expr = node->expr;
      values[node->outputs[0]] = copy.outputs[0];
    }
    for (size_t i = 0; i < update.results.size(); ++i) {
      graph.AddOutput(values.at(update.results[i]), OutputKind::kUserOutput, static_cast<int>(i), "");
    }
    return graph;
  }

  void Replace(const Update& update, const AddedBlock& block) {
    std::vector<Use> inputs;
    for (const size_t input : block.inputs) inputs.push_back(Use{update.operands[input]});
    std::vector<ValueId> outputs;
    for (const auto& [is_input, index] : block.values) {
      const ValueId result = update.results[outputs.size()];
      graph_.value(result).type = block.outputs[index];
      outputs.push_back(result);
    }
    Node call;
    call.op = std::string(kCallOp);
    call.arguments = {inputs, SymInt(static_cast<int64_t>(block.block)), SymInt(0), std::string()};
    call.outputs = std::move(outputs);
    graph_.nodes().insert(update.nodes.back(), std::move(call));
    for (const NodeIterator node : update.nodes) graph_.nodes().erase(node);
  }

  BlockLowerer& blocks_;
  Graph& graph_;
  static constexpr int kNone = -1;
  absl::flat_hash_map<std::string, std::string> owner_;  // by slot
  std::vector<Update> updates_;                          // in the order of the graph's outputs
  absl::flat_hash_map<ValueId, int> update_of_;          // the update that uses a value
  absl::flat_hash_set<ValueId> of_call_;                 // results of calls
};

}  // namespace

absl::Status OutlineUpdates(const NewStates& slots, BlockLowerer& blocks, Graph& graph) {
  return Outliner(slots, blocks, graph).Run();
}

}  // namespace cotan::aot
