// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/partition.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/size_estimate.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"

namespace cotan::aot {
namespace {

constexpr int64_t kSmallBytes = 4096;

int64_t EstimatedBytes(const TensorType& type) {
  int64_t bytes = static_cast<int64_t>(ByteSize(type.dtype));
  for (const SymInt& size : type.sizes) bytes *= std::max<int64_t>(EstimatedSize(size), 1);
  return bytes;
}

// Returns true if all functions of a pointwise program cost about as much as loading their
// operands. Random draws count as cheap, because they load nothing: a dropout mask is drawn again.
bool IsCheap(const serialization::Expr& expr) {
  if (expr.reduce_dims_size() > 0) return false;
  return std::all_of(expr.instructions().begin(), expr.instructions().end(),
                     [](const serialization::ExprInstruction& instruction) {
                       return IsCheapExprFn(instruction.fn()) || instruction.fn() == serialization::FN_RANDOM_UNIFORM;
                     });
}

// Returns true if the node does no work at run time.
bool IsFree(const Node& node) {
  const std::optional<PrimOp> op = PrimOpOf(node);
  return op.has_value() && PrimInfo(*op).cost == PrimCost::kFree;
}

// Returns true if the output is the new content of a graph input.
bool IsOfInput(OutputKind kind) {
  return kind == OutputKind::kMutatedInput || kind == OutputKind::kBackwardUpdate || UpdatesInput(kind);
}

// Returns true for the token of the effects in the backward.
bool IsBackwardToken(const GraphInput& input) { return input.kind == InputKind::kToken && input.index == 1; }
bool IsBackwardToken(const GraphOutput& output) { return output.kind == OutputKind::kToken && output.index == 1; }

class Partitioner {
 public:
  Partitioner(const Graph& joint, const SavePolicyFunction& policy)
      : joint_(joint),
        policy_(policy),
        available_in_backward_(Size(), false),
        saved_(Size(), false),
        dependent_(Size(), false) {}

  absl::StatusOr<Partitioned> Run() {
    COTAN_RETURN_IF_ERROR(Classify());
    ChooseSaved();
    Partitioned result{joint_, Graph()};
    COTAN_RETURN_IF_ERROR(MakeForward(result.forward));
    COTAN_RETURN_IF_ERROR(MakeBackward(result.backward));
    return result;
  }

 private:
  size_t Size() const { return static_cast<size_t>(joint_.num_values()); }
  static size_t At(ValueId id) { return static_cast<size_t>(id); }

  // Finds the values that depend on a tangent, the producer of each value, and the inputs that the
  // backward can read directly.
  absl::Status Classify() {
    absl::flat_hash_set<int> mutated;
    for (const GraphOutput& output : joint_.outputs()) {
      if (IsOfInput(output.kind) && output.kind != OutputKind::kBackwardUpdate) mutated.insert(output.index);
    }
    bool has_tangents = false;
    for (size_t i = 0; i < joint_.inputs().size(); ++i) {
      const GraphInput& input = joint_.inputs()[i];
      if (input.kind == InputKind::kTangent || IsBackwardToken(input)) {
        dependent_[At(input.value)] = true;
        has_tangents = has_tangents || input.kind == InputKind::kTangent;
        continue;
      }
      const bool is_state =
          input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer || input.kind == InputKind::kConstant;
      available_in_backward_[At(input.value)] = is_state && !mutated.contains(static_cast<int>(i));
    }
    if (!has_tangents) return absl::InvalidArgumentError(absl::StrCat("@", joint_.name, " has no tangents to cut at"));
    for (const Node& node : joint_.nodes()) {
      bool depends = false;
      for (const ValueId id : TensorOperands(node)) depends = depends || (id != kNoValue && dependent_[At(id)]);
      for (const ValueId id : node.outputs) {
        if (id == kNoValue) continue;
        dependent_[At(id)] = depends;
        producers_[id] = &node;
      }
    }
    return absl::OkStatus();
  }

  void ChooseSaved() {
    for (const Node& node : joint_.nodes()) {
      const bool runs_backward = std::any_of(node.outputs.begin(), node.outputs.end(),
                                             [&](ValueId id) { return id != kNoValue && dependent_[At(id)]; });
      if (!runs_backward) continue;
      for (const ValueId id : TensorOperands(node)) {
        if (id != kNoValue) MakeAvailableInBackward(id);
      }
    }
    for (const GraphOutput& output : joint_.outputs()) {
      if (output.kind == OutputKind::kBackwardUpdate) {
        // The backward writes to the tensor that the forward got.
        const ValueId written = joint_.inputs()[static_cast<size_t>(output.index)].value;
        if (!available_in_backward_[At(written)]) saved_[At(written)] = true;
        MakeAvailableInBackward(output.value);
      }
      if (output.kind == OutputKind::kGradient && output.value != kNoValue) MakeAvailableInBackward(output.value);
    }
  }

  bool Provided(ValueId id) const { return dependent_[At(id)] || available_in_backward_[At(id)] || saved_[At(id)]; }

