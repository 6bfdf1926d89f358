// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/reorder_gathers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/size_estimate.h"
#include "aot/transforms/conversion.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Columns of a product's left matrix from which a pass over the result is faster than the product.
constexpr int64_t kMinColumns = 32;

// Returns the sizes without the last one.
SymIntVector LeadingSizes(const TensorType& type) { return {type.sizes.begin(), type.sizes.end() - 1}; }

// Returns the permutation that undoes `dims`.
std::vector<int64_t> Inverse(const std::vector<int64_t>& dims) {
  std::vector<int64_t> inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) inverse[static_cast<size_t>(dims[i])] = static_cast<int64_t>(i);
  return inverse;
}

class Reorderer {
 public:
  explicit Reorderer(Graph& graph) : graph_(graph), b_(&graph) {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : TensorOperands(node)) ++uses_[id];
      for (const ValueId id : node.outputs) producers_[id] = &node;
    }
    for (const GraphOutput& output : graph_.outputs()) ++uses_[output.value];
  }

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (auto node = graph_.nodes().begin(); node != graph_.nodes().end(); ++node) {
      if (node->outputs.size() != 1) continue;
      const auto last = std::prev(graph_.nodes().end());
      b_.set_source(node->source);
      const Tensor better = Better(*node);
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
  // A matrix whose rows are those of a table: gather(table, index), with an index of one dimension.
  struct GatheredRows {
    ValueId table = kNoValue;  // kNoValue: only its number of rows is known
    SymInt num_rows;           // of the table
    Tensor index;
  };

  // The sums of the rows of a matrix by their index, which have at least the precision of f32.
  struct RowSums {
    ValueId rows = kNoValue;
    ValueId index = kNoValue;
    Tensor sums;
  };

  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  const Node* Producer(ValueId id) const {
    const auto it = producers_.find(id);
    return it == producers_.end() ? nullptr : it->second;
  }

  // Returns the replacement of a node; undefined if it is kept.
  Tensor Better(const Node& node) {
    if (IsPrim(node, PrimOp::kMatmul)) {
      if (TypeOf(node.outputs[0]).sizes.size() != 2) return Tensor();
      const Tensor product = ProductOfRows(node);
      return product.defined() ? product : WeightGradient(node);
    }
    if (IsPrim(node, PrimOp::kScatterAdd)) return TableGradient(node);
    return node.op == kExprOp ? BiasGradient(node) : Tensor();
  }

  // gather(T, i) W + b
  Tensor ProductOfRows(const Node& product) {
    const std::optional<GatheredRows> x = RowsOf(OperandOf(product, "a"));
    if (!x.has_value()) return Tensor();
    const Tensor bias = IsNone(product, "bias") ? Tensor() : b_.Value(OperandOf(product, "bias"));
    return b_.Gather(b_.Matmul(TableOf(*x, product), b_.Value(OperandOf(product, "b")), bias), x->index, 0);
  }

  // gather(T, i)^T Y or Y^T gather(T, i)
  Tensor WeightGradient(const Node& product) {
    if (!IsNone(product, "bias")) return Tensor();
    const std::optional<ValueId> left = TransposedMatrix(OperandOf(product, "a"));
    if (!left.has_value()) return Tensor();
    const ValueId right = OperandOf(product, "b");
    std::optional<GatheredRows> x = RowsOf(right);
    const bool is_right = x.has_value();
    if (!is_right) x = RowsOf(*left);
    if (!x.has_value()) return Tensor();
    const Tensor factor = FactorOf(is_right ? *left : right, *x);
    const Tensor table = TableOf(*x, product);
    return is_right ? b_.Matmul(b_.Transpose(factor, 0, 1), table) : b_.Matmul(b_.Transpose(table, 0, 1), factor);
  }

  // Returns the table in the dtype of a product, to which the rows were converted.
  Tensor TableOf(const GatheredRows& gathered, const Node& product) {
    return b_.Cast(b_.Value(gathered.table), TypeOf(product.outputs[0]).dtype);
  }

  // Returns the sums of the rows of a matrix in the dtype of the matrix.
  Tensor FactorOf(ValueId rows, const GatheredRows& gathered) {
    return b_.Cast(SumsOf(rows, gathered), TypeOf(rows).dtype);
  }

  // scatter_add(Y W, i), where Y W may be a sum of products
  Tensor TableGradient(const Node& scatter) {
    const ValueId rows = OperandOf(scatter, "rows");
    const ValueId index = OperandOf(scatter, "index");
    const TensorType& table = TypeOf(scatter.outputs[0]);
    if (!IsNone(scatter, "base") || IntAttribute(scatter, "dim") != 0) return Tensor();
    if (table.sizes.size() != 2 || !HasWideRange(table)) return Tensor();
    if (!IsSmaller(table.sizes[0], index) || EstimatedSize(table.sizes[1]) < kMinColumns) return Tensor();
    std::vector<const Node*> products;
    if (!CollectProducts(rows, products)) return Tensor();
    const Tensor flat = View(b_.Value(FirstEqual(index)), {NumElementsOf(TypeOf(index).sizes)});
    const GatheredRows gathered = {.num_rows = table.sizes[0], .index = flat};
    Tensor sum;
    for (const Node* product : products) {
      const Tensor factor = FactorOf(OperandOf(*product, "a"), gathered);
      const Tensor term = b_.Cast(b_.Matmul(factor, b_.Value(OperandOf(*product, "b"))), table.dtype);
      sum = sum.defined() ? sum + term : term;
    }
    const int64_t padding = IntAttribute(scatter, "padding_index");
    if (padding < 0) return sum;
    const Tensor row = b_.Iota(0, DType::kInt64, {table.sizes[0], SymInt(1)});
    return b_.Select(b_.Eq(row, b_.Literal(SymInt(padding))), b_.Literal(0.0), sum);
  }

  // The sum over the rows of a matrix whose sums by index exist.
  Tensor BiasGradient(const Node& node) {
    const serialization::Expr& expr = *node.expr;
    const bool sums_rows = node.arguments.size() == 1 && expr.instructions_size() == 2 &&
                           expr.instructions(1).fn() == serialization::FN_REDUCE_SUM && expr.reduce_dims_size() == 1 &&
                           expr.reduce_dims(0) == 0;
    if (!sums_rows) return Tensor();
    const ValueId rows = TensorOperands(node)[0];
    if (TypeOf(rows).sizes.size() != 2) return Tensor();
    const auto known = std::find_if(sums_.begin(), sums_.end(), [&](const RowSums& sums) { return sums.rows == rows; });
    const SymIntVector expected = {SymInt(1), TypeOf(rows).sizes.back()};
    if (known == sums_.end() || TypeOf(node.outputs[0]).sizes != expected) return Tensor();  // it may broadcast, too
    return b_.Cast(b_.ReduceSum(known->sums, {0}), TypeOf(rows).dtype);
  }

  // Returns true for floats whose sums of many rows do not overflow sooner than the rows: not f16.
  static bool HasWideRange(const TensorType& type) {
    return type.dtype == DType::kFloat32 || type.dtype == DType::kFloat64 || type.dtype == DType::kBFloat16;
  }

  // Returns whether a table of `rows` rows has at most half as many as the index has elements.
  bool IsSmaller(const SymInt& rows, ValueId index) const {
    return 2 * EstimatedSize(rows) <= EstimatedCount(TypeOf(index).sizes);
  }

  // Returns the matrix whose transpose `value` is.
  std::optional<ValueId> TransposedMatrix(ValueId value) const {
    const Node* node = Producer(value);
    if (node == nullptr || !IsPrim(*node, PrimOp::kPermute)) return std::nullopt;
    if (IntListAttribute(*node, "dims") != std::vector<int64_t>{1, 0}) return std::nullopt;
    return OperandOf(*node, "x");
  }

  // Returns true for a view that changes neither the content of rows, the last dimension, nor their order.
  bool KeepsRows(const Node& node) const {
    if (!IsPrim(node, PrimOp::kView)) return false;
    const SymIntVector& from = TypeOf(OperandOf(node, "x")).sizes;
    const SymIntVector& to = TypeOf(node.outputs[0]).sizes;
    return !from.empty() && !to.empty() && from.back() == to.back();
  }

  // Returns true for a conversion between dtypes of a wide range.
  bool ConvertsFloats(const Node& node) const {
    return IsConversion(graph_, node) && HasWideRange(TypeOf(TensorOperands(node)[0])) &&
           HasWideRange(TypeOf(node.outputs[0]));
  }

  // Returns true for a permutation of rows.
  static bool PermutesRows(const Node& node) {
    if (!IsPrim(node, PrimOp::kPermute)) return false;
    const std::vector<int64_t> dims = IntListAttribute(node, "dims");
    return !dims.empty() && dims.back() + 1 == static_cast<int64_t>(dims.size());
  }

  // Returns the table and index of a matrix of gathered rows, which may have been viewed, permuted and converted, if it
  // pays to compute with the table.
  std::optional<GatheredRows> RowsOf(ValueId matrix) {
    const TensorType& type = TypeOf(matrix);
    if (type.sizes.size() != 2 || !HasWideRange(type) || EstimatedSize(type.sizes[1]) < kMinColumns)
      return std::nullopt;
    std::vector<const Node*> moves;
    bool is_converted = false;
    const Node* node = Producer(matrix);
    for (; node != nullptr; node = Producer(TensorOperands(*node)[0])) {
      if (IsConversion(graph_, *node) && !is_converted) {
        is_converted = true;
      } else if (KeepsRows(*node) || PermutesRows(*node)) {
        moves.push_back(node);
      } else {
        break;
      }
    }
    if (node == nullptr || !IsPrim(*node, PrimOp::kGather) || IntAttribute(*node, "dim") != 0) return std::nullopt;
    const ValueId table = OperandOf(*node, "x");
    const ValueId index = OperandOf(*node, "index");
    if (TypeOf(table).sizes.size() != 2 || !HasWideRange(TypeOf(table))) return std::nullopt;
    if (!IsSmaller(TypeOf(table).sizes[0], index)) return std::nullopt;
    Tensor moved = b_.Value(FirstEqual(index));
    std::for_each(moves.rbegin(), moves.rend(), [&](const Node* move) {
      if (IsPrim(*move, PrimOp::kView)) {
        moved = View(moved, LeadingSizes(TypeOf(move->outputs[0])));
      } else {
        std::vector<int64_t> dims = IntListAttribute(*move, "dims");
        dims.pop_back();
        moved = Permute(moved, std::move(dims));
      }
    });
    return GatheredRows{table, TypeOf(table).sizes[0], moved};
  }

  // Returns the sums of the rows of a matrix for each row of the table.
  Tensor SumsOf(ValueId rows, const GatheredRows& gathered) {
    for (const RowSums& known : sums_) {
      const bool is_same = known.rows == rows && known.index == gathered.index.id();
      if (is_same && known.sums.sizes()[0] == gathered.num_rows) return known.sums;
    }
    Tensor index = gathered.index;
    Tensor stored = b_.Value(BeforeMoves(rows, index));
    if (stored.dtype() == DType::kBFloat16) stored = b_.Cast(stored, DType::kFloat32);
    const SymIntVector sizes = {gathered.num_rows, TypeOf(rows).sizes.back()};
    const Tensor sums = b_.ScatterAdd(stored, index, Tensor(), 0, /*padding_index=*/-1, sizes);
    sums_.push_back({rows, gathered.index.id(), sums});
    return sums;
  }

  // Returns the tensor of which a matrix is a permutation of rows or a conversion, and moves the index, so that neither
  // has to be computed; the matrix itself if it is none.
  ValueId BeforeMoves(ValueId matrix, Tensor& index) {
    ValueId stored = matrix;
    ValueId value = matrix;
    Tensor moved = index;
    for (const Node* node = Producer(value); node != nullptr; node = Producer(value)) {
      if (KeepsRows(*node)) {
        value = OperandOf(*node, "x");
        moved = View(moved, LeadingSizes(TypeOf(value)));
        continue;
      }
      if (PermutesRows(*node)) {
        std::vector<int64_t> dims = Inverse(IntListAttribute(*node, "dims"));
        dims.pop_back();
        moved = Permute(moved, std::move(dims));
      } else if (!ConvertsFloats(*node)) {
        break;
      }
      value = stored = TensorOperands(*node)[0];
      index = moved;
    }
    return stored;
  }

  // Adds the products whose sum `rows` is; returns false if it is another value, or has another use.
  bool CollectProducts(ValueId rows, std::vector<const Node*>& products) const {
    const Node* node = Producer(rows);
    if (node == nullptr || uses_.at(rows) != 1) return false;
    if (KeepsRows(*node) || ConvertsFloats(*node)) return CollectProducts(TensorOperands(*node)[0], products);
    if (IsPrim(*node, PrimOp::kMatmul)) {
      products.push_back(node);
      return IsNone(*node, "bias") && TypeOf(rows).sizes.size() == 2 && HasWideRange(TypeOf(rows));
    }
    return IsSum(*node) && CollectProducts(TensorOperands(*node)[0], products) &&
           CollectProducts(TensorOperands(*node)[1], products);
  }

  // Returns true for the sum of two values of the result's type.
  bool IsSum(const Node& node) const {
    if (node.op != kExprOp || node.arguments.size() != 2 || node.expr->instructions_size() != 3) return false;
    const std::vector<ValueId> operands = TensorOperands(node);
    const auto has_type = [&](ValueId id) { return TypeOf(id) == TypeOf(node.outputs[0]); };
    return node.expr->instructions(2).fn() == serialization::FN_ADD && operands[0] != operands[1] &&
           std::all_of(operands.begin(), operands.end(), has_type);
  }

  // Returns the first check of the same index, or the index itself: forward and backward each have a check.
  ValueId FirstEqual(ValueId index) {
    const Node* const node = Producer(index);
    return node == nullptr || !IsPrim(*node, PrimOp::kCheckedIndex) ? index : FirstEqual(*node, checks_);
  }

  // Returns the result of the first node of a list that computes the same; adds the node to the list if there is none.
  static ValueId FirstEqual(const Node& node, std::vector<const Node*>& nodes) {
    const auto equals = [&](const Node* other) { return other->op == node.op && other->arguments == node.arguments; };
    const auto first = std::find_if(nodes.begin(), nodes.end(), equals);
    if (first != nodes.end()) return (*first)->outputs[0];
    nodes.push_back(&node);
    return node.outputs[0];
  }

  // Return a view of an index; equal views are one value.
  Tensor View(const Tensor& index, SymIntVector sizes) { return Shared(b_.View(index, std::move(sizes))); }
  Tensor Permute(const Tensor& index, std::vector<int64_t> dims) { return Shared(b_.Permute(index, std::move(dims))); }
  Tensor Shared(const Tensor& view) {
    const Node* const node = b_.Producer(view.id());
    return node == nullptr || !IsView(*node) ? view : b_.Value(FirstEqual(*node, views_));
  }

  Graph& graph_;
  Builder b_;
  absl::flat_hash_map<ValueId, int> uses_;
  absl::flat_hash_map<ValueId, const Node*> producers_;
  std::vector<const Node*> checks_;  // of indices, with different results
  std::vector<const Node*> views_;   // of indices, with different results
  std::vector<RowSums> sums_;
};

}  // namespace

absl::StatusOr<bool> ReorderGathers(Graph& graph) { return Reorderer(graph).Run(); }

}  // namespace cotan::aot
