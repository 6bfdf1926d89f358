// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/canonicalize.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/ir/builder.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns true if the permutation swaps the last two dimensions and no others.
bool SwapsLastTwo(const std::vector<SymInt>& dims) {
  const size_t rank = dims.size();
  for (size_t i = 0; i < rank; ++i) {
    const size_t expected = i + 2 < rank ? i : 2 * rank - 3 - i;
    if (rank < 2 || !(dims[i] == SymInt(static_cast<int64_t>(expected)))) return false;
  }
  return true;
}

// Returns the operands of an expression that is the sum of two values; none for other nodes.
std::optional<std::pair<ValueId, ValueId>> SummandsOf(const Node& node) {
  if (node.expr == nullptr || node.arguments.size() != 2 || node.expr->instructions_size() != 3) return std::nullopt;
  const auto& add = node.expr->instructions(2);
  if (add.fn() != serialization::FN_ADD || add.operands(0) == add.operands(1)) return std::nullopt;
  return std::make_pair(std::get<Use>(node.arguments[0]).value, std::get<Use>(node.arguments[1]).value);
}

class Canonicalizer {
 public:
  explicit Canonicalizer(Graph& graph) : graph_(graph), b_(&rewritten_) {}

  absl::StatusOr<bool> Run() {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : TensorOperands(node)) ++uses_[id];
      for (const ValueId id : node.outputs) producers_[id] = &node;
    }
    for (const GraphOutput& output : graph_.outputs()) ++uses_[output.value];
    rewritten_.name = graph_.name;
    for (const GraphInput& input : graph_.inputs()) {
      names_[input.value] = rewritten_.AddInput(graph_.value(input.value).type, input.kind, input.index, input.name);
    }
    for (const Node& node : graph_.nodes()) {
      b_.set_source(node.source);
      const Tensor better = Better(node);
      if (better.defined()) {
        names_[node.outputs[0]] = better.id();
      } else {
        Copy(node);
      }
    }
    COTAN_RETURN_IF_ERROR(b_.status());
    if (!changed_) return false;
    for (const GraphOutput& output : graph_.outputs()) {
      const ValueId value = output.value == kNoValue ? kNoValue : names_.at(output.value);
      rewritten_.AddOutput(value, output.kind, output.index, output.name);
    }
    graph_ = std::move(rewritten_);
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    return true;
  }

 private:
  // Returns the replacement of a node; undefined if it is kept.
  Tensor Better(const Node& node) {
    if (node.op == "prim.permute") return Permute(node);
    if (node.op == "prim.view") return b_.View(New(Operand(node, 0)), graph_.value(node.outputs[0]).type.sizes);
    if (node.op == "prim.matmul") return SplitBatch(node);
    return AbsorbBias(node);
  }

  static ValueId Operand(const Node& node, size_t i) { return std::get<Use>(node.arguments[i]).value; }
  Tensor New(ValueId old) { return b_.Value(names_.at(old)); }

  // Returns the product that defines `value`, if it has no bias and the value has one use; else
  // null.
  const Node* SoleProduct(ValueId value) {
    const auto it = producers_.find(value);
    if (it == producers_.end() || it->second->op != "prim.matmul" || uses_[value] != 1) return nullptr;
    return std::holds_alternative<None>(it->second->arguments[2]) ? it->second : nullptr;
  }

  Tensor Permute(const Node& node) {
    const auto& dims = std::get<std::vector<SymInt>>(node.arguments[1]);
    const Node* product = SoleProduct(Operand(node, 0));
    if (product != nullptr && SwapsLastTwo(dims)) {
      changed_ = true;
      return b_.Matmul(b_.Transpose(New(Operand(*product, 1)), -1, -2),
                       b_.Transpose(New(Operand(*product, 0)), -1, -2));
    }
    std::vector<int64_t> order;
    for (const SymInt& dim : dims) order.push_back(dim.constant());
    return b_.Permute(New(Operand(node, 0)), std::move(order));
  }

  // view(a @ b) + vector
  Tensor AbsorbBias(const Node& node) {
    const auto summands = SummandsOf(node);
    if (!summands.has_value()) return Tensor();
    const SymIntVector& sizes = graph_.value(node.outputs[0]).type.sizes;
    for (const auto& [sum, vector] : {*summands, std::make_pair(summands->second, summands->first)}) {
      const SymIntVector& bias_sizes = graph_.value(vector).type.sizes;
      if (bias_sizes.size() != 1 || sizes.size() < 2 || !(bias_sizes[0] == sizes.back()) ||
          !(graph_.value(sum).type.sizes == sizes))
        continue;
      const auto it = producers_.find(sum);
      const bool is_view = it != producers_.end() && it->second->op == "prim.view" && uses_[sum] == 1;
      const ValueId source = is_view ? Operand(*it->second, 0) : sum;
      const Node* product = SoleProduct(source);
      if (product == nullptr || !(graph_.value(source).type.sizes.back() == sizes.back())) continue;
      changed_ = true;
      return b_.View(b_.Matmul(New(Operand(*product, 0)), New(Operand(*product, 1)), New(vector)), sizes);
    }
    return Tensor();
  }

  // Returns the batch dimensions [B, H] that an operand [B * H, M, K] was merged from, if merging
  // them requires a copy; else none.
  std::optional<SymIntVector> MergedBatch(const Tensor& operand) const {
    const Node* node = b_.Producer(operand.id());
    if (node != nullptr && node->op == "prim.permute") node = b_.Producer(Operand(*node, 0));
    if (node == nullptr || node->op != "prim.view") return std::nullopt;
    const ValueId source = Operand(*node, 0);
    const Node* behind = b_.Producer(source);
    const bool strided = behind != nullptr &&
                         (behind->op == "prim.permute" || behind->op == "prim.select" || behind->op == "prim.slice");
    const SymIntVector& from = rewritten_.value(source).type.sizes;
    const SymIntVector& to = rewritten_.value(node->outputs[0]).type.sizes;
    if (!strided || from.size() != 4 || to.size() != 3 || !(from[2] == to[1]) || !(from[3] == to[2]))
      return std::nullopt;
    return SymIntVector{from[0], from[1]};
  }

  // Views [B * H, M, K] as [B, H, M, K].
  Tensor WithBatch(const Tensor& operand, const SymIntVector& batch) {
    const Node* node = b_.Producer(operand.id());
    const bool swapped = node != nullptr && node->op == "prim.permute" &&
                         SwapsLastTwo(std::get<std::vector<SymInt>>(node->arguments[1]));
    if (swapped) return b_.Transpose(WithBatch(b_.Value(Operand(*node, 0)), batch), -1, -2);
    SymIntVector sizes = batch;
    sizes.insert(sizes.end(), operand.sizes().end() - 2, operand.sizes().end());
    return b_.View(operand, std::move(sizes));
  }

  Tensor SplitBatch(const Node& node) {
    if (!std::holds_alternative<None>(node.arguments[2])) return Tensor();
    const Tensor a = New(Operand(node, 0));
    const Tensor b = New(Operand(node, 1));
    if (a.rank() != 3 || !(a.sizes()[0] == b.sizes()[0])) return Tensor();
    std::optional<SymIntVector> batch = MergedBatch(a);
    if (!batch.has_value()) batch = MergedBatch(b);
    if (!batch.has_value()) return Tensor();
    changed_ = true;
    return b_.View(b_.Matmul(WithBatch(a, *batch), WithBatch(b, *batch)), graph_.value(node.outputs[0]).type.sizes);
  }

  void Copy(const Node& node) {
    std::vector<Argument> arguments;
    for (const Argument& argument : node.arguments) arguments.push_back(Renamed(argument));
    std::vector<TensorType> types;
    for (const ValueId id : node.outputs) types.push_back(graph_.value(id).type);
    const std::vector<Tensor> results = b_.EmitNode(node.op, std::move(arguments), types, node.expr);
    for (size_t k = 0; k < results.size(); ++k) names_[node.outputs[k]] = results[k].id();
  }

  Argument Renamed(const Argument& argument) const {
    const auto rename = [&](Use use) { return use.value == kNoValue ? use : Use{names_.at(use.value)}; };
    if (const Use* use = std::get_if<Use>(&argument)) return rename(*use);
    const auto* list = std::get_if<std::vector<Use>>(&argument);
    if (list == nullptr) return argument;
    std::vector<Use> uses;
    for (const Use use : *list) uses.push_back(rename(use));
    return uses;
  }

  Graph& graph_;
  Graph rewritten_;
  Builder b_;
  bool changed_ = false;
  absl::flat_hash_map<ValueId, ValueId> names_;  // from the graph to the rewritten one
  absl::flat_hash_map<ValueId, int> uses_;
  absl::flat_hash_map<ValueId, const Node*> producers_;
};

}  // namespace

absl::StatusOr<bool> CanonicalizeProducts(Graph& graph) { return Canonicalizer(graph).Run(); }

}  // namespace cotan::aot
