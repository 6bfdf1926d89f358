// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/graph.h"

#include <utility>

namespace cotan::aot {

ValueId Graph::AddValue(TensorType type, std::string value_name) {
  values_.push_back({std::move(type), std::move(value_name)});
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::AddInput(TensorType type, InputKind kind, int index, std::string input_name) {
  const ValueId id = AddValue(std::move(type), input_name);
  inputs_.push_back({id, kind, index, std::move(input_name)});
  return id;
}

void Graph::AddOutput(ValueId value, OutputKind kind, int index, std::string output_name) {
  outputs_.push_back({value, kind, index, std::move(output_name)});
}

Node& Graph::InsertNode(NodeList::iterator position, std::string op, std::vector<Argument> arguments,
                        absl::Span<const TensorType> output_types, std::string source) {
  Node node{std::move(op), std::move(arguments), {}, std::move(source), nullptr};
  for (const TensorType& type : output_types) node.outputs.push_back(AddValue(type));
  return *nodes_.insert(position, std::move(node));
}

void Graph::ReplaceAllUses(ValueId from, ValueId to) {
  for (Node& node : nodes_) {
    for (Argument& argument : node.arguments) {
      if (Use* use = std::get_if<Use>(&argument); use != nullptr && use->value == from) use->value = to;
      if (auto* list = std::get_if<std::vector<Use>>(&argument)) {
        for (Use& use : *list) {
          if (use.value == from) use.value = to;
        }
      }
    }
  }
  for (GraphOutput& output : outputs_) {
    if (output.value == from) output.value = to;
  }
}

void Graph::Compact() {
  std::vector<ValueId> renumbered(values_.size(), kNoValue);
  std::deque<Value> kept;
  const auto define = [&](ValueId& id) {
    if (id == kNoValue) return;
    renumbered[static_cast<size_t>(id)] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(values_[static_cast<size_t>(id)]));
    id = renumbered[static_cast<size_t>(id)];
  };
  const auto rename = [&](ValueId& id) {
    if (id != kNoValue) id = renumbered[static_cast<size_t>(id)];
  };
  for (GraphInput& input : inputs_) define(input.value);
  for (Node& node : nodes_) {
    for (Argument& argument : node.arguments) {
      if (Use* use = std::get_if<Use>(&argument)) rename(use->value);
      if (auto* list = std::get_if<std::vector<Use>>(&argument)) {
        for (Use& use : *list) rename(use.value);
      }
    }
    for (ValueId& output : node.outputs) define(output);
  }
  for (GraphOutput& output : outputs_) rename(output.value);
  values_ = std::move(kept);
}

std::vector<ValueId> TensorOperands(const Node& node) {
  std::vector<ValueId> operands;
  for (const Argument& argument : node.arguments) {
    if (const Use* use = std::get_if<Use>(&argument)) operands.push_back(use->value);
    if (const auto* list = std::get_if<std::vector<Use>>(&argument)) {
      for (const Use& use : *list) operands.push_back(use.value);
    }
  }
  return operands;
}

}  // namespace cotan::aot
