// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/constant_folding.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns true for dtypes whose numbers a double represents exactly and whose rounding is a cast.
bool IsFoldable(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

double RoundTo(DType dtype, double value) {
  return dtype == DType::kFloat32 ? static_cast<double>(static_cast<float>(value)) : value;
}

std::optional<double> NumberOf(const Argument& argument) {
  if (const double* number = std::get_if<double>(&argument)) return *number;
  const SymInt* integer = std::get_if<SymInt>(&argument);
  if (integer == nullptr || !integer->is_constant()) return std::nullopt;
  return static_cast<double>(integer->constant());
}

// Returns the index of the argument with the fill value of a creation op; -1 for zeros, -2 for
// ones; none for other ops.
std::optional<int> FillArgument(absl::string_view op) {
  if (op == "aten.full.default" || op == "aten.full_like.default") return 1;
  if (op == "aten.new_full.default") return 2;
  if (op == "aten.scalar_tensor.default") return 0;
  if (op == "aten.zeros.default" || op == "aten.zeros_like.default" || op == "aten.new_zeros.default") return -1;
  if (op == "aten.ones.default" || op == "aten.ones_like.default" || op == "aten.new_ones.default") return -2;
  return std::nullopt;
}

bool IsView(absl::string_view op) {
  static const auto* const kOps = new absl::flat_hash_set<absl::string_view>({
      "aten.alias.default",
      "aten.clone.default",
      "aten.detach.default",
      "aten.expand.default",
      "aten.permute.default",
      "aten.select.int",
      "aten.slice.Tensor",
      "aten.squeeze.dim",
      "aten.t.default",
      "aten.transpose.int",
      "aten.unsqueeze.default",
      "aten.view.default",
  });
  return kOps->contains(op);
}

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (Node& node : graph_.nodes()) {
      if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) continue;
      const ValueId result = node.outputs[0];
      const TensorType& type = graph_.value(result).type;
      if (!IsFoldable(type.dtype)) continue;
      const std::optional<double> value = ValueOf(node);
      if (!value.has_value()) continue;
      fills_[result] = RoundTo(type.dtype, *value);
      if (FillArgument(node.op).has_value()) continue;
      node.op = "aten.full.default";
      node.arguments = {std::vector<SymInt>(type.sizes.begin(), type.sizes.end()), fills_[result]};
      changed = true;
    }
    if (changed) COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    return changed;
  }

 private:
  // Returns the value of argument `i` if it is a number or a tensor filled with one number in the
  // result's dtype; else none.
  std::optional<double> Operand(const Node& node, size_t i) const {
    const Use* use = std::get_if<Use>(&node.arguments[i]);
    if (use == nullptr) return NumberOf(node.arguments[i]);
    const auto it = fills_.find(use->value);
    if (it == fills_.end() || graph_.value(use->value).type.dtype != graph_.value(node.outputs[0]).type.dtype)
      return std::nullopt;
    return it->second;
  }

  std::optional<double> ValueOf(const Node& node) const {
    if (const std::optional<int> argument = FillArgument(node.op)) {
      if (*argument < 0) return *argument == -1 ? 0 : 1;
      return NumberOf(node.arguments[static_cast<size_t>(*argument)]);
    }
    if (IsView(node.op)) return Operand(node, 0);
    if (node.op == "aten.neg.default") {
      const std::optional<double> x = Operand(node, 0);
      return x.has_value() ? std::optional<double>(-*x) : std::nullopt;
    }
    const bool is_binary = absl::EndsWith(node.op, ".Tensor") || absl::EndsWith(node.op, ".Scalar");
    if (!is_binary || node.arguments.size() < 2) return std::nullopt;
    const std::optional<double> x = Operand(node, 0);
    const std::optional<double> y = Operand(node, 1);
    if (!x.has_value() || !y.has_value()) return std::nullopt;
    const DType dtype = graph_.value(node.outputs[0]).type.dtype;
    const bool scaled =
        node.arguments.size() > 2 && (absl::StartsWith(node.op, "aten.add.") || absl::StartsWith(node.op, "aten.sub."));
    const std::optional<double> factor = scaled ? NumberOf(node.arguments[2]) : std::optional<double>(1);
    if (!factor.has_value()) return std::nullopt;
    const double b = RoundTo(dtype, RoundTo(dtype, *y) * RoundTo(dtype, *factor));
    const double a = RoundTo(dtype, *x);
    if (absl::StartsWith(node.op, "aten.add.")) return a + b;
    if (absl::StartsWith(node.op, "aten.sub.")) return a - b;
    if (absl::StartsWith(node.op, "aten.mul.")) return a * b;
    if (absl::StartsWith(node.op, "aten.div.") && !absl::StrContains(node.op, "mode")) return a / b;
    return std::nullopt;
  }

  Graph& graph_;
  absl::flat_hash_map<ValueId, double> fills_;
};

}  // namespace

absl::StatusOr<bool> FoldConstants(Graph& graph) { return Folder(graph).Run(); }

}  // namespace cotan::aot
