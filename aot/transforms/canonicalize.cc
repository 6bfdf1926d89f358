// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/canonicalize.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"
#include "aot/transforms/conversion.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns true if the permutation swaps the last two dimensions and no others.
bool SwapsLastTwo(const std::vector<int64_t>& dims) {
  const size_t rank = dims.size();
  for (size_t i = 0; i < rank; ++i) {
    const size_t expected = i + 2 < rank ? i : 2 * rank - 3 - i;
    if (rank < 2 || dims[i] != static_cast<int64_t>(expected)) return false;
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
      const bool reads_any_order = IsPrim(node, PrimOp::kMatmul) || IsPrim(node, PrimOp::kPermute);
      for (const ValueId id : TensorOperands(node)) {
        ++uses_[id];
        if (!reads_any_order) needs_order_.insert(id);
      }
      for (const ValueId id : node.outputs) producers_[id] = &node;
    }
    for (const GraphOutput& output : graph_.outputs()) {
      ++uses_[output.value];
      needs_order_.insert(output.value);
    }
    rewritten_.name = graph_.name;
    for (const GraphInput& input : graph_.inputs()) {
      names_[input.value] = rewritten_.AddInput(graph_.value(input.value).type, input.kind, input.index, input.name);
      rewritten_.inputs().back().without_version_check = input.without_version_check;
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
      rewritten_.outputs().back().without_version_check = output.without_version_check;
    }
    graph_ = std::move(rewritten_);
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    return true;
  }

 private:
  // Returns the replacement of a node; undefined if it is kept.
  Tensor Better(const Node& node) {
    if (IsPrim(node, PrimOp::kPermute)) return Permute(node);
    if (IsPrim(node, PrimOp::kView)) return b_.View(New(node, "x"), graph_.value(node.outputs[0]).type.sizes);
    if (IsPrim(node, PrimOp::kMatmul)) return SplitBatch(node);
    if (IsConversion(graph_, node)) return Convert(node);
    return AbsorbBias(node);
  }

  Tensor New(ValueId old) { return b_.Value(names_.at(old)); }
  Tensor New(const Node& node, absl::string_view operand) { return New(OperandOf(node, operand)); }

  // Returns the product that defines `value`, if it has no bias and the value has one use; else
  // null.
  const Node* SoleProduct(ValueId value) {
    const auto it = producers_.find(value);
    if (it == producers_.end() || !IsPrim(*it->second, PrimOp::kMatmul) || uses_[value] != 1) return nullptr;
    return IsNone(*it->second, "bias") ? it->second : nullptr;
  }

  // A value and the order of its dimensions in a permutation of it.
  struct Permuted {
    ValueId value;
    std::vector<int64_t> dims;
  };

  // Returns what a permutation reads, behind other permutations and at most one conversion that have no other use.
  Permuted Origin(const Node& node) {
    Permuted result = {OperandOf(node, "x"), IntListAttribute(node, "dims")};
    bool is_converted = false;
    while (uses_[result.value] == 1 && producers_.contains(result.value)) {
      const Node& producer = *producers_.at(result.value);
      if (IsPrim(producer, PrimOp::kPermute)) {
        const std::vector<int64_t> inner = IntListAttribute(producer, "dims");
        for (int64_t& dim : result.dims) dim = inner[static_cast<size_t>(dim)];
      } else if (IsConversion(graph_, producer) && !is_converted) {
        is_converted = true;
      } else {
        break;
      }
      result.value = TensorOperands(producer)[0];
    }
    return result;
  }

  Tensor Permute(const Node& node) {
    const Permuted origin = Origin(node);
    const DType dtype = graph_.value(node.outputs[0]).type.dtype;
    if (std::is_sorted(origin.dims.begin(), origin.dims.end())) {
      changed_ = true;
      return b_.Cast(New(origin.value), dtype);
    }
    const Node* product = SoleProduct(origin.value);
    if (product != nullptr && SwapsLastTwo(origin.dims)) {
      changed_ = true;
      const Tensor right = b_.Transpose(New(*product, "a"), -1, -2);
      const Tensor left = b_.Transpose(New(*product, "b"), -1, -2);
      return b_.Cast(b_.Matmul(left, right), dtype);
    }
    return b_.Permute(New(node, "x"), IntListAttribute(node, "dims"));
  }

  // convert(permute(x)), where the result is only an operand of products or permuted again
  Tensor Convert(const Node& node) {
    if (needs_order_.contains(node.outputs[0])) return Tensor();
    const Node* permute = b_.Producer(New(TensorOperands(node)[0]).id());
    if (permute == nullptr || !IsPrim(*permute, PrimOp::kPermute)) return Tensor();
    changed_ = true;
    std::vector<int64_t> dims = IntListAttribute(*permute, "dims");
    const Tensor source = b_.Value(OperandOf(*permute, "x"));
    return b_.Permute(b_.Cast(source, graph_.value(node.outputs[0]).type.dtype), std::move(dims));
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
      const bool is_view = it != producers_.end() && IsPrim(*it->second, PrimOp::kView) && uses_[sum] == 1;
      const ValueId source = is_view ? OperandOf(*it->second, "x") : sum;
      const Node* product = SoleProduct(source);
      if (product == nullptr || !(graph_.value(source).type.sizes.back() == sizes.back())) continue;
      changed_ = true;
      return b_.View(b_.Matmul(New(*product, "a"), New(*product, "b"), New(vector)), sizes);
    }
    return Tensor();
  }

  // Returns the batch dimensions [B, H] that an operand [B * H, M, K] was merged from, if merging
  // them requires a copy; else none.
  std::optional<SymIntVector> MergedBatch(const Tensor& operand) const {
    const Node* node = b_.Producer(operand.id());
    if (node != nullptr && IsPrim(*node, PrimOp::kPermute)) node = b_.Producer(OperandOf(*node, "x"));
    if (node == nullptr || !IsPrim(*node, PrimOp::kView)) return std::nullopt;
    const ValueId source = OperandOf(*node, "x");
    const Node* behind = b_.Producer(source);
    const bool strided = behind != nullptr && (IsPrim(*behind, PrimOp::kPermute) || IsPrim(*behind, PrimOp::kSelect) ||
                                               IsPrim(*behind, PrimOp::kSlice));
    const SymIntVector& from = rewritten_.value(source).type.sizes;
    const SymIntVector& to = rewritten_.value(node->outputs[0]).type.sizes;
    if (!strided || from.size() != 4 || to.size() != 3 || !(from[2] == to[1]) || !(from[3] == to[2]))
      return std::nullopt;
    return SymIntVector{from[0], from[1]};
  }

  // Views [B * H, M, K] as [B, H, M, K].
  Tensor WithBatch(const Tensor& operand, const SymIntVector& batch) {
    const Node* node = b_.Producer(operand.id());
    const bool swapped =
        node != nullptr && IsPrim(*node, PrimOp::kPermute) && SwapsLastTwo(IntListAttribute(*node, "dims"));
    if (swapped) return b_.Transpose(WithBatch(b_.Value(OperandOf(*node, "x")), batch), -1, -2);
    SymIntVector sizes = batch;
    sizes.insert(sizes.end(), operand.sizes().end() - 2, operand.sizes().end());
    return b_.View(operand, std::move(sizes));
  }

  Tensor SplitBatch(const Node& node) {
    if (!IsNone(node, "bias")) return Tensor();
    const Tensor a = New(node, "a");
    const Tensor b = New(node, "b");
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
  absl::flat_hash_set<ValueId> needs_order_;  // values with other uses than by products and permutations
  absl::flat_hash_map<ValueId, const Node*> producers_;
};

}  // namespace

absl::StatusOr<bool> CanonicalizeProducts(Graph& graph) { return Canonicalizer(graph).Run(); }

}  // namespace cotan::aot
