// SPDX-License-Identifier: Apache-2.0

#include "aot/optimizer/shared_update.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

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

bool IsScalar(const Node& node, const Graph& graph) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId id) { return id == kNoValue || graph.value(id).type.sizes.empty(); });
}

}  // namespace

std::string SlotName(absl::string_view parameter, absl::string_view slot) {
  return absl::StrCat("optimizer.", parameter, ".", slot);
}

SharedUpdate::Operand SharedUpdate::Describe(ValueId id, const UpdatedParameter& parameter,
                                             absl::Span<const ValueId> slots) const {
  if (id == parameter.value) return {Operand::Kind::kParameter};
  if (id == parameter.gradient) return {Operand::Kind::kGradient};
  const auto slot = std::find(slots.begin(), slots.end(), id);
  if (slot != slots.end()) return {Operand::Kind::kSlot, static_cast<size_t>(slot - slots.begin())};
  return {Operand::Kind::kShared, 0, id};
}

Graph SharedUpdate::GraphOf(absl::Span<const NodeIterator> nodes, absl::Span<const ValueId> operands,
                            absl::Span<const ValueId> results, const Graph& graph) {
  Graph update;
  update.name = "update";
  absl::flat_hash_map<ValueId, ValueId> values;
  for (const ValueId id : operands) {
    const int index = static_cast<int>(values.size());
    values[id] = update.AddInput(graph.value(id).type, InputKind::kUserInput, index, "");
  }
  for (const NodeIterator node : nodes) {
    std::vector<Argument> arguments = node->arguments;
    for (Argument& argument : arguments) RenameUses(argument, [&](ValueId id) { return values.at(id); });
    std::vector<TensorType> types;
    for (const ValueId id : node->outputs) types.push_back(graph.value(id).type);
    Node& copy = update.InsertNode(update.nodes().end(), node->op, std::move(arguments), types);
    copy.expr = node->expr;
    for (size_t i = 0; i < copy.outputs.size(); ++i) values[node->outputs[i]] = copy.outputs[i];
  }
  for (size_t i = 0; i < results.size(); ++i) {
    update.AddOutput(values.at(results[i]), OutputKind::kUserOutput, static_cast<int>(i), "");
  }
  return update;
}

absl::StatusOr<std::optional<SharedUpdate>> SharedUpdate::Outline(const UpdateStart& start,
                                                                  const UpdatedParameter& parameter,
                                                                  UpdateSharing& sharing, const NewStates& states,
                                                                  Graph& graph) {
  SharedUpdate update;
  absl::flat_hash_map<absl::string_view, size_t> slot_of;
  std::vector<ValueId> slots;
  for (size_t i = start.num_states; i < states.size(); ++i) {
    if (states[i].owner() != parameter.name) continue;
    slot_of.emplace(states[i].name(), slots.size());
    const auto input =
        std::find_if(graph.inputs().begin() + static_cast<std::ptrdiff_t>(start.num_inputs), graph.inputs().end(),
                     [&](const GraphInput& in) { return in.name == states[i].name(); });
    slots.push_back(input->value);
    update.slots_.push_back(
        {states[i].name().substr(SlotName(parameter.name, "").size()), states[i], graph.value(input->value).type});
  }
  std::vector<NodeIterator> nodes;
  absl::flat_hash_set<ValueId> own;
  absl::flat_hash_set<ValueId> known;
  std::vector<ValueId> operands;
  const auto count = static_cast<std::ptrdiff_t>(graph.nodes().size() - start.num_nodes);
  for (auto node = std::prev(graph.nodes().end(), count); node != graph.nodes().end(); ++node) {
    const std::vector<ValueId> used = TensorOperands(*node);
    if (IsScalar(*node, graph)) {
      if (std::any_of(used.begin(), used.end(), [&](ValueId id) { return own.contains(id); })) return std::nullopt;
      continue;
    }
    for (const ValueId id : used) {
      if (id != kNoValue && !own.contains(id) && known.insert(id).second) operands.push_back(id);
    }
    own.insert(node->outputs.begin(), node->outputs.end());
    nodes.push_back(node);
  }
  std::vector<ValueId> results;
  for (size_t i = start.num_outputs; i < graph.outputs().size(); ++i) {
    const GraphOutput& output = graph.outputs()[i];
    const auto slot = slot_of.find(output.name);
    if (!own.contains(output.value) || (slot == slot_of.end() && output.name != parameter.name)) return std::nullopt;
    results.push_back(output.value);
    update.results_.push_back(slot == slot_of.end() ? std::nullopt : std::make_optional(slot->second));
  }
  for (const ValueId id : operands) update.operands_.push_back(update.Describe(id, parameter, slots));
  COTAN_ASSIGN_OR_RETURN(update.block_, sharing.Add(GraphOf(nodes, operands, results, graph)));
  graph.outputs().resize(start.num_outputs);
  for (const NodeIterator node : nodes) graph.nodes().erase(node);
  update.Call(parameter, slots, graph);
  return std::make_optional(std::move(update));
}

void SharedUpdate::Append(const UpdatedParameter& parameter, NewStates& states, Graph& graph) const {
  std::vector<ValueId> slots;
  for (const Slot& slot : slots_) {
    serialization::State& state = states.emplace_back(slot.state);
    state.set_name(SlotName(parameter.name, slot.name));
    state.set_owner(parameter.name);
    slots.push_back(graph.AddInput(slot.type, InputKind::kOptimizerSlot, 0, state.name()));
  }
  Call(parameter, slots, graph);
}

void SharedUpdate::Call(const UpdatedParameter& parameter, absl::Span<const ValueId> slots, Graph& graph) const {
  const auto value_of = [&](const Operand& operand) {
    switch (operand.kind) {
      case Operand::Kind::kParameter:
        return parameter.value;
      case Operand::Kind::kGradient:
        return parameter.gradient;
      case Operand::Kind::kSlot:
        return slots[operand.slot];
      case Operand::Kind::kShared:
        break;
    }
    return operand.shared;
  };
  std::vector<Use> inputs;
  inputs.reserve(block_.inputs.size());
  for (const size_t input : block_.inputs) inputs.push_back(Use{value_of(operands_[input])});
  std::vector<ValueId> outputs;
  if (!block_.outputs.empty()) {
    outputs = graph
                  .InsertNode(graph.nodes().end(), std::string(kCallOp),
                              {std::move(inputs), SymInt(static_cast<int64_t>(block_.block)), SymInt(0), std::string()},
                              block_.outputs)
                  .outputs;
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    const auto& [is_operand, index] = block_.values[i];
    const ValueId value = is_operand ? value_of(operands_[index]) : outputs[index];
    const std::string name =
        results_[i].has_value() ? SlotName(parameter.name, slots_[*results_[i]].name) : parameter.name;
    graph.AddOutput(value, OutputKind::kStateUpdate, 0, name);
  }
}

}  // namespace cotan::aot
