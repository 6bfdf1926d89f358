// SPDX-License-Identifier: Apache-2.0

// Appends prim.* nodes (prim_ops.h) and one-function cotan.expr nodes to a graph and infers their
// types. The rows of the op table, the optimizers and the partitioner use it:
//
//   Builder b(&graph);
//   Tensor x = b.Value(id);
//   Tensor e = b.Exp(x - b.ReduceMax(x, {-1}));
//   Tensor softmax = e / b.ReduceSum(e, {-1});
//
// Binary functions broadcast as ATen does. Both operands have the same dtype (Cast() first); a
// literal number takes the dtype of the other operand.
#ifndef COTAN_AOT_IR_BUILDER_H_
#define COTAN_AOT_IR_BUILDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "aot/ir/prim_ops.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

class Builder;

// A handle of a value of the graph under construction, or a literal number. Copying is cheap; a
// handle is valid as long as its builder.
class Tensor {
 public:
  Tensor() = default;

  bool defined() const { return builder_ != nullptr; }
  bool is_literal() const { return id_ == kNoValue; }
  ValueId id() const { return id_; }  // if not a literal
  const TensorType& type() const;     // if not a literal
  DType dtype() const { return type().dtype; }
  const SymIntVector& sizes() const { return type().sizes; }
  int rank() const { return static_cast<int>(type().sizes.size()); }

  friend Tensor operator+(const Tensor& a, const Tensor& b);
  friend Tensor operator-(const Tensor& a, const Tensor& b);
  friend Tensor operator*(const Tensor& a, const Tensor& b);
  friend Tensor operator/(const Tensor& a, const Tensor& b);
  friend Tensor operator-(const Tensor& a);

 private:
  friend class Builder;
  Builder* builder_ = nullptr;
  ValueId id_ = kNoValue;
  // Content of a literal: `number_` if `is_float_`, else `integer_`.
  bool is_float_ = false;
  double number_ = 0;
  SymInt integer_;
};

struct ConvolutionConfig {
  std::vector<int64_t> stride, padding, dilation;
  bool transposed = false;
  std::vector<int64_t> output_padding;
  int64_t groups = 1;
};

struct PoolConfig {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil_mode = false;
  bool count_include_pad = true;
  int64_t divisor_override = 0;
};

// Appends nodes to a graph. Errors (operands whose dtypes or sizes do not match) do not interrupt:
// status() holds the first one, and tensors made after it have no meaning. Not thread-safe.
class Builder {
 public:
  // Appends to `graph`, which outlives the builder.
  explicit Builder(Graph* graph);

