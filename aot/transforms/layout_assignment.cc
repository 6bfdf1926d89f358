// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/layout_assignment.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "aot/ir/prim_ops.h"

namespace cotan::aot {
namespace {

// Returns {0, 2, ..., rank - 1, 1}.
DimVector ChannelsLast(size_t rank) {
  DimVector order = {0};
  for (size_t d = 2; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
  order.push_back(1);
  return order;
}

class LayoutAssigner {
 public:
  explicit LayoutAssigner(Graph& graph) : graph_(graph) {}

  bool Run() {
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.kind != OutputKind::kSaved) fixed_.insert(output.value);
    }
    for (const GraphInput& input : graph_.inputs()) {
      if (IsChannelsLast(graph_.value(input.value).type)) channels_last_.insert(input.value);
    }
    FindPermutedUses();
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : node.outputs) Assign(node, id);
    }
    return changed_;
  }

 private:
  static bool IsChannelsLast(const TensorType& type) {
    return type.dim_order.size() > 2 && type.dim_order == ChannelsLast(type.dim_order.size());
  }

  // Finds the values whose only use is a permutation.
  void FindPermutedUses() {
    absl::flat_hash_map<ValueId, int> uses;
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : TensorOperands(node)) ++uses[id];
    }
    for (const GraphOutput& output : graph_.outputs()) ++uses[output.value];
    for (const Node& node : graph_.nodes()) {
      if (node.op != "prim.permute") continue;
      const ValueId source = TensorOperands(node)[0];
      if (uses[source] != 1) continue;
      DimVector order;
      for (const SymInt& dim : std::get<std::vector<SymInt>>(node.arguments[1])) order.push_back(dim.constant());
      permuted_.emplace(source, std::move(order));
    }
  }

  void Set(ValueId id, DimVector order) {
    if (fixed_.contains(id)) return;
    changed_ = changed_ || !(graph_.value(id).type.dim_order == order);
    graph_.value(id).type.dim_order = std::move(order);
  }

  void SetChannelsLast(ValueId id) {
    if (fixed_.contains(id)) return;
    Set(id, ChannelsLast(graph_.value(id).type.sizes.size()));
    channels_last_.insert(id);
  }

  // Returns true if an operand of the node's rank is channels-last.
  bool FollowsChannelsLast(const Node& node, size_t rank) const {
    for (const ValueId id : TensorOperands(node)) {
      if (channels_last_.contains(id) && graph_.value(id).type.sizes.size() == rank) return true;
    }
    return false;
  }

  // Returns true if a spatial dimension is larger than 1.
  bool IsImage(ValueId id) const {
    const SymIntVector& sizes = graph_.value(id).type.sizes;
    return std::any_of(sizes.begin() + 2, sizes.end(), [](const SymInt& size) { return !(size == SymInt(1)); });
  }

  void Assign(const Node& node, ValueId id) {
    const size_t rank = graph_.value(id).type.sizes.size();
    if (node.op == "prim.attention" && rank == 4) return Set(id, {0, 2, 1, 3});
    if (node.op == "prim.attention_backward") return Set(id, {0, 2, 1, 3});
    if (rank < 3) return;
    // Stored in the order in which its only reader reads it. The rows of a matrix product stay
    // rows.
    if (const auto it = permuted_.find(id); it != permuted_.end()) {
      const bool keeps_rows = it->second.back() == static_cast<int64_t>(rank) - 1;
      const bool writes_rows = node.op == "prim.matmul" || IsRecurrentOp(node.op);
      if (node.op == "prim.concat" || (writes_rows && keeps_rows)) return Set(id, it->second);
    }
    if (node.op == "prim.convolution" || node.op == "prim.convolution_backward_input") return SetChannelsLast(id);
    const bool follows = node.expr != nullptr || node.op == "prim.concat" || IsPoolOp(node.op);
    if (follows && IsImage(id) && FollowsChannelsLast(node, rank)) return SetChannelsLast(id);
    // The layout of the operand of such a view determines the layout of its consumers.
    const bool keeps_order = node.op == "prim.slice" || node.op == "prim.expand";
    if (keeps_order && FollowsChannelsLast(node, rank)) channels_last_.insert(id);
  }

  Graph& graph_;
  absl::flat_hash_set<ValueId> fixed_;  // inputs and outputs of the graph
  absl::flat_hash_set<ValueId> channels_last_;
  absl::flat_hash_map<ValueId, DimVector> permuted_;  // order in which the only reader reads a value
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> AssignLayouts(Graph& graph) { return LayoutAssigner(graph).Run(); }

}  // namespace cotan::aot
