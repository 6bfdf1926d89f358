// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/pool_index_dtype.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "aot/ir/prim_node.h"
#include "base/layout.h"

namespace cotan::aot {
namespace {

// Returns whether positions in the pool's input plane are known to fit into i32.
bool HasSmallPlane(const Graph& graph, const Node& pool) {
  const SymIntVector& sizes = graph.value(OperandOf(pool, "x")).type.sizes;
  const size_t spatial = IntListAttribute(pool, "kernel").size();
  DimVector plane;
  for (size_t d = sizes.size() - spatial; d < sizes.size(); ++d) {
    if (!sizes[d].is_constant()) return false;
    plane.push_back(sizes[d].constant());
  }
  const int64_t positions = CheckedNumElements(plane);
  return positions >= 0 && positions <= std::numeric_limits<int32_t>::max();
}

}  // namespace

absl::StatusOr<bool> NarrowPoolIndexDTypes(Graph& graph) {
  std::vector<bool> must_stay(static_cast<size_t>(graph.num_values()));  // read by other nodes
  for (const Node& node : graph.nodes()) {
    const ValueId indices = IsPrim(node, PrimOp::kMaxPoolBackward) ? OperandOf(node, "indices") : ValueId{kNoValue};
    for (const ValueId id : TensorOperands(node)) {
      if (id != kNoValue && id != indices) must_stay[static_cast<size_t>(id)] = true;
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) must_stay[static_cast<size_t>(output.value)] = true;
  }
  bool changed = false;
  for (const Node& node : graph.nodes()) {
    if (!IsPrim(node, PrimOp::kMaxPool)) continue;
    const ValueId indices = node.outputs[1];
    if (indices == kNoValue || must_stay[static_cast<size_t>(indices)] || !HasSmallPlane(graph, node)) continue;
    DType& dtype = graph.value(indices).type.dtype;
    changed = changed || dtype != DType::kInt32;
    dtype = DType::kInt32;
  }
  return changed;
}

}  // namespace cotan::aot
