// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/simplify_cross_entropy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::ScalarFn;

bool HasSavedValues(const Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [](const GraphInput& input) { return input.kind == InputKind::kSaved; }) ||
         std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [](const GraphOutput& output) { return output.kind == OutputKind::kSaved; });
}

bool IsInput(const ExprInstruction& instruction, uint32_t index) {
  return instruction.fn() == serialization::FN_INPUT && instruction.index() == index;
}

// Returns true if the node applies `fn` to its operands, in order, and does nothing else.
bool Applies(const Node& node, ScalarFn fn) {
  if (node.expr == nullptr || node.outputs.size() != 1) return false;
  const Expr& expr = *node.expr;
  const auto arity = static_cast<int>(node.arguments.size());
  if (expr.instructions_size() != arity + 1 || expr.instructions(arity).fn() != fn) return false;
  for (int i = 0; i < arity; ++i) {
    if (!IsInput(expr.instructions(i), static_cast<uint32_t>(i))) return false;
    if (expr.instructions(arity).operands(i) != static_cast<uint32_t>(i)) return false;
  }
  return true;
}

// Returns true if the node is select(input 0, input 1, 0).
bool SelectsOrZero(const Node& node) {
  if (node.expr == nullptr || node.outputs.size() != 1 || node.arguments.size() != 2) return false;
  const auto& instructions = node.expr->instructions();
  if (instructions.size() != 4) return false;
  const ExprInstruction& select = instructions[3];
  if (select.fn() != serialization::FN_SELECT) return false;
  const auto operand = [&](int i) -> const ExprInstruction& {
    return instructions[static_cast<int>(select.operands(i))];
  };
  return IsInput(operand(0), 0) && IsInput(operand(1), 1) && operand(2).fn() == serialization::FN_CONSTANT &&
         operand(2).float_value() == 0;
}

class Simplifier {
 public:
  explicit Simplifier(Graph& graph) : graph_(graph), b_(&graph) {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : node.outputs) producers_[id] = &node;
    }
  }

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (auto node = graph_.nodes().begin(); node != graph_.nodes().end(); ++node) {
      if (node->expr == nullptr || node->outputs.size() != 1 || !HasFullPrecision(node->outputs[0])) continue;
      const auto last = std::prev(graph_.nodes().end());
      b_.set_source(node->source);
      Tensor better = Softmax(*node);
      if (!better.defined()) better = SumOfOneHot(*node);
      COTAN_RETURN_IF_ERROR(b_.status());
      if (!better.defined()) continue;
      changed = true;
      graph_.nodes().splice(node, graph_.nodes(), std::next(last), graph_.nodes().end());
      graph_.ReplaceAllUses(node->outputs[0], better.id());
    }
    if (changed) COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    return changed;
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  bool HasFullPrecision(ValueId id) const {
    return TypeOf(id).dtype == DType::kFloat32 || TypeOf(id).dtype == DType::kFloat64;
  }

  // Returns the producer of a value if it applies `fn`; null if not.
  const Node* Applied(ValueId id, ScalarFn fn) const {
    const auto it = producers_.find(id);
    return it != producers_.end() && Applies(*it->second, fn) ? it->second : nullptr;
  }

  static ValueId OperandOf(const Node& node, size_t i) { return TensorOperands(node)[i]; }

  // Returns exp(y) * (1 / sum(exp(y))) for exp(y - log(sum(exp(y)))).
  Tensor Softmax(const Node& node) {
    if (!Applies(node, serialization::FN_EXP)) return Tensor();
    const Node* const log_softmax = Applied(OperandOf(node, 0), serialization::FN_SUB);
    if (log_softmax == nullptr) return Tensor();
    const ValueId y = OperandOf(*log_softmax, 0);
    const Node* const log = Applied(OperandOf(*log_softmax, 1), serialization::FN_LOG);
    const Node* const sum = log == nullptr ? nullptr : Applied(OperandOf(*log, 0), serialization::FN_REDUCE_SUM);
    const Node* const exp = sum == nullptr ? nullptr : Applied(OperandOf(*sum, 0), serialization::FN_EXP);
    if (exp == nullptr || OperandOf(*exp, 0) != y) return Tensor();
    // Functions may broadcast, too.
    const SymIntVector& sizes = TypeOf(y).sizes;
    const ValueId same[] = {node.outputs[0], log_softmax->outputs[0], exp->outputs[0]};
    for (const ValueId value : same) {
      if (TypeOf(value).sizes != sizes) return Tensor();
    }
    return b_.Value(exp->outputs[0]) * (b_.Literal(1.0) / b_.Value(sum->outputs[0]));
  }

  // Returns v, or 0, for the sum of select(iota == index, v, 0) along the dimension of the iota.
  Tensor SumOfOneHot(const Node& node) {
    if (!Applies(node, serialization::FN_REDUCE_SUM) || node.expr->reduce_dims_size() != 1) return Tensor();
    const auto dim = static_cast<size_t>(node.expr->reduce_dims(0));
    const auto row = producers_.find(OperandOf(node, 0));
    if (row == producers_.end() || !SelectsOrZero(*row->second)) return Tensor();
    const Node* const is_class = Applied(OperandOf(*row->second, 0), serialization::FN_EQ);
    if (is_class == nullptr) return Tensor();
    const size_t iota = IsIota(OperandOf(*is_class, 0), dim) ? 0 : 1;
    const ValueId index = OperandOf(*is_class, 1 - iota), value = OperandOf(*row->second, 1);
    const TensorType& type = TypeOf(OperandOf(node, 0));
    if (!IsIota(OperandOf(*is_class, iota), dim) || TypeOf(OperandOf(*is_class, iota)).sizes != type.sizes) {
      return Tensor();
    }
    const SymIntVector& sizes = TypeOf(node.outputs[0]).sizes;
    if (sizes.size() != type.sizes.size() || sizes[dim] != SymInt(1)) return Tensor();
    if (TypeOf(index).sizes != sizes || TypeOf(value).sizes != sizes) return Tensor();
    const Tensor i = b_.Value(index);
    const Tensor is_from_first = b_.Ge(i, b_.Literal(SymInt(0)));
    const Tensor is_to_last = b_.Lt(i, b_.Literal(type.sizes[dim]));
    return b_.Select(b_.And(is_from_first, is_to_last), b_.Value(value), b_.Literal(0.0));
  }

  // Returns true if the value has the positions along dimension `dim`.
  bool IsIota(ValueId id, size_t dim) const {
    const Node* const node = Applied(id, serialization::FN_IOTA);
    return node != nullptr && node->expr->instructions(0).index() == dim;
  }

  Graph& graph_;
  Builder b_;
  absl::flat_hash_map<ValueId, const Node*> producers_;
};

}  // namespace

absl::StatusOr<bool> SimplifyCrossEntropy(Graph& graph) {
  if (HasSavedValues(graph)) return false;
  return Simplifier(graph).Run();
}

}  // namespace cotan::aot
