// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/layout_assignment.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "aot/ir/prim_node.h"

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
  LayoutAssigner(Graph& graph, const LayoutPreferences& preferences) : graph_(graph), preferences_(preferences) {}

  bool Run() {
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.kind != OutputKind::kSaved) fixed_.insert(output.value);
    }
    for (const GraphInput& input : graph_.inputs()) {
      if (IsChannelsLast(graph_.value(input.value).type)) channels_last_.insert(input.value);
    }
    FindPermutedUses();
    if (preferences_.half_kernels_channels_last) FindHalfKernels();
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
      if (!IsPrim(node, PrimOp::kPermute)) continue;
      const ValueId source = OperandOf(node, "x");
      if (uses[source] != 1) continue;
      const std::vector<int64_t> dims = IntListAttribute(node, "dims");
      permuted_.emplace(source, DimVector(dims.begin(), dims.end()));
    }
  }

  // Finds the f16 and bf16 kernels of convolutions and gradients of kernels that only convolutions and expressions
  // read.
  void FindHalfKernels() {
    for (const Node& node : graph_.nodes()) {
      if (IsPrim(node, PrimOp::kConvolutionBackwardWeight)) AddHalfKernel(node.outputs[0]);
      if (node.expr != nullptr) continue;
      const bool reads_kernel = IsPrim(node, PrimOp::kConvolution) || IsPrim(node, PrimOp::kConvolutionBackwardInput);
      const ValueId kernel = reads_kernel ? OperandOf(node, "weight") : kNoValue;
      if (reads_kernel) AddHalfKernel(kernel);
      for (const ValueId id : TensorOperands(node)) {
        if (id != kernel) read_otherwise_.insert(id);
      }
    }
  }

  void AddHalfKernel(ValueId id) {
    const DType dtype = graph_.value(id).type.dtype;
    if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) half_kernels_.insert(id);
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

  // Gives a copy the layout of its source.
  void Follow(ValueId source, ValueId copy) {
    Set(copy, graph_.value(source).type.dim_order);
    if (channels_last_.contains(source)) channels_last_.insert(copy);
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
    if (IsPrim(node, PrimOp::kToHost) || IsPrim(node, PrimOp::kFromHost)) return Follow(OperandOf(node, "x"), id);
    if (IsPrim(node, PrimOp::kAttention) && rank == 4) return Set(id, {0, 2, 1, 3});
    if (IsPrim(node, PrimOp::kAttentionBackward)) return Set(id, {0, 2, 1, 3});
    if (rank < 3) return;
    // Stored in the order in which its only reader reads it. The rows of a matrix product stay
    // rows.
    if (const auto it = permuted_.find(id); it != permuted_.end()) {
      const bool keeps_rows = it->second.back() == static_cast<int64_t>(rank) - 1;
      const bool writes_rows = IsPrim(node, PrimOp::kMatmul) || IsPrim(node, PrimKind::kRecurrent);
      if (IsPrim(node, PrimOp::kConcat) || (writes_rows && keeps_rows)) return Set(id, it->second);
    }
    if (IsPrim(node, PrimOp::kConvolution) || IsPrim(node, PrimOp::kConvolutionBackwardInput)) {
      return SetChannelsLast(id);
    }
    if (half_kernels_.contains(id) && !read_otherwise_.contains(id) && IsImage(id)) {
      return Set(id, ChannelsLast(rank));
    }
    const bool follows = node.expr != nullptr || IsPrim(node, PrimOp::kConcat) || IsPrim(node, PrimKind::kPool) ||
                         IsPrim(node, PrimOp::kGather) || IsPrim(node, PrimOp::kScatterAdd);
    if (follows && IsImage(id) && FollowsChannelsLast(node, rank)) return SetChannelsLast(id);
    // The layout of the operand of such a view determines the layout of its consumers.
    const bool keeps_order = IsPrim(node, PrimOp::kSlice) || IsPrim(node, PrimOp::kExpand);
    if (keeps_order && FollowsChannelsLast(node, rank)) channels_last_.insert(id);
  }

  Graph& graph_;
  const LayoutPreferences preferences_;
  absl::flat_hash_set<ValueId> fixed_;  // inputs and outputs of the graph
  absl::flat_hash_set<ValueId> channels_last_;
  absl::flat_hash_set<ValueId> half_kernels_;
  absl::flat_hash_set<ValueId> read_otherwise_;       // other than as a kernel, by a node without a program
  absl::flat_hash_map<ValueId, DimVector> permuted_;  // order in which the only reader reads a value
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> AssignLayouts(Graph& graph, const LayoutPreferences& preferences) {
  return LayoutAssigner(graph, preferences).Run();
}

}  // namespace cotan::aot
