// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/algebraic.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns true for ops whose result has the elements of argument 0 in row-major order.
bool KeepsElements(absl::string_view op) {
  static const auto* const kOps = new absl::flat_hash_set<absl::string_view>({
      "aten._reshape_alias.default",
      "aten._to_copy.default",
      "aten._unsafe_view.default",
      "aten.alias.default",
      "aten.clone.default",
      "aten.contiguous.default",
      "aten.detach.default",
      "aten.expand.default",
      "aten.lift.default",
      "aten.lift_fresh.default",
      "aten.lift_fresh_copy.default",
      "aten.reshape.default",
      "aten.squeeze.default",
      "aten.squeeze.dim",
      "aten.squeeze.dims",
      "aten.unsqueeze.default",
      "aten.view.default",
  });
  return kOps->contains(op);
}

bool IsNumber(const Argument& argument, int64_t expected) {
  if (const SymInt* integer = std::get_if<SymInt>(&argument)) return *integer == SymInt(expected);
  if (const double* number = std::get_if<double>(&argument)) return *number == static_cast<double>(expected);
  return false;
}

// Returns true if argument 1 makes the op return argument 0.
bool HasNeutralOperand(const Node& node) {
  if (node.arguments.size() < 2) return false;
  const Argument& second = node.arguments[1];
  if (node.op == "aten.mul.Tensor" || node.op == "aten.mul.Scalar") return IsNumber(second, 1);
  if (node.op == "aten.div.Tensor" || node.op == "aten.div.Scalar") return IsNumber(second, 1);
  if (node.op == "aten.pow.Tensor_Scalar") return IsNumber(second, 1);
  if (node.op == "aten.sub.Tensor" || node.op == "aten.sub.Scalar") return IsNumber(second, 0);
  return false;
}

bool IsTranspose(const Node& node) { return node.op == "aten.t.default" || node.op == "aten.transpose.int"; }

class Simplifier {
 public:
  explicit Simplifier(Graph& graph) : graph_(graph) {}

  absl::StatusOr<bool> Run() {
    for (Node& node : graph_.nodes()) {
      for (Argument& argument : node.arguments) Rename(argument);
      if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) continue;
      const ValueId same = SameAs(node);
      if (same != kNoValue) {
        names_[node.outputs[0]] = same;
      } else {
        producers_[node.outputs[0]] = &node;
      }
    }
    for (GraphOutput& output : graph_.outputs()) {
      if (const auto it = names_.find(output.value); it != names_.end()) output.value = it->second;
    }
    if (names_.empty()) return false;
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    return true;
  }

 private:
  void Rename(Argument& argument) const {
    const auto rename = [&](Use& use) {
      if (const auto it = names_.find(use.value); it != names_.end()) use.value = it->second;
    };
    if (Use* use = std::get_if<Use>(&argument)) rename(*use);
    if (auto* list = std::get_if<std::vector<Use>>(&argument)) {
      for (Use& use : *list) rename(use);
    }
  }

  // Returns an earlier value that equals the node's result; kNoValue if there is none.
  ValueId SameAs(const Node& node) const {
    const Use* source = node.arguments.empty() ? nullptr : std::get_if<Use>(&node.arguments[0]);
    if (source == nullptr || source->value == kNoValue) return kNoValue;
    const TensorType& type = graph_.value(node.outputs[0]).type;
    const bool same_type = graph_.value(source->value).type == type;
    if (same_type && (KeepsElements(node.op) || HasNeutralOperand(node))) return source->value;
    if (!IsTranspose(node)) return kNoValue;
    const auto it = producers_.find(source->value);
    if (it == producers_.end() || it->second->op != node.op) return kNoValue;
    // The operand swaps the same dimensions.
    const std::vector<Argument> own(node.arguments.begin() + 1, node.arguments.end());
    const std::vector<Argument> other(it->second->arguments.begin() + 1, it->second->arguments.end());
    return own == other ? std::get<Use>(it->second->arguments[0]).value : kNoValue;
  }

  Graph& graph_;
  absl::flat_hash_map<ValueId, ValueId> names_;
  absl::flat_hash_map<ValueId, const Node*> producers_;
};

}  // namespace

absl::StatusOr<bool> SimplifyAlgebra(Graph& graph) { return Simplifier(graph).Run(); }

}  // namespace cotan::aot
