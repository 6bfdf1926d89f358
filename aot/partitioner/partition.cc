// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/partition.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/builder.h"
#include "aot/partitioner/activation_budget.h"
#include "aot/partitioner/joint_facts.h"
#include "aot/partitioner/min_cut.h"
#include "aot/partitioner/pool_offsets.h"
#include "aot/transforms/common_subexpressions.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Appended to the source of nodes that the backward repeats.
constexpr absl::string_view kRecomputed = "(recomputed)";

// Builds the two programs of a choice.
class Programs {
 public:
  Programs(const JointFacts& facts, const SavedChoice& choice) : facts_(facts), joint_(*facts.joint), choice_(choice) {}

  absl::StatusOr<Partitioned> Make() const {
    Partitioned result{joint_, Graph()};
    COTAN_RETURN_IF_ERROR(MakeForward(result.forward));
    COTAN_RETURN_IF_ERROR(MakeBackward(result.backward));
    return result;
  }

 private:
  static size_t At(ValueId id) { return JointFacts::At(id); }
  bool IsSaved(ValueId id) const { return choice_.saved[At(id)]; }

  absl::Status MakeForward(Graph& forward) const {
    forward.name = "forward";
    std::vector<int> position(joint_.inputs().size(), -1);  // of a joint input among the forward's
    std::vector<GraphInput> inputs;
    for (size_t i = 0; i < joint_.inputs().size(); ++i) {
      if (joint_.inputs()[i].kind == InputKind::kTangent || IsBackwardToken(joint_.inputs()[i])) continue;
      position[i] = static_cast<int>(inputs.size());
      inputs.push_back(joint_.inputs()[i]);
    }
    forward.inputs() = std::move(inputs);
    std::vector<GraphOutput> outputs;
    for (GraphOutput output : joint_.outputs()) {
      if (!IsOfForward(output)) continue;
      if (IsOfInput(output.kind)) output.index = position[static_cast<size_t>(output.index)];
      outputs.push_back(output);
    }
    forward.outputs() = std::move(outputs);
    int count = 0;
    for (const ValueId id : SavedInOrder()) {
      forward.AddOutput(id, OutputKind::kSaved, count, absl::StrCat("saved.", count));
      forward.outputs().back().without_version_check = facts_.without_version_check[At(id)];
      ++count;
    }
    forward.nodes().remove_if([&](const Node& node) { return facts_.RunsBackward(node); });
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(forward).status());
    forward.Compact();
    return absl::OkStatus();
  }

  std::vector<ValueId> SavedInOrder() const {
    std::vector<ValueId> saved;
    for (const GraphInput& input : joint_.inputs()) {
      if (IsSaved(input.value)) saved.push_back(input.value);
    }
    for (const Node& node : joint_.nodes()) {
      for (const ValueId id : node.outputs) {
        if (id != kNoValue && IsSaved(id)) saved.push_back(id);
      }
    }
    std::stable_partition(saved.begin(), saved.end(),
                          [&](ValueId id) { return !facts_.without_version_check[At(id)]; });
    return saved;
  }

  static int PositionOf(ValueId value, const std::vector<GraphInput>& inputs) {
    const auto found =
        std::find_if(inputs.begin(), inputs.end(), [&](const GraphInput& i) { return i.value == value; });
    return static_cast<int>(found - inputs.begin());
  }

  absl::Status MakeBackward(Graph& backward) const {
    backward = joint_;
    backward.name = "backward";
    std::vector<GraphInput> inputs;
    for (const ValueId id : SavedInOrder()) {
      const int index = static_cast<int>(inputs.size());
      inputs.push_back({id, InputKind::kSaved, index, absl::StrCat("saved.", index)});
    }
    for (const GraphInput& input : joint_.inputs()) {
      if (input.kind == InputKind::kTangent || IsBackwardToken(input)) inputs.push_back(input);
    }
    for (const GraphInput& input : joint_.inputs()) {
      if (facts_.is_state[At(input.value)]) inputs.push_back(input);
    }
    std::vector<GraphOutput> outputs;
    for (GraphOutput output : joint_.outputs()) {
      if (output.kind == OutputKind::kBackwardUpdate) {
        output.kind = OutputKind::kInputUpdate;
        output.index = PositionOf(joint_.inputs()[static_cast<size_t>(output.index)].value, inputs);
      } else if (output.kind != OutputKind::kGradient && !IsBackwardToken(output)) {
        continue;
      }
      outputs.push_back(std::move(output));
    }
    backward.inputs() = std::move(inputs);
    backward.outputs() = std::move(outputs);
    backward.nodes() = BackwardNodes(backward);
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(backward).status());
    backward.Compact();
    return absl::OkStatus();
  }

  // Returns the nodes of the backward in order: those that depend on tangents as in the joint graph, and recomputed
  // ones before their first reader.
  Graph::NodeList BackwardNodes(const Graph& backward) const {
    Graph::NodeList ordered;
    absl::flat_hash_set<const Node*> placed;
    for (const Node* node : facts_.nodes) {
      if (!facts_.RunsBackward(*node)) continue;
      for (const ValueId id : TensorOperands(*node)) PlaceRecomputed(id, placed, ordered);
      ordered.push_back(*node);
    }
    for (const GraphOutput& output : backward.outputs()) PlaceRecomputed(output.value, placed, ordered);
    return ordered;
  }

  // Appends the node that recomputes a value, after those that recompute its operands.
  void PlaceRecomputed(ValueId value, absl::flat_hash_set<const Node*>& placed, Graph::NodeList& ordered) const {
    std::vector<std::pair<const Node*, bool>> pending;  // a node, and whether its operands are placed
    const auto add = [&](ValueId id) {
      if (id == kNoValue || !choice_.recomputed[At(id)]) return;
      const Node* producer = facts_.producer[At(id)];
      if (!placed.contains(producer)) pending.emplace_back(producer, false);
    };
    add(value);
    while (!pending.empty()) {
      auto& [node, is_ready] = pending.back();
      if (placed.contains(node)) {
        pending.pop_back();
      } else if (is_ready) {
        placed.insert(node);
        Node& copy = ordered.emplace_back(*node);
        if (facts_.RunsForward(*node))
          copy.source = absl::StrCat(node->source, node->source.empty() ? "" : " ", kRecomputed);
        pending.pop_back();
      } else {
        is_ready = true;
        const std::vector<ValueId> operands = TensorOperands(*node);
        for (auto operand = operands.rbegin(); operand != operands.rend(); ++operand) add(*operand);
      }
    }
  }

  const JointFacts& facts_;
  const Graph& joint_;
  const SavedChoice& choice_;
};

