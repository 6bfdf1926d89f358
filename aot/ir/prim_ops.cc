// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_ops.h"

#include <utility>

#include "absl/container/flat_hash_map.h"

namespace cotan::aot {
namespace {

constexpr std::pair<absl::string_view, PrimParameterKind> kParameterKinds[] = {
    {"Tensor", PrimParameterKind::kTensor},
    {"Tensor?", PrimParameterKind::kOptionalTensor},
    {"Tensor[]", PrimParameterKind::kTensorList},
    {"Tensor...", PrimParameterKind::kTensors},
    {"int", PrimParameterKind::kInt},
    {"int?", PrimParameterKind::kOptionalInt},
    {"int[]", PrimParameterKind::kIntList},
    {"SymInt", PrimParameterKind::kSymInt},
    {"SymInt[]", PrimParameterKind::kSymIntList},
    {"float", PrimParameterKind::kFloat},
    {"bool", PrimParameterKind::kBool},
    {"str", PrimParameterKind::kString},
};

// The parser runs while compiling only: a signature that it throws on does not compile.

// Returns the position of the first `c`, or the size.
constexpr size_t Find(absl::string_view text, char c) {
  size_t i = 0;
  while (i < text.size() && text[i] != c) ++i;
  return i;
}

// Removes the first item of a comma-separated list and returns it.
constexpr absl::string_view TakeItem(absl::string_view& list) {
  const size_t end = Find(list, ',');
  const absl::string_view item = list.substr(0, end);
  list = end == list.size() ? absl::string_view() : list.substr(end + 2);
  return item;
}

// Returns the type of "int dim" or "Tensor".
constexpr PrimParameterKind ParseKind(absl::string_view item) {
  const absl::string_view type = item.substr(0, Find(item, ' '));
  for (const auto& [name, kind] : kParameterKinds) {
    if (name == type) return kind;
  }
  throw "unknown type in a signature";
}

// Adds "Tensor x, int dim".
constexpr void ParseParameters(absl::string_view list, PrimOpInfo& info) {
  while (!list.empty()) {
    const absl::string_view item = TakeItem(list);
    info.parameters[info.num_parameters++] = {item.substr(Find(item, ' ') + 1), ParseKind(item)};
  }
}

// Counts "Tensor", or "(Tensor values, Tensor? indices)".
constexpr void ParseResults(absl::string_view list, PrimOpInfo& info) {
  if (list[0] == '(') list = list.substr(1, list.size() - 2);
  while (!list.empty()) {
    const PrimParameterKind kind = ParseKind(TakeItem(list));
    if (kind != PrimParameterKind::kOptionalTensor) ++info.min_results;
    ++info.max_results;
    if (kind == PrimParameterKind::kTensors) info.max_results = PrimOpInfo::kUnlimited;
  }
}

consteval PrimOpInfo MakeInfo(PrimOp op, absl::string_view name, PrimKind kind, PrimCost cost, PrimResult result,
                              absl::string_view signature) {
  PrimOpInfo info;
  info.op = op;
  info.name = name;
  info.signature = signature;
  info.kind = kind;
  info.cost = cost;
  info.result = result;
  const size_t close = Find(signature, ')');  // of "(Tensor x) -> Tensor"
  ParseParameters(signature.substr(1, close - 1), info);
  ParseResults(signature.substr(close + 5), info);
  return info;
}

#define COTAN_PRIM_INFO(op, name, kind, cost, result, signature) \
  MakeInfo(PrimOp::op, name, PrimKind::kind, PrimCost::cost, PrimResult::result, signature),
constexpr PrimOpInfo kPrimOps[] = {COTAN_PRIM_OPS(COTAN_PRIM_INFO)};
#undef COTAN_PRIM_INFO

}  // namespace

absl::Span<const PrimOpInfo> AllPrimOps() { return kPrimOps; }

const PrimOpInfo& PrimInfo(PrimOp op) { return kPrimOps[static_cast<size_t>(op)]; }

std::optional<PrimOp> FindPrimOp(absl::string_view name) {
  static const auto* const kByName = [] {
    auto* by_name = new absl::flat_hash_map<absl::string_view, PrimOp>();
    for (const PrimOpInfo& info : kPrimOps) by_name->emplace(info.name, info.op);
    return by_name;
  }();
  const auto it = kByName->find(name);
  if (it == kByName->end()) return std::nullopt;
  return it->second;
}

}  // namespace cotan::aot