  // Makes a value of the forward available in the backward: saves it, or recomputes it from saved
  // values.
  void MakeAvailableInBackward(ValueId id) {
    if (Provided(id)) return;
    if (IsRecomputable(id)) {
      for (const ValueId operand : TensorOperands(*producers_.at(id))) MakeAvailableInBackward(operand);
      available_in_backward_[At(id)] = true;
      return;
    }
    saved_[At(id)] = true;
  }

  bool IsRecomputable(ValueId id) const {
    const auto it = producers_.find(id);
    if (it == producers_.end()) return false;
    const Node& node = *it->second;
    switch (PolicyOf(node)) {
      case SavePolicy::kSave:
        return false;
      case SavePolicy::kRecompute:
        return true;
      case SavePolicy::kDefault:
        break;
    }
    if (IsFree(node)) return true;
    if (node.expr == nullptr || !IsCheap(*node.expr)) return false;
    int64_t extra = 0;
    bool stored_anyway = true;  // all operands are
    for (const ValueId operand : TensorOperands(node)) {
      extra += CostOf(operand, kMaxDepth);
      stored_anyway = stored_anyway && IsStoredAnyway(operand);
    }
    const int64_t whole = EstimatedBytes(joint_.value(id).type);
    return extra < whole || (stored_anyway && extra <= whole + whole / 8);
  }

  SavePolicy PolicyOf(const Node& node) const {
    if (IsPrim(node, PrimKind::kEffect)) return SavePolicy::kSave;
    return policy_ == nullptr ? SavePolicy::kDefault : policy_(joint_, node);
  }

  // Returns true if the value is in memory without being saved: results of kernels, graph inputs
  // and small values. Results of expressions may be fused and never stored.
  bool IsStoredAnyway(ValueId id) const {
    if (Provided(id) || EstimatedBytes(joint_.value(id).type) <= kSmallBytes) return true;
    const auto it = producers_.find(id);
    if (it == producers_.end()) return true;
    if (IsView(*it->second)) return IsStoredAnyway(TensorOperands(*it->second)[0]);
    return it->second->expr == nullptr;
  }

  // Returns the bytes that must be saved to make the value available in the backward.
  int64_t CostOf(ValueId id, int depth) const {
    if (Provided(id)) return 0;
    const int64_t whole = EstimatedBytes(joint_.value(id).type);
    const auto it = producers_.find(id);
    if (it == producers_.end() || depth == 0) return whole;
    const Node& node = *it->second;
    if (!IsFree(node) && (node.expr == nullptr || !IsCheap(*node.expr))) return whole;
    int64_t parts = 0;
    for (const ValueId operand : TensorOperands(node)) parts += CostOf(operand, depth - 1);
    return std::min(parts, whole);
  }

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
      if (output.kind == OutputKind::kGradient || output.kind == OutputKind::kBackwardUpdate ||
          IsBackwardToken(output)) {
        continue;
      }
      if (IsOfInput(output.kind)) output.index = position[static_cast<size_t>(output.index)];
      outputs.push_back(output);
    }
    forward.outputs() = std::move(outputs);
    int count = 0;
    for (const ValueId id : SavedInOrder()) {
      forward.AddOutput(id, OutputKind::kSaved, count, absl::StrCat("saved.", count));
      ++count;
    }
    forward.nodes().remove_if([&](const Node& node) {
      return std::any_of(node.outputs.begin(), node.outputs.end(),
                         [&](ValueId id) { return id != kNoValue && dependent_[At(id)]; });
    });
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(forward).status());
    forward.Compact();
    return absl::OkStatus();
  }

  std::vector<ValueId> SavedInOrder() const {
    std::vector<ValueId> saved;
    for (const GraphInput& input : joint_.inputs()) {
      if (saved_[At(input.value)]) saved.push_back(input.value);
    }
    for (const Node& node : joint_.nodes()) {
      for (const ValueId id : node.outputs) {
        if (id != kNoValue && saved_[At(id)]) saved.push_back(id);
      }
    }
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
      if (input.kind != InputKind::kTangent && available_in_backward_[At(input.value)]) inputs.push_back(input);
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
    // Keeps a node only if the backward needs a result that is not saved.
    backward.nodes().remove_if([&](const Node& node) {
      return std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
        return id != kNoValue && !saved_[At(id)] && (dependent_[At(id)] || available_in_backward_[At(id)]);
      });
    });
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(backward).status());
    backward.Compact();
    return absl::OkStatus();
  }

  static constexpr int kMaxDepth = 6;

  const Graph& joint_;
  const SavePolicyFunction& policy_;
  std::vector<bool> available_in_backward_;  // the backward reads or recomputes it
  std::vector<bool> saved_;
  std::vector<bool> dependent_;  // on a tangent
  absl::flat_hash_map<ValueId, const Node*> producers_;
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

absl::StatusOr<Partitioned> Partition(const Graph& joint, const SavePolicyFunction& policy) {
  return Partitioner(joint, policy).Run();
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
