// SPDX-License-Identifier: Apache-2.0

// Access to nodes of the dialect prim by op and by the names of the parameters in the registry
// (prim_ops.h):
//
//   if (IsPrim(node, PrimOp::kGather) && IntAttribute(node, "dim") == 0) Check(OperandOf(node, "index"));
//
// The functions that take a parameter's name require a prim node that VerifyGraph() accepts and
// whose op has such a parameter of the requested type; otherwise they throw std::out_of_range or
// std::bad_variant_access.
#ifndef COTAN_AOT_IR_PRIM_NODE_H_
#define COTAN_AOT_IR_PRIM_NODE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "aot/ir/prim_ops.h"

namespace cotan::aot {

// Returns the node's op; none if it is of another dialect.
inline std::optional<PrimOp> PrimOpOf(const Node& node) { return FindPrimOp(node.op); }

inline bool IsPrim(const Node& node, PrimOp op) { return node.op == PrimName(op); }
bool IsPrim(const Node& node, PrimKind kind);

// Returns true if the result shares the first operand's memory with another geometry.
inline bool IsView(const Node& node) { return IsPrim(node, PrimKind::kView); }

// Returns the position of a parameter among the node's arguments.
size_t ArgumentIndex(const Node& node, absl::string_view name);

// Returns an attribute of type bool, double, SymInt, std::string, or std::vector<SymInt>.
template <typename T>
const T& Attribute(const Node& node, absl::string_view name) {
  return std::get<T>(node.arguments[ArgumentIndex(node, name)]);
}

// Returns an attribute of type int or int[].
int64_t IntAttribute(const Node& node, absl::string_view name);
std::vector<int64_t> IntListAttribute(const Node& node, absl::string_view name);

// Returns true if an optional operand or attribute is None.
bool IsNone(const Node& node, absl::string_view name);

// Returns an operand that is not None.
ValueId OperandOf(const Node& node, absl::string_view name);

// Return lists in the form of an argument.
std::vector<SymInt> ToSymInts(const SymIntVector& sizes);
std::vector<SymInt> ToSymInts(absl::Span<const int64_t> values);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_PRIM_NODE_H_
