#ifndef COTAN_AOT_TRANSFORMS_COMMON_SUBEXPRESSIONS_H_
#define COTAN_AOT_TRANSFORMS_COMMON_SUBEXPRESSIONS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Replaces a node by an earlier one with the same op, arguments, program and
// result types. Draws of random numbers with equal arguments are equal too:
// they draw from the same slice.
absl::StatusOr<bool> EliminateCommonSubexpressions(Graph& graph);

// The same among the nodes that `eligible` accepts.
absl::StatusOr<bool> EliminateCommonSubexpressionsIf(Graph& graph, const std::function<bool(const Node&)>& eligible);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_COMMON_SUBEXPRESSIONS_H_
