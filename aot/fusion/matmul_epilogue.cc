// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/matmul_epilogue.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "aot/fusion/expr_merge.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/size_estimate.h"

namespace cotan::aot {
namespace {

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Graph& graph) : graph_(graph) {}

  bool Run() {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : TensorOperands(node)) ++uses_[id];
    }
    for (const GraphOutput& output : graph_.outputs()) {
      ++uses_[output.value];
      if (output.kind == OutputKind::kStateUpdate) new_states_.insert(output.value);
    }
    bool changed = false;
    for (auto it = graph_.nodes().begin(); it != graph_.nodes().end(); ++it) {
      if (IsPrim(*it, PrimOp::kMatmul)) products_[it->outputs[0]] = it;
      if (it->op != kExprOp || !IsUpdate(*it)) continue;
      for (const ValueId id : TensorOperands(*it)) {
        const auto product = products_.find(id);
        if (product == products_.end() || !Pays(*product->second, *it)) continue;
        Fuse(*product->second, *it);
        graph_.nodes().erase(product->second);
        products_.erase(product);
        changed = true;
        break;
      }
    }
    return changed;
  }

 private:
  // Returns true if the node computes new contents of states by sums and products only.
  bool IsUpdate(const Node& node) const {
    const auto is_state = [&](ValueId id) { return new_states_.contains(id); };
    if (!std::all_of(node.outputs.begin(), node.outputs.end(), is_state)) return false;
    if (!node.expr->reduce_dims().empty()) return false;
    return std::all_of(node.expr->instructions().begin(), node.expr->instructions().end(),
                       [](const serialization::ExprInstruction& instruction) {
                         const serialization::ScalarFn fn = instruction.fn();
                         return instruction.dtype() == serialization::DTYPE_F32 &&
                                (fn == serialization::FN_INPUT || fn == serialization::FN_CONSTANT ||
                                 fn == serialization::FN_ADD || fn == serialization::FN_SUB ||
                                 fn == serialization::FN_MUL);
                       });
  }

  bool Pays(const Node& product, const Node& update) {
    const ValueId id = product.outputs[0];
    const SymIntVector& sizes = graph_.value(id).type.sizes;
    if (uses_[id] != 1 || !IsNone(product, "bias")) return false;
    const SymIntVector& a = graph_.value(OperandOf(product, "a")).type.sizes;
    const SymIntVector& b = graph_.value(OperandOf(product, "b")).type.sizes;
    if (sizes.size() != 2 || a.size() != 2 || b.size() != 2 || !(sizes == FusedExpr::FromNode(update).domain))
      return false;
    return EstimatedSize(a[1]) <= kMaxEpilogueDepth && EstimatedCount(sizes) >= kMinEpilogueElements;
  }

  void Fuse(const Node& product, Node& update) const {
    std::vector<Argument> arguments = {Use{OperandOf(product, "a")}, Use{OperandOf(product, "b")}};
    std::vector<uint32_t> index;  // of each input of the update: its index in the epilogue
    const std::vector<ValueId> inputs = TensorOperands(update);
    for (const ValueId id : inputs) {
      const bool is_product = id == product.outputs[0];
      index.push_back(is_product ? 0 : static_cast<uint32_t>(arguments.size()) - 1);
      if (!is_product) arguments.push_back(Use{id});
    }
    auto expr = std::make_shared<serialization::Expr>(*update.expr);
    for (serialization::ExprInstruction& instruction : *expr->mutable_instructions()) {
      if (instruction.fn() == serialization::FN_INPUT) instruction.set_index(index[instruction.index()]);
    }
    update.op = std::string(PrimName(PrimOp::kMatmulEpilogue));
    update.arguments = std::move(arguments);
    update.expr = std::move(expr);
    update.source = product.source;
  }

  Graph& graph_;
  absl::flat_hash_map<ValueId, int> uses_;
  absl::flat_hash_set<ValueId> new_states_;
  absl::flat_hash_map<ValueId, Graph::NodeList::iterator> products_;
};

}  // namespace

absl::StatusOr<bool> FuseMatmulEpilogues(Graph& graph) { return EpilogueFuser(graph).Run(); }

}  // namespace cotan::aot
