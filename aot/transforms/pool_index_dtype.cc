// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/pool_index_dtype.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <variant>
#include <vector>

#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"
#include "base/layout.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns whether positions in the pool's input plane are known to fit into i32.
bool HasSmallPlane(const Graph& graph, const Node& pool) {
  const size_t spatial = IntListAttribute(pool, "kernel").size();
  return FitsIntoInt32(absl::MakeConstSpan(graph.value(OperandOf(pool, "x")).type.sizes).last(spatial));
}

bool IsOutput(const Graph& graph, ValueId value) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](const GraphOutput& output) { return output.value == value; });
}

// Returns the uses of `indices` by other nodes than prim.max_pool_backward.
std::vector<Use*> OtherUses(Graph& graph, ValueId indices) {
  std::vector<Use*> uses;
  const auto add = [&](Use& use) {
    if (use.value == indices) uses.push_back(&use);
  };
  for (Node& node : graph.nodes()) {
    if (IsPrim(node, PrimOp::kMaxPoolBackward)) continue;
    for (Argument& argument : node.arguments) {
      if (Use* const use = std::get_if<Use>(&argument)) add(*use);
      auto* const list = std::get_if<std::vector<Use>>(&argument);
      if (list != nullptr) std::for_each(list->begin(), list->end(), add);
    }
  }
  return uses;
}

}  // namespace

bool FitsIntoInt32(absl::Span<const SymInt> plane) {
  DimVector sizes;
  for (const SymInt& size : plane) {
    if (!size.is_constant()) return false;
    sizes.push_back(size.constant());
  }
  const int64_t positions = CheckedNumElements(sizes);
  return positions >= 0 && positions <= std::numeric_limits<int32_t>::max();
}

absl::StatusOr<bool> NarrowPoolIndexDTypes(Graph& graph) {
  bool changed = false;
  for (auto node = graph.nodes().begin(); node != graph.nodes().end(); ++node) {
    if (!IsPrim(*node, PrimOp::kMaxPool)) continue;
    const ValueId indices = node->outputs[1];
    if (indices == kNoValue || graph.value(indices).type.dtype == DType::kInt32) continue;
    if (IsOutput(graph, indices) || !HasSmallPlane(graph, *node)) continue;
    changed = true;
    const std::vector<Use*> others = OtherUses(graph, indices);
    graph.value(indices).type.dtype = DType::kInt32;
    if (others.empty()) continue;
    Builder b(&graph);
    b.set_source(node->source);
    const Tensor wide = b.Cast(b.Value(indices), DType::kInt64);
    COTAN_RETURN_IF_ERROR(b.status());
    for (Use* const use : others) use->value = wide.id();
    graph.nodes().splice(std::next(node), graph.nodes(), std::prev(graph.nodes().end()));
  }
  return changed;
}

}  // namespace cotan::aot
