// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_node.h"

#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace cotan::aot {

bool IsPrim(const Node& node, PrimKind kind) {
  const std::optional<PrimOp> op = PrimOpOf(node);
  return op.has_value() && PrimInfo(*op).kind == kind;
}

size_t ArgumentIndex(const Node& node, absl::string_view name) {
  const std::optional<PrimOp> op = PrimOpOf(node);
  const absl::Span<const PrimParameter> parameters =
      op.has_value() ? PrimInfo(*op).Parameters() : absl::Span<const PrimParameter>();
  for (size_t i = 0; i < parameters.size() && i < node.arguments.size(); ++i) {
    if (parameters[i].name == name) return i;
  }
  throw std::out_of_range(absl::StrCat(node.op, " has no argument '", name, "'"));
}

int64_t IntAttribute(const Node& node, absl::string_view name) { return Attribute<SymInt>(node, name).constant(); }

std::vector<int64_t> IntListAttribute(const Node& node, absl::string_view name) {
  std::vector<int64_t> values;
  for (const SymInt& value : Attribute<std::vector<SymInt>>(node, name)) values.push_back(value.constant());
  return values;
}

bool IsNone(const Node& node, absl::string_view name) {
  return std::holds_alternative<None>(node.arguments[ArgumentIndex(node, name)]);
}

ValueId OperandOf(const Node& node, absl::string_view name) { return Attribute<Use>(node, name).value; }

std::vector<SymInt> ToSymInts(const SymIntVector& sizes) { return {sizes.begin(), sizes.end()}; }
std::vector<SymInt> ToSymInts(absl::Span<const int64_t> values) { return {values.begin(), values.end()}; }

}  // namespace cotan::aot
