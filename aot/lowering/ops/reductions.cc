// SPDX-License-Identifier: Apache-2.0

// Rows of reductions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "aot/lowering/ops/flat_positions.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

using serialization::ScalarFn;

// Returns the dimensions in argument `i`; all dimensions of x if it is none, absent or empty.
std::vector<int64_t> Dims(Lowering& l, const Tensor& x, int i) {
  std::vector<int64_t> dims;
  if (i < l.num_arguments() && !l.is_none(i)) dims = l.integers(i);
  if (dims.empty()) {
    dims.resize(static_cast<size_t>(x.rank()));
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (int64_t& dim : dims) dim = l.b.WrapDim(dim, x.rank());
  return dims;
}

bool KeepDim(Lowering& l, int i) { return i >= 0 && i < l.num_arguments() && !l.is_none(i) && l.flag(i); }

Tensor Shape(Lowering& l, const Tensor& reduced, absl::Span<const int64_t> dims, bool keepdim) {
  return keepdim ? reduced : l.b.Squeeze(reduced, dims);
}

SymInt Count(Lowering& l, const Tensor& x, absl::Span<const int64_t> dims) {
  SymInt count = 1;
  for (const int64_t dim : dims) {
    if (x.rank() > 0) count = count * x.sizes()[static_cast<size_t>(dim)];
  }
  return count;
}

// Lowers fn(self, dims, keepdim). An argument index of -1 means that the op does not have the
// argument.
absl::Status LowerReduce(Lowering& l, ScalarFn fn, int dims_argument, int keepdim_argument) {
  const Tensor x = l.operand(0);
  const std::vector<int64_t> dims = dims_argument < 0 ? Dims(l, x, l.num_arguments()) : Dims(l, x, dims_argument);
  return l.Return(Shape(l, l.b.Reduce(fn, x, dims), dims, KeepDim(l, keepdim_argument)));
}

absl::Status LowerMean(Lowering& l, int dims_argument, int keepdim_argument) {
  const Tensor x = l.wide_operand(0);  // the sum may be too large for a half
  const std::vector<int64_t> dims = dims_argument < 0 ? Dims(l, x, l.num_arguments()) : Dims(l, x, dims_argument);
  return l.ReturnCast({Shape(l, l.b.ReduceMean(x, dims), dims, KeepDim(l, keepdim_argument))});
}

absl::Status LowerAnyAll(Lowering& l, ScalarFn fn, int dims_argument, int keepdim_argument) {
  Tensor x = l.tensor(0);
  if (x.dtype() != DType::kBool) x = l.b.Ne(x, l.b.Literal(SymInt(0)));
  // Here, an empty list of dimensions reduces none.
  const bool has_dims = dims_argument >= 0 && dims_argument < l.num_arguments() && !l.is_none(dims_argument);
  if (has_dims && l.integers(dims_argument).empty()) return l.ReturnCast({x});
  const std::vector<int64_t> dims = dims_argument < 0 ? Dims(l, x, l.num_arguments()) : Dims(l, x, dims_argument);
  return l.Return(l.b.Cast(Shape(l, l.b.Reduce(fn, x, dims), dims, KeepDim(l, keepdim_argument)), l.result().dtype));
}

struct Moments {
  Tensor mean;  // reduced dimensions of size 1
  Tensor variance;
};

absl::StatusOr<Moments> Variance(Lowering& l, const Tensor& x, absl::Span<const int64_t> dims,
                                 int correction_argument) {
  const double correction = l.is_none(correction_argument) ? 1 : l.number(correction_argument);
  const SymInt count = Count(l, x, dims);
  Tensor degrees;
  if (correction == std::floor(correction)) {
    degrees =
        l.b.Literal(SymInt::Binary(SymInt::Kind::kMax, count - SymInt(static_cast<int64_t>(correction)), SymInt(0)));
  } else if (count.is_constant()) {
    degrees = l.b.Literal(std::max(static_cast<double>(count.constant()) - correction, 0.0));
  } else {
    degrees = l.b.Maximum(l.b.Full(l.b.Literal(count), x.dtype(), {}) - l.b.Literal(correction), l.b.Literal(0.0));
  }
  const Tensor mean = l.b.ReduceMean(x, dims);
  const Tensor centered = x - mean;
  return Moments{mean, l.b.ReduceSum(centered * centered, dims) / degrees};
}

absl::Status LowerVariance(Lowering& l, bool root, bool with_mean) {
  const Tensor x = l.wide_operand(0);
  const std::vector<int64_t> dims = Dims(l, x, 1);
  const bool keepdim = KeepDim(l, 3);
  absl::StatusOr<Moments> moments = Variance(l, x, dims, 2);
  if (!moments.ok()) return moments.status();
  const Tensor spread = root ? l.b.Sqrt(moments->variance) : moments->variance;
  if (!with_mean) return l.ReturnCast({Shape(l, spread, dims, keepdim)});
  return l.ReturnCast({Shape(l, spread, dims, keepdim), Shape(l, moments->mean, dims, keepdim)});
}

// Returns the first index along `dim` at which x has the extreme value, i64; NaN counts as extreme.
Tensor ArgExtreme(Lowering& l, const Tensor& x, const Tensor& extreme, int64_t dim) {
  const SymInt size = x.sizes()[static_cast<size_t>(dim)];
  Tensor hit = l.b.Eq(x, extreme);
  if (IsFloatingPoint(x.dtype())) hit = l.b.Or(hit, l.b.Unary(serialization::FN_ISNAN, x));
  const Tensor position = l.b.Iota(static_cast<int>(dim), PositionDType(size), x.sizes());
  const Tensor first = l.b.Reduce(serialization::FN_REDUCE_MIN, l.b.Select(hit, position, l.b.Literal(size)), {dim});
  return l.b.Cast(first, DType::kInt64);
}

absl::Status LowerExtremeWithIndex(Lowering& l, ScalarFn fn) {
  const Tensor x = l.operand(0);
  if (x.rank() == 0) return l.ReturnAll({x, l.b.Full(l.b.Literal(SymInt(0)), DType::kInt64, {})});
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const Tensor extreme = l.b.Reduce(fn, x, {dim});
  const Tensor index = ArgExtreme(l, x, extreme, dim);
  const bool keepdim = KeepDim(l, 2);
  return l.ReturnAll({Shape(l, extreme, {dim}, keepdim), Shape(l, index, {dim}, keepdim)});
}

absl::Status LowerArgExtreme(Lowering& l, ScalarFn fn) {
  Tensor x = l.tensor(0);
  int64_t dim = 0;
  const bool whole = l.is_none(1);
  if (whole) {
    x = l.b.View(x, {NumElementsOf(x.sizes())});
  } else if (x.rank() == 0) {
    x = l.b.View(x, {SymInt(1)});
  } else {
    dim = l.b.WrapDim(l.integer(1), x.rank());
  }
  const Tensor index = ArgExtreme(l, x, l.b.Reduce(fn, x, {dim}), dim);
  return l.Return(l.b.View(index, l.result().sizes));
}

absl::Status LowerLogSumExp(Lowering& l) {
  const Tensor x = l.operand(0);
  const std::vector<int64_t> dims = Dims(l, x, 1);
  const Tensor raw = l.b.ReduceMax(x, dims);
  // Avoids inf - inf for an infinite maximum.
  const Tensor max = l.b.Select(l.b.Unary(serialization::FN_ISINF, raw), l.b.Literal(0.0), raw);
  const Tensor sum = l.b.ReduceSum(l.b.Exp(x - max), dims);
  return l.Return(Shape(l, l.b.Log(sum) + max, dims, KeepDim(l, 2)));
}

// Returns the norm over `dims`, which are kept with size 1.
Tensor NormOf(Lowering& l, const Tensor& x, double order, absl::Span<const int64_t> dims) {
  const Tensor magnitude = l.b.Abs(x);
  if (order == 2) return l.b.Sqrt(l.b.ReduceSum(x * x, dims));
  if (order == 1) return l.b.ReduceSum(magnitude, dims);
  if (order == 0) return l.b.ReduceSum(l.b.Cast(l.b.Ne(x, l.b.Literal(0.0)), x.dtype()), dims);
  if (std::isinf(order)) {
    return l.b.Reduce(order > 0 ? serialization::FN_REDUCE_MAX : serialization::FN_REDUCE_MIN, magnitude, dims);
  }
  const Tensor sum = l.b.ReduceSum(l.b.Pow(magnitude, l.b.Literal(order)), dims);
  return l.b.Pow(sum, l.b.Literal(1 / order));
}

absl::Status VectorNorm(Lowering& l, double order, int dims_argument, int keepdim_argument) {
  const Tensor x = l.wide_operand(0);  // squares may be too large for a half
  const std::vector<int64_t> dims = Dims(l, x, dims_argument);
  return l.ReturnCast({Shape(l, NormOf(l, x, order, dims), dims, KeepDim(l, keepdim_argument))});
}

absl::Status LowerNorm(Lowering& l) { return VectorNorm(l, l.is_none(1) ? 2 : l.number(1), 2, 3); }

absl::Status LowerCountNonzero(Lowering& l) {
  const Tensor x = l.tensor(0);
  const std::vector<int64_t> dims = Dims(l, x, 1);
  const Tensor hit = l.b.Cast(l.b.Ne(x, l.b.Literal(SymInt(0))), DType::kInt64);
  return l.Return(Shape(l, l.b.ReduceSum(hit, dims), dims, false));
}

// (self, dim, keepdim, dtype)
absl::Status LowerNanSum(Lowering& l) {
  Tensor x = l.tensor(0);
  if (IsFloatingPoint(x.dtype())) x = l.b.Select(l.b.Unary(serialization::FN_ISNAN, x), l.b.Literal(0.0), x);
  x = l.b.Cast(x, l.result().dtype);
  const std::vector<int64_t> dims = Dims(l, x, 1);
  return l.Return(Shape(l, l.b.ReduceSum(x, dims), dims, KeepDim(l, 2)));
}

// (self, dim, keepdim) -> min, max
absl::Status LowerAMinMax(Lowering& l) {
  const Tensor x = l.tensor(0);
  const std::vector<int64_t> dims = Dims(l, x, 1);
  const bool keepdim = KeepDim(l, 2);
  return l.ReturnAll({Shape(l, l.b.Reduce(serialization::FN_REDUCE_MIN, x, dims), dims, keepdim),
                      Shape(l, l.b.ReduceMax(x, dims), dims, keepdim)});
}

absl::Status LowerTrace(Lowering& l) {
  const Tensor diagonal = l.b.Cast(l.b.Diagonal(l.tensor(0), 0, 0, 1), l.result().dtype);
  return l.Return(l.b.Squeeze(l.b.ReduceSum(diagonal, {0}), {{0}}));
}

// (self, other, p)
absl::Status LowerDist(Lowering& l) {
  const Tensor difference = l.widened(l.operand(0) - l.operand(1));
  const std::vector<int64_t> dims = Dims(l, difference, l.num_arguments());
  return l.ReturnCast({l.b.Squeeze(NormOf(l, difference, l.number(2), dims), dims)});
}

// Softmax family; f16 and bf16 are computed in f32 and rounded once ---------

struct Exponentials {
  Tensor shifted;  // x - max
  Tensor exp;
  Tensor sum;
};

Exponentials ExpOfShifted(Lowering& l, const Tensor& x, int64_t dim) {
  const Tensor shifted = x - l.b.ReduceMax(x, {dim});
  const Tensor exp = l.b.Exp(shifted);
  return {shifted, exp, l.b.ReduceSum(exp, {dim})};
}

absl::Status LowerSoftmax(Lowering& l) {
  const Exponentials e = ExpOfShifted(l, l.wide(0), l.integer(1));
  return l.ReturnCast({e.exp / e.sum});
}

// Rows whose elements are all -inf give 0 / 1. Other rows have the bits of LowerSoftmax().
absl::Status LowerSafeSoftmax(Lowering& l) {
  const Tensor x = l.wide(0);
  const int64_t dim = l.integer(1);
  const Tensor max = l.b.ReduceMax(x, {dim});
  const Tensor is_empty = l.b.Eq(max, l.b.Literal(-std::numeric_limits<double>::infinity()));
  const Tensor exp = l.b.Exp(x - l.b.Select(is_empty, l.b.Literal(0.0), max));
  return l.ReturnCast({exp / l.b.Select(is_empty, l.b.Literal(1.0), l.b.ReduceSum(exp, {dim}))});
}

absl::Status LowerLogSoftmax(Lowering& l) {
  const Exponentials e = ExpOfShifted(l, l.wide(0), l.integer(1));
  return l.ReturnCast({e.shifted - l.b.Log(e.sum)});
}

absl::Status LowerSoftmaxBackward(Lowering& l) {
  const Tensor grad = l.wide(0);
  const Tensor y = l.wide(1);
  const Tensor product = grad * y;
  return l.ReturnCast({product - y * l.b.ReduceSum(product, {l.integer(2)})});
}

absl::Status LowerLogSoftmaxBackward(Lowering& l) {
  const Tensor grad = l.wide(0);
  const Tensor y = l.wide(1);
  return l.ReturnCast({grad - l.b.Exp(y) * l.b.ReduceSum(grad, {l.integer(2)})});
}

// (i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim): the sum over `sumdim` of the product
// of three tensors, each unsqueezed at its dimensions `expand`.
absl::Status LowerTrilinear(Lowering& l) {
  Tensor product;
  for (int i = 0; i < 3; ++i) {
    Tensor x = l.operand(i);
    std::vector<int64_t> lacking = l.integers(3 + i);
    std::sort(lacking.begin(), lacking.end());
    for (const int64_t dim : lacking) x = l.b.Unsqueeze(x, dim);
    product = product.defined() ? product * x : x;
  }
  const std::vector<int64_t> summed = l.integers(6);
  return l.Return(summed.empty() ? product : l.b.Squeeze(l.b.ReduceSum(product, summed), summed));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kReduction, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._log_softmax.default", LowerLogSoftmax),
    Row("aten._log_softmax_backward_data.default", LowerLogSoftmaxBackward),
    Row("aten._safe_softmax.default", LowerSafeSoftmax),
    Row("aten._softmax.default", LowerSoftmax),
    Row("aten._softmax_backward_data.default", LowerSoftmaxBackward),
    Row("aten._trilinear.default", LowerTrilinear),
    Row("aten.all.default", [](Lowering& l) { return LowerAnyAll(l, serialization::FN_REDUCE_MIN, -1, -1); }),
    Row("aten.all.dim", [](Lowering& l) { return LowerAnyAll(l, serialization::FN_REDUCE_MIN, 1, 2); }),
    Row("aten.all.dims", [](Lowering& l) { return LowerAnyAll(l, serialization::FN_REDUCE_MIN, 1, 2); }),
    Row("aten.amax.default", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_MAX, 1, 2); }),
    Row("aten.amin.default", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_MIN, 1, 2); }),
    Row("aten.aminmax.default", LowerAMinMax),
    Row("aten.any.default", [](Lowering& l) { return LowerAnyAll(l, serialization::FN_REDUCE_MAX, -1, -1); }),
    Row("aten.any.dim", [](Lowering& l) { return LowerAnyAll(l, serialization::FN_REDUCE_MAX, 1, 2); }),
    Row("aten.any.dims", [](Lowering& l) { return LowerAnyAll(l, serialization::FN_REDUCE_MAX, 1, 2); }),
    Row("aten.argmax.default", [](Lowering& l) { return LowerArgExtreme(l, serialization::FN_REDUCE_MAX); }),
    Row("aten.argmin.default", [](Lowering& l) { return LowerArgExtreme(l, serialization::FN_REDUCE_MIN); }),
    Row("aten.count_nonzero.default", LowerCountNonzero),
    Row("aten.count_nonzero.dim_IntList", LowerCountNonzero),
    Row("aten.dist.default", LowerDist),
    Row("aten.linalg_vector_norm.default", [](Lowering& l) { return VectorNorm(l, l.number(1), 2, 3); }),
    Row("aten.logsumexp.default", LowerLogSumExp),
    Row("aten.max.default", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_MAX, -1, -1); }),
    Row("aten.max.dim", [](Lowering& l) { return LowerExtremeWithIndex(l, serialization::FN_REDUCE_MAX); }),
    Row("aten.mean.default", [](Lowering& l) { return LowerMean(l, -1, -1); }),
    Row("aten.mean.dim", [](Lowering& l) { return LowerMean(l, 1, 2); }),
    Row("aten.min.default", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_MIN, -1, -1); }),
    Row("aten.min.dim", [](Lowering& l) { return LowerExtremeWithIndex(l, serialization::FN_REDUCE_MIN); }),
    Row("aten.nansum.default", LowerNanSum),
    Row("aten.norm.Scalar", LowerNorm),
    Row("aten.norm.ScalarOpt_dim", LowerNorm),
    Row("aten.prod.default", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_PROD, -1, -1); }),
    Row("aten.prod.dim_int", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_PROD, 1, 2); }),
    Row("aten.std.correction", [](Lowering& l) { return LowerVariance(l, true, false); }),
    Row("aten.std_mean.correction", [](Lowering& l) { return LowerVariance(l, true, true); }),
    Row("aten.sum.default", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_SUM, -1, -1); }),
    Row("aten.sum.dim_IntList", [](Lowering& l) { return LowerReduce(l, serialization::FN_REDUCE_SUM, 1, 2); }),
    Row("aten.trace.default", LowerTrace),
    Row("aten.var.correction", [](Lowering& l) { return LowerVariance(l, false, false); }),
    Row("aten.var_mean.correction", [](Lowering& l) { return LowerVariance(l, false, true); }),
};

}  // namespace

absl::Span<const OpRow> ReductionRows() { return kRows; }

}  // namespace cotan::aot
