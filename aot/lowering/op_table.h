// SPDX-License-Identifier: Apache-2.0

// The ops that Cotan supports: one row per aten op. Lowering, the diagnostics of unsupported ops,
// the op tests and the support matrix use this list. The rows are in ops/*.cc, by family
// (docs/adding_an_op.md).
#ifndef COTAN_AOT_LOWERING_OP_TABLE_H_
#define COTAN_AOT_LOWERING_OP_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "aot/lowering/ops/op_row.h"

namespace cotan::aot {

// Returns all rows, sorted by op.
absl::Span<const OpRow> OpTable();

// Returns the row of `op`; null if there is none.
const OpRow* FindOp(absl::string_view op);

// Returns true if `op` ("aten.add.Tensor", "cotan.random_uniform.default") can be compiled.
bool IsSupported(absl::string_view op);

// Lowers `node` of the graph that `lowering` reads by its row.
// Unimplemented: there is no row, or it does not cover these arguments.
absl::Status LowerNode(const Node& node, Lowering& lowering);

// Returns the ops of `graph` that cannot be compiled, sorted, without duplicates. Calls of blocks are not among them.
std::vector<std::string> UnsupportedOps(const Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OP_TABLE_H_
