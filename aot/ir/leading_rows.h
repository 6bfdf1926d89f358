// SPDX-License-Identifier: Apache-2.0

// The op at which programs are cut because their sizes depend on data (aot/partitioner/cut_at_sizes.h). It has
// arguments (Tensor x, Tensor count, SymInt size, str name) and returns the first `count` (i64[]) rows of x, which has
// the most that there may be; `size` is their number, and `name` says what is counted. It is one op in a lowered graph;
// none is left when expressions are fused.
#ifndef COTAN_AOT_IR_LEADING_ROWS_H_
#define COTAN_AOT_IR_LEADING_ROWS_H_

#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

inline constexpr absl::string_view kLeadingRowsOp = "cotan.leading_rows";

inline bool IsLeadingRows(const Node& node) { return node.op == kLeadingRowsOp; }

// The following are of a node for which IsLeadingRows() holds.
inline ValueId RowsOf(const Node& node) { return std::get<Use>(node.arguments[0]).value; }
inline ValueId CountOf(const Node& node) { return std::get<Use>(node.arguments[1]).value; }
inline const std::string& NameOf(const Node& node) { return std::get<std::string>(node.arguments[3]); }

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_LEADING_ROWS_H_