  Graph& graph() { return *graph_; }
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status);
  // Sets Node::source of the nodes emitted from now on.
  void set_source(std::string source) { source_ = std::move(source); }

  Tensor Value(ValueId id);
  Tensor Literal(double number);
  Tensor Literal(SymInt integer);
  // Returns a tensor of `sizes` filled with a literal, or `value` cast to `dtype` and expanded to
  // `sizes`.
  Tensor Full(const Tensor& value, DType dtype, SymIntVector sizes);

  // Pointwise.
  Tensor Unary(serialization::ScalarFn fn, const Tensor& a);
  Tensor Binary(serialization::ScalarFn fn, Tensor a, Tensor b);
  Tensor Select(const Tensor& condition, Tensor a, Tensor b);
  Tensor Cast(const Tensor& a, DType dtype);
  Tensor Iota(int dim, DType dtype, SymIntVector sizes);
  // Returns uniform draws in [0, 1), f32; `slice` is the first Philox block.
  Tensor Random(const Tensor& rng_state, const SymInt& slice, SymIntVector sizes);
  Tensor Exp(const Tensor& a) { return Unary(serialization::FN_EXP, a); }
  Tensor Log(const Tensor& a) { return Unary(serialization::FN_LOG, a); }
  Tensor Sqrt(const Tensor& a) { return Unary(serialization::FN_SQRT, a); }
  Tensor Rsqrt(const Tensor& a) { return Unary(serialization::FN_RSQRT, a); }
  Tensor Tanh(const Tensor& a) { return Unary(serialization::FN_TANH, a); }
  Tensor Abs(const Tensor& a) { return Unary(serialization::FN_ABS, a); }
  Tensor Sign(const Tensor& a) { return Unary(serialization::FN_SIGN, a); }
  Tensor Sigmoid(const Tensor& a) { return Unary(serialization::FN_LOGISTIC, a); }
  Tensor Maximum(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_MAXIMUM, a, b); }
  Tensor Minimum(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_MINIMUM, a, b); }
  Tensor Pow(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_POW, a, b); }
  Tensor Eq(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_EQ, a, b); }
  Tensor Ne(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_NE, a, b); }
  Tensor Lt(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_LT, a, b); }
  Tensor Le(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_LE, a, b); }
  Tensor Gt(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_GT, a, b); }
  Tensor Ge(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_GE, a, b); }
  Tensor And(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_AND, a, b); }
  Tensor Or(const Tensor& a, const Tensor& b) { return Binary(serialization::FN_OR, a, b); }
  Tensor Not(const Tensor& a) { return Unary(serialization::FN_LOGICAL_NOT, a); }

  // Reductions over `dims`, which may be negative; reduced dimensions are kept with size 1.
  Tensor Reduce(serialization::ScalarFn fn, const Tensor& a, absl::Span<const int64_t> dims);
  Tensor ReduceSum(const Tensor& a, absl::Span<const int64_t> dims) {
    return Reduce(serialization::FN_REDUCE_SUM, a, dims);
  }
  Tensor ReduceMax(const Tensor& a, absl::Span<const int64_t> dims) {
    return Reduce(serialization::FN_REDUCE_MAX, a, dims);
  }
  // Returns the sum divided by the number of reduced elements.
  Tensor ReduceMean(const Tensor& a, absl::Span<const int64_t> dims);

  // Views. A view of a view becomes one view, and an identity returns its operand.
  Tensor View(const Tensor& a, SymIntVector sizes);
  Tensor Permute(const Tensor& a, std::vector<int64_t> dims);
  Tensor Transpose(const Tensor& a, int64_t dim0, int64_t dim1);
  Tensor Expand(const Tensor& a, SymIntVector sizes);
  Tensor Slice(const Tensor& a, int64_t dim, SymInt start, SymInt end, SymInt step);
  Tensor SelectIndex(const Tensor& a, int64_t dim, SymInt index);
  Tensor Unsqueeze(const Tensor& a, int64_t dim);
  // Drops dimensions of size 1.
  Tensor Squeeze(const Tensor& a, absl::Span<const int64_t> dims);
  Tensor Diagonal(const Tensor& a, int64_t offset, int64_t dim1, int64_t dim2);
  Tensor Unfold(const Tensor& a, int64_t dim, int64_t size, int64_t step);
  Tensor AsStrided(const Tensor& a, SymIntVector sizes, SymIntVector strides, SymInt offset);
  // Convert complex numbers to a last dimension of size 2 (real, imaginary), and back.
  Tensor ViewAsReal(const Tensor& a);
  Tensor ViewAsComplex(const Tensor& a);
  // Returns the bytes of `a` as elements of another dtype; the last dimension has `sizes`' size. Copies a view whose
  // elements change their size, because their bytes have to be contiguous.
  Tensor ViewDType(const Tensor& a, DType dtype, SymIntVector sizes);

  // Ops that have their own kernels.
  Tensor Matmul(const Tensor& a, const Tensor& b, const Tensor& bias = Tensor());
  Tensor Convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionConfig& config,
                     SymIntVector output_sizes);
  Tensor ConvolutionBackwardInput(const Tensor& grad, const Tensor& weight, const ConvolutionConfig& config,
                                  SymIntVector input_sizes);
  Tensor ConvolutionBackwardWeight(const Tensor& grad, const Tensor& x, const ConvolutionConfig& config,
                                   SymIntVector weight_sizes);
  std::pair<Tensor, Tensor> MaxPool(const Tensor& x, const PoolConfig& config, SymIntVector output_sizes);
  Tensor MaxPoolBackward(const Tensor& grad, const Tensor& indices, const PoolConfig& config, SymIntVector input_sizes);
  Tensor AvgPool(const Tensor& x, const PoolConfig& config, SymIntVector output_sizes);
  Tensor AvgPoolBackward(const Tensor& grad, const PoolConfig& config, SymIntVector input_sizes);
  Tensor Gather(const Tensor& x, const Tensor& index, int64_t dim);
  // Adds `rows` to `base`, or to zeros if `base` is undefined, at the positions `index` along
  // `dim`.
  Tensor ScatterAdd(const Tensor& rows, const Tensor& index, const Tensor& base, int64_t dim, int64_t padding_index,
                    SymIntVector output_sizes);
  // Returns `index`, of any integer dtype, as i32 or i64; a call fails if an element is outside [0,
  // size). `from_end`: elements in [-size, 0) count from the end. Elements equal to `ignored` pass.
  Tensor CheckedIndex(const Tensor& index, const SymInt& size, bool from_end = false,
                      std::optional<int64_t> ignored = std::nullopt);
  // Returns the running reduction along `dim`, and its indices for MAX and MIN.
  std::pair<Tensor, Tensor> Scan(serialization::Scan::Function function, const Tensor& x, int64_t dim,
                                 bool reverse = false);
  // Returns the first `count` elements along `dim` in sorted order, and their i64 indices. NaN is
  // the greatest. The sort is stable.
  std::pair<Tensor, Tensor> Sort(const Tensor& x, int64_t dim, SymInt count, bool descending);
  Tensor Concat(absl::Span<const Tensor> tensors, int64_t dim);

  // Appends a node and returns its results, which have the given types. The arguments are in the
  // order of the op's signature.
  std::vector<Tensor> Emit(PrimOp op, std::vector<Argument> arguments, absl::Span<const TensorType> types);
  // Appends a node of any dialect. `expr`: the expression program that it carries; null: none.
  std::vector<Tensor> EmitNode(std::string op, std::vector<Argument> arguments, absl::Span<const TensorType> types,
                               std::shared_ptr<const serialization::Expr> expr);
  // Returns the node that defines a value; null for a graph input.
  const Node* Producer(ValueId id) const;
  // Returns true if the last dimension certainly holds pairs of neighbours in memory.
  bool IsInterleavedComplex(ValueId id) const;
  // Returns a dimension of a tensor of `rank` dimensions counted from 0.
  int64_t WrapDim(int64_t dim, int rank);

 private:
  struct Operand;
  // Adds instructions that load `tensor`, as an input or a constant of `dtype`.
  uint32_t Load(const Tensor& tensor, DType dtype, serialization::Expr& expr, std::vector<Argument>& arguments);
  Tensor Pointwise(serialization::ScalarFn fn, absl::Span<const Tensor> operands, DType operand_dtype, DType dtype);
  Tensor EmitExpr(serialization::Expr expr, std::vector<Argument> arguments, TensorType type);
  SymIntVector Broadcast(absl::Span<const Tensor> tensors);
  Tensor StripExpand(const Tensor& tensor) const;

  Graph* graph_;
  absl::Status status_;
  std::string source_;
  absl::flat_hash_map<ValueId, const Node*> producers_;
};

// Returns the number of elements as a size expression.
SymInt NumElementsOf(const SymIntVector& sizes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_BUILDER_H_