// Returns the values that depend on `id`.
absl::flat_hash_set<ValueId> DependentsOf(const Graph& graph, ValueId id) {
  absl::flat_hash_set<ValueId> dependents = {id};
  for (const Node& node : graph.nodes()) {
    for (const ValueId operand : TensorOperands(node)) {
      if (!dependents.contains(operand)) continue;
      dependents.insert(node.outputs.begin(), node.outputs.end());
      break;
    }
  }
  dependents.erase(kNoValue);
  return dependents;
}

// Joins the effects of forward and backward into one program: those of the forward come first.
void JoinTokens(Graph& joint) {
  const auto first = std::find_if(joint.outputs().begin(), joint.outputs().end(), [](const GraphOutput& output) {
    return output.kind == OutputKind::kToken && output.index == 0;
  });
  const auto second = std::find_if(joint.inputs().begin(), joint.inputs().end(),
                                   [](const GraphInput& input) { return IsBackwardToken(input); });
  if (first == joint.outputs().end() || second == joint.inputs().end()) return;
  joint.ReplaceAllUses(second->value, first->value);
  joint.inputs().erase(second);
  joint.outputs().erase(first);
  joint.Compact();
}

}  // namespace

absl::Status CheckPartitionOptions(const PartitionOptions& options) {
  const double budget = options.activation_memory_budget;
  if (!(budget >= 0 && budget <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("activation_memory_budget is ", budget, ", but must be a number from 0 to 1"));
  }
  if (budget != 1 && options.partitioner != Partitioner::kMinCut) {
    return absl::InvalidArgumentError(
        absl::StrCat("activation_memory_budget is ", budget,
                     ", but only the partitioner min_cut can save less: leave it at 1, or "
                     "choose min_cut"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Partitioned> Partition(const Graph& lowered, const PartitionOptions& options) {
  COTAN_RETURN_IF_ERROR(CheckPartitionOptions(options));
  Graph joint = lowered;
  COTAN_RETURN_IF_ERROR(NarrowPoolIndices(joint));
  // A view or a checked index that both programs read is one value, which is saved once. Expressions stay separate,
  // because fusion decides about them.
  COTAN_RETURN_IF_ERROR(
      EliminateCommonSubexpressionsIf(joint, [](const Node& node) { return node.op != kExprOp; }).status());
  COTAN_ASSIGN_OR_RETURN(const JointFacts facts, JointFactsOf(joint));
  const std::vector<RecomputeClass> classes = RecomputeClasses(facts, options.save_policy);
  SavedChoice choice;
  if (options.partitioner == Partitioner::kDefault) {
    COTAN_ASSIGN_OR_RETURN(choice, SavedUpTo(RecomputeClass::kCheap, facts, classes));
  } else {
    COTAN_ASSIGN_OR_RETURN(choice, SavedWithin(options.activation_memory_budget, facts, classes));
  }
  return Programs(facts, choice).Make();
}

absl::Status SeedLoss(Graph& joint, int tangent_index) {
  const auto loss = std::find_if(joint.inputs().begin(), joint.inputs().end(), [&](const GraphInput& input) {
    return input.kind == InputKind::kTangent && input.index == tangent_index;
  });
  if (loss == joint.inputs().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("@", joint.name, ": tangent ", tangent_index, " does not exist, so that it cannot be the loss"));
  }
  const TensorType type = joint.value(loss->value).type;
  if (!(NumElementsOf(type.sizes) == SymInt(1)) || !IsFloatingPoint(type.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("@", joint.name, ": '", loss->name, "' cannot be the loss: it is not a floating point scalar"));
  }
  for (const GraphInput& input : joint.inputs()) {
    if (input.kind != InputKind::kTangent || input.index == tangent_index) continue;
    const absl::flat_hash_set<ValueId> dependents = DependentsOf(joint, input.value);
    for (const GraphOutput& output : joint.outputs()) {
      if (output.kind != OutputKind::kGradient || !dependents.contains(output.value)) continue;
      return absl::InvalidArgumentError(absl::StrCat("@", joint.name, ": '", input.name,
                                                     "' also contributes to the gradients; the loss must be the ",
                                                     "only one that has a gradient"));
    }
  }
  const ValueId tangent = loss->value;
  Builder b(&joint);
  const ValueId one = b.Full(b.Literal(1.0), type.dtype, type.sizes).id();
  joint.nodes().splice(joint.nodes().begin(), joint.nodes(), std::prev(joint.nodes().end()));
  joint.ReplaceAllUses(tangent, one);
  std::erase_if(joint.inputs(), [](const GraphInput& input) { return input.kind == InputKind::kTangent; });
  COTAN_RETURN_IF_ERROR(b.status());
  JoinTokens(joint);
  COTAN_RETURN_IF_ERROR(EliminateDeadCode(joint).status());
  joint.Compact();
  return absl::OkStatus();
}

}  // namespace cotan::aot
