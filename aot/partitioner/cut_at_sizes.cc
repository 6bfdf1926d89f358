// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/cut_at_sizes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/leading_rows.h"
#include "aot/ir/prim_node.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Part p of the graph computes part of its nodes; the last part is what is left of the graph. A value of part p is an
// input of all later parts up to the last that reads it. Views and values that are computed of constants alone, whose
// sizes may be counted ones, are computed in each part that needs them.
class Cutter {
 public:
  explicit Cutter(Graph& graph)
      : graph_(graph),
        level_(static_cast<size_t>(graph.num_values()), 0),
        is_constant_(level_.size(), false),
        producer_(level_.size(), nullptr) {}

  absl::StatusOr<std::vector<SizingGraph>> Cut() {
    FindLevels();
    std::vector<SizingGraph> sizing;
    if (last_ == 0) return sizing;
    AssignParts();
    nodes_.resize(static_cast<size_t>(last_) + 1);
    inputs_.resize(nodes_.size());
    outputs_.resize(nodes_.size());
    for (const Node& node : graph_.nodes()) {
      if (!IsLeadingRows(node)) Place(node, part_.at(&node));
    }
    for (const GraphOutput& output : graph_.outputs()) Require(output.value, last_);
    for (int part = last_; part > 0; --part) PassOn(part);
    for (int part = 0; part < last_; ++part) {
      COTAN_ASSIGN_OR_RETURN(sizing.emplace_back(), MakeSizing(part));
    }
    AddContinued(last_, graph_);
    graph_.nodes().remove_if([&](const Node& node) { return !nodes_.back().contains(&node); });
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    graph_.Compact();
    return sizing;
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id); }
  const Node* ProducerOf(ValueId id) const { return producer_[At(id)]; }
  // Returns whether each part that needs the value computes it.
  bool IsRepeated(ValueId id) const {
    const Node& producer = *ProducerOf(id);
    return (IsView(producer) && !IsPrim(producer, PrimOp::kBarrier)) || is_constant_[At(id)];
  }

  // Sets the number of cuts on the longest path to each value, and whether it is computed of constants alone.
  void FindLevels() {
    for (const Node& node : graph_.nodes()) {
      int level = 0;
      bool is_constant = !IsLeadingRows(node);
      for (const ValueId id : TensorOperands(node)) {
        if (id == kNoValue) continue;
        level = std::max(level, level_[At(id)]);
        is_constant = is_constant && is_constant_[At(id)];  // not of an input
      }
      if (IsLeadingRows(node)) last_ = std::max(last_, ++level);
      for (const ValueId id : node.outputs) {
        if (id == kNoValue) continue;
        level_[At(id)] = level;
        is_constant_[At(id)] = is_constant;
        producer_[At(id)] = &node;
      }
    }
  }

  // Returns the level of the outputs that are used.
  int LevelOf(const Node& node) const {
    int level = 0;
    for (const ValueId id : node.outputs) level = std::max(level, id == kNoValue ? 0 : level_[At(id)]);
    return level;
  }

  // Nodes that a count needs belong to the part of their level, all others, effects included, to the last part.
  void AssignParts() {
    std::vector<bool> needed(level_.size(), false);
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node) {
      const auto is_needed = [&](ValueId id) { return id != kNoValue && needed[At(id)]; };
      const bool counts = IsLeadingRows(*node) || std::any_of(node->outputs.begin(), node->outputs.end(), is_needed);
      part_[&*node] = counts ? LevelOf(*node) : last_;
      if (!counts) continue;
      for (const ValueId id : TensorOperands(*node)) {
        if (id != kNoValue) needed[At(id)] = true;
      }
    }
  }

  void Place(const Node& node, int part) {
    if (!nodes_[At(part)].insert(&node).second) return;
    for (const ValueId id : TensorOperands(node)) Require(id, part);
  }

  // Makes a value available in a part.
  void Require(ValueId id, int part) {
    if (id == kNoValue || ProducerOf(id) == nullptr) return;  // inputs are available in all parts
    const Node& producer = *ProducerOf(id);
    if (!IsLeadingRows(producer) && part_.at(&producer) == part) return;
    if (IsRepeated(id)) return Place(producer, part);
    std::vector<ValueId>& inputs = inputs_[At(part)];
    if (std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
  }

  // Makes the inputs of a part available in the part before it.
  void PassOn(int part) {
    for (const ValueId id : inputs_[At(part)]) {
      const Node& producer = *ProducerOf(id);
      if (!IsLeadingRows(producer) || level_[At(id)] < part) {
        Require(id, part - 1);
        continue;
      }
      Require(RowsOf(producer), part - 1);
      Require(CountOf(producer), part - 1);
    }
  }

  // Returns the index of a value among the outputs of a sizing part, which it becomes.
  int OutputOf(ValueId id, int part, const std::string& name) {
    std::vector<std::pair<ValueId, std::string>>& outputs = outputs_[At(part)];
    const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const auto& o) { return o.first == id; });
    const auto index = static_cast<int>(found - outputs.begin());
    if (found == outputs.end()) outputs.emplace_back(id, name);
    if (outputs[At(index)].second.empty()) outputs[At(index)].second = name;
    return index;
  }

  ContinuedValue ContinuedOf(ValueId id, int part) {
    const Node& producer = *ProducerOf(id);
    if (IsLeadingRows(producer) && level_[At(id)] == part) {
      return {.index = OutputOf(RowsOf(producer), part - 1, ""),
              .from_inputs = false,
              .count = OutputOf(CountOf(producer), part - 1, NameOf(producer))};
    }
    const std::vector<ValueId>& before = inputs_[At(part - 1)];
    const auto found = std::find(before.begin(), before.end(), id);
    if (found != before.end()) return {.index = static_cast<int>(found - before.begin()), .from_inputs = true};
    return {.index = OutputOf(id, part - 1, "")};
  }

  void AddContinued(int part, Graph& graph) const {
    const std::vector<ValueId>& inputs = inputs_[At(part)];
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph.inputs().push_back({inputs[i], InputKind::kSaved, static_cast<int>(i), absl::StrCat("continued.", i)});
    }
  }

  absl::StatusOr<SizingGraph> MakeSizing(int part) {
    SizingGraph made{graph_, {}};
    for (const ValueId id : inputs_[At(part + 1)]) made.continued.push_back(ContinuedOf(id, part + 1));
    std::erase_if(made.graph.inputs(), [](const GraphInput& input) { return input.kind == InputKind::kToken; });
    AddContinued(part, made.graph);
    made.graph.outputs().clear();
    for (size_t i = 0; i < outputs_[At(part)].size(); ++i) {
      const auto& [id, name] = outputs_[At(part)][i];
      made.graph.AddOutput(id, OutputKind::kUserOutput, static_cast<int>(i), name);
    }
    auto original = graph_.nodes().begin();  // the copy has the same nodes
    made.graph.nodes().remove_if([&](const Node&) { return !nodes_[At(part)].contains(&*original++); });
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(made.graph).status());
    made.graph.Compact();
    return made;
  }

  Graph& graph_;
  std::vector<int> level_;             // by value
  std::vector<bool> is_constant_;      // by value
  std::vector<const Node*> producer_;  // by value; null: an input of the graph
  int last_ = 0;                       // the last part
  absl::flat_hash_map<const Node*, int> part_;
  std::vector<absl::flat_hash_set<const Node*>> nodes_;                // by part
  std::vector<std::vector<ValueId>> inputs_;                           // by part: values of earlier parts
  std::vector<std::vector<std::pair<ValueId, std::string>>> outputs_;  // by part, with their names
};

}  // namespace

bool HasLeadingRows(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), IsLeadingRows);
}

absl::StatusOr<std::vector<SizingGraph>> CutAtSizes(Graph& graph) { return Cutter(graph).Cut(); }

}  // namespace cotan::aot
