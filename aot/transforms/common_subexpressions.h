// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_COMMON_SUBEXPRESSIONS_H_
#define COTAN_AOT_TRANSFORMS_COMMON_SUBEXPRESSIONS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Replaces a node by an earlier one with the same op, arguments, program and result types. Random
// draws with equal arguments are equal too: they use the same slice of the generator. Returns true
// if the graph changed.
absl::StatusOr<bool> EliminateCommonSubexpressions(Graph& graph);

// Considers only nodes for which `eligible` returns true.
absl::StatusOr<bool> EliminateCommonSubexpressionsIf(Graph& graph, const std::function<bool(const Node&)>& eligible);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_COMMON_SUBEXPRESSIONS_H_
