// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/ops/small_matrix.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cotan::aot {
namespace {

// Largest number of unrolled rows and columns.
constexpr int64_t kMaxRows = 32;

// A reflection I - factor v v^T.
struct Reflection {
  Tensor v;       // [..., rows, 1]
  Tensor factor;  // [..., 1, 1]
};

Tensor Reflected(Lowering& l, const Reflection& reflection, const Tensor& a) {
  const Tensor product = l.b.ReduceSum(reflection.v * a, {-2});
  return a - reflection.factor * reflection.v * product;
}

// Returns the reflection that makes the elements of `column` below k zero, with LAPACK's choice of
// signs; the identity where they are already zero.
Reflection ReflectionOf(Lowering& l, const Tensor& column, int64_t rows, int64_t k) {
  const Tensor row = RowIndex(l, rows);
  const Tensor below = l.b.Select(l.b.Gt(row, Whole(l, k)), column, Number(l, 0));
  const Tensor square = l.b.ReduceSum(below * below, {-2});
  const Tensor first = Row(l, column, k);
  const Tensor length = l.b.Sqrt(first * first + square);
  const Tensor target = l.b.Select(l.b.Lt(first, Number(l, 0)), length, -length);
  const Tensor is_done = l.b.Eq(square, Number(l, 0));
  const Tensor scale = l.b.Select(is_done, Number(l, 1), first - target);
  const Tensor v = l.b.Select(l.b.Eq(row, Whole(l, k)), Number(l, 1), below / scale);
  const Tensor divisor = l.b.Select(is_done, Number(l, 1), target);
  return {v, l.b.Select(is_done, Number(l, 0), (target - first) / divisor)};
}

}  // namespace

Tensor Number(Lowering& l, double value) { return l.b.Literal(value); }
Tensor Whole(Lowering& l, int64_t value) { return l.b.Literal(SymInt(value)); }

absl::StatusOr<bool> IsUnrolled(Lowering& l, const Tensor& a) {
  if (IsComplex(a.dtype())) return l.Unsupported("complex matrices");
  const auto is_small = [](const SymInt& size) { return size.is_constant() && size.constant() <= kMaxRows; };
  return is_small(RowsOf(a)) && is_small(ColumnsOf(a));
}

absl::StatusOr<MatrixSizes> ConstantSizes(Lowering& l, const Tensor& a) {
  if (!RowsOf(a).is_constant() || !ColumnsOf(a).is_constant()) return l.Unsupported("a matrix of dynamic size");
  return MatrixSizes{RowsOf(a).constant(), ColumnsOf(a).constant()};
}

const SymInt& RowsOf(const Tensor& a) { return a.sizes()[a.sizes().size() - 2]; }
const SymInt& ColumnsOf(const Tensor& a) { return a.sizes().back(); }

bool IsEmpty(const Tensor& a) { return RowsOf(a) == SymInt(0) || ColumnsOf(a) == SymInt(0); }

SymIntVector BatchOf(const Tensor& a) {
  SymIntVector batch = a.sizes();
  batch.resize(batch.size() - 2);
  return batch;
}

Tensor Row(Lowering& l, const Tensor& a, int64_t i) { return l.b.Slice(a, -2, SymInt(i), SymInt(i + 1), 1); }
Tensor Column(Lowering& l, const Tensor& a, int64_t i) { return l.b.Slice(a, -1, SymInt(i), SymInt(i + 1), 1); }
Tensor Element(Lowering& l, const Tensor& a, int64_t i, int64_t j) { return Column(l, Row(l, a, i), j); }
Tensor Transposed(Lowering& l, const Tensor& a) { return l.b.Transpose(a, -2, -1); }

Tensor RowIndex(Lowering& l, const SymInt& rows) { return l.b.Iota(0, DType::kInt64, {rows, SymInt(1)}); }
Tensor ColumnIndex(Lowering& l, const SymInt& columns) { return l.b.Iota(1, DType::kInt64, {SymInt(1), columns}); }

Tensor Identity(Lowering& l, DType dtype, const SymInt& rows, const SymInt& columns) {
  return l.b.Cast(l.b.Eq(RowIndex(l, rows), ColumnIndex(l, columns)), dtype);
}

Qr QrOf(Lowering& l, Tensor a, MatrixSizes sizes, int64_t kept) {
  SymIntVector q_sizes = a.sizes();
  q_sizes.back() = SymInt(kept);
  std::vector<Reflection> reflections;
  for (int64_t k = 0; k < std::min(sizes.rows, sizes.columns); ++k) {
    reflections.push_back(ReflectionOf(l, Column(l, a, k), sizes.rows, k));
    a = Reflected(l, reflections.back(), a);
  }
  const Tensor upper = l.b.Select(l.b.Le(RowIndex(l, sizes.rows), ColumnIndex(l, sizes.columns)), a, Number(l, 0));
  Tensor q = l.b.Expand(Identity(l, a.dtype(), sizes.rows, kept), q_sizes);
  for (size_t k = reflections.size(); k-- > 0;) q = Reflected(l, reflections[k], q);
  return {q, l.b.Slice(upper, -2, 0, SymInt(kept), 1)};
}

}  // namespace cotan::aot
