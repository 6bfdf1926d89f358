// SPDX-License-Identifier: Apache-2.0

// Rows of decompositions of small matrices and of solvers that use them. The loops over columns are
// unrolled; each step is a few expressions over the whole matrix.
#include <algorithm>
#include <string>
#include <vector>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"
#include "aot/lowering/ops/small_matrix.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

Tensor ZeroInfo(Lowering& l, const Tensor& a) {
  SymIntVector batch = a.sizes();
  batch.resize(batch.size() - 2);
  return l.b.Full(Whole(l, 0), DType::kInt32, batch);
}

// Returns `info` with step + 1 where it is 0 and `failed`, of size [..., 1, 1], is true.
Tensor Noted(Lowering& l, const Tensor& info, const Tensor& failed, int64_t step) {
  const Tensor here = l.b.And(l.b.View(failed, info.sizes()), l.b.Eq(info, Whole(l, 0)));
  return l.b.Select(here, Whole(l, step + 1), info);
}

struct Cholesky {
  Tensor lower;
  Tensor info;
};

absl::StatusOr<Cholesky> CholeskyOf(Lowering& l, Tensor a) {
  COTAN_ASSIGN_OR_RETURN(const int64_t n, RowsOf(l, a));
  if (n == 0) return Cholesky{a, ZeroInfo(l, a)};
  const Tensor row = RowIndex(l, n);
  Tensor info = ZeroInfo(l, a);
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < n; ++j) {
    const Tensor pivot = Element(l, a, j, j);
    info = Noted(l, info, l.b.Not(l.b.Gt(pivot, Number(l, 0))), j);
    const Tensor scaled = Column(l, a, j) / l.b.Sqrt(pivot);
    columns.push_back(l.b.Select(l.b.Ge(row, Whole(l, j)), scaled, Number(l, 0)));
    a = a - columns.back() * Transposed(l, columns.back());
  }
  return Cholesky{l.b.Concat(columns, -1), info};
}

// (self, upper, check_errors) -> L, info
absl::Status LowerCholesky(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Cholesky cholesky, CholeskyOf(l, l.tensor(0)));
  return l.ReturnAll({l.flag(1) ? Transposed(l, cholesky.lower) : cholesky.lower, cholesky.info});
}

struct Triangle {
  bool upper = false;
  bool unit = false;  // the diagonal counts as ones
};

// Solves a x = b for a triangular a of n rows.
Tensor SolveTriangle(Lowering& l, const Tensor& a, Tensor b, int64_t n, const Triangle& triangle) {
  std::vector<Tensor> rows(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = triangle.upper ? n - 1 - k : k;
    Tensor row = Row(l, b, i);
    if (!triangle.unit) row = row / Element(l, a, i, i);
    rows[static_cast<size_t>(i)] = row;
    if (k + 1 < n) b = b - Column(l, a, i) * row;
  }
  // The first product broadcasts the batches of a and b.
  SymIntVector sizes = rows[static_cast<size_t>(triangle.upper ? 0 : n - 1)].sizes();
  for (Tensor& row : rows) row = l.b.Expand(row, sizes);
  return l.b.Concat(rows, -2);
}

absl::StatusOr<Tensor> SolvedTriangle(Lowering& l, const Tensor& a, const Tensor& b, const Triangle& triangle,
                                      bool left) {
  COTAN_ASSIGN_OR_RETURN(const int64_t n, RowsOf(l, a));
  if (n == 0) return b;
  if (left) return SolveTriangle(l, a, b, n, triangle);
  const Triangle other{!triangle.upper, triangle.unit};
  return Transposed(l, SolveTriangle(l, Transposed(l, a), Transposed(l, b), n, other));
}

// (self, B, upper, left, unitriangular)
absl::Status LowerSolveTriangular(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Tensor x,
                         SolvedTriangle(l, l.tensor(0), l.tensor(1), {l.flag(2), l.flag(4)}, l.flag(3)));
  return l.Return(x);
}

// (self, A, upper, transpose, unitriangular) -> x, A
absl::Status LowerTriangularSolve(Lowering& l) {
  const bool transpose = l.flag(3);
  const Tensor a = transpose ? Transposed(l, l.tensor(1)) : l.tensor(1);
  COTAN_ASSIGN_OR_RETURN(const Tensor x,
                         SolvedTriangle(l, a, l.tensor(0), {l.flag(2) != transpose, l.flag(4)}, /*left=*/true));
  return l.ReturnAll({x, l.tensor(1)});
}

// Solves L L^T x = b.
absl::StatusOr<Tensor> SolvedByCholesky(Lowering& l, Tensor factor, const Tensor& b, bool upper) {
  if (upper) factor = Transposed(l, factor);
  COTAN_ASSIGN_OR_RETURN(const Tensor y, SolvedTriangle(l, factor, b, {}, /*left=*/true));
  return SolvedTriangle(l, Transposed(l, factor), y, {.upper = true}, /*left=*/true);
}

// (self, A, upper)
absl::Status LowerCholeskySolve(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Tensor x, SolvedByCholesky(l, l.tensor(1), l.tensor(0), l.flag(2)));
  return l.Return(x);
}

// (self, upper)
absl::Status LowerCholeskyInverse(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const int64_t n, RowsOf(l, l.tensor(0)));
  const Tensor identity = Identity(l, l.tensor(0).dtype(), n, n);
  COTAN_ASSIGN_OR_RETURN(const Tensor x, SolvedByCholesky(l, l.tensor(0), identity, l.flag(1)));
  return l.Return(x);
}

// Returns a with rows `i` and `p` swapped; p is [..., 1, 1], counted from 0.
Tensor Swapped(Lowering& l, const Tensor& a, int64_t rows, int64_t i, const Tensor& p) {
  const Tensor row = RowIndex(l, rows);
  const Tensor is_other = l.b.Eq(row, p);
  const Tensor other = l.b.ReduceSum(l.b.Select(is_other, a, l.b.Full(Number(l, 0), a.dtype(), {})), {-2});
  return l.b.Select(l.b.Eq(row, Whole(l, i)), other, l.b.Select(is_other, Row(l, a, i), a));
}

struct Lu {
  Tensor factors;              // L below the diagonal, U from it on
  std::vector<Tensor> pivots;  // [..., 1, 1] each: row i was swapped with it, from 0
  Tensor info;
};

absl::StatusOr<Lu> LuOf(Lowering& l, Tensor a) {
  COTAN_ASSIGN_OR_RETURN(const int64_t n, RowsOf(l, a));
  const Tensor row = RowIndex(l, n), column = ColumnIndex(l, n);
  Lu lu{a, {}, ZeroInfo(l, a)};
  for (int64_t k = 0; k < n; ++k) {
    const Tensor size = l.b.Select(l.b.Ge(row, Whole(l, k)), l.b.Abs(Column(l, a, k)), Number(l, -1));
    const Tensor is_largest = l.b.Eq(size, l.b.ReduceMax(size, {-2}));
    const Tensor places = l.b.Select(is_largest, row, Whole(l, n - 1));
    lu.pivots.push_back(l.b.Reduce(serialization::FN_REDUCE_MIN, places, {-2}));
    a = Swapped(l, a, n, k, lu.pivots.back());
    const Tensor pivot = Element(l, a, k, k);
    const Tensor singular = l.b.Eq(pivot, Number(l, 0));
    lu.info = Noted(l, lu.info, singular, k);
    const Tensor below = Column(l, a, k);
    const Tensor factor = l.b.Select(singular, below, below / pivot);
    const Tensor rest = a - factor * Row(l, a, k);
    const Tensor changed =
        l.b.Select(l.b.Gt(column, Whole(l, k)), rest, l.b.Select(l.b.Eq(column, Whole(l, k)), factor, a));
    a = l.b.Select(l.b.Gt(row, Whole(l, k)), changed, a);
  }
  lu.factors = a;
  return lu;
}

// Returns pivots in LAPACK's form: i32 [..., n], counted from 1.
Tensor PivotsOf(Lowering& l, const Lu& lu, const SymIntVector& sizes) {
  if (lu.pivots.empty()) return l.b.Full(Whole(l, 0), DType::kInt32, sizes);
  return l.b.Cast(l.b.View(l.b.Concat(lu.pivots, -2), sizes) + Whole(l, 1), DType::kInt32);
}

// Returns an Lu from the results of an LU op; the inverse of PivotsOf().
Lu FromPivots(Lowering& l, const Tensor& factors, const Tensor& pivots, int64_t n) {
  Lu lu{factors, {}, Tensor()};
  const Tensor from_zero = l.b.Cast(l.b.Unsqueeze(pivots, -1), DType::kInt64) - Whole(l, 1);
  for (int64_t i = 0; i < n; ++i) lu.pivots.push_back(Row(l, from_zero, i));
  return lu;
}

Tensor Permuted(Lowering& l, const Lu& lu, Tensor b, bool reverse) {
  const auto n = static_cast<int64_t>(lu.pivots.size());
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = reverse ? n - 1 - k : k;
    b = Swapped(l, b, n, i, lu.pivots[static_cast<size_t>(i)]);
  }
  return b;
}

// Solves a x = b, or a^T x = b if `transpose`.
Tensor SolvedByLu(Lowering& l, const Lu& lu, const Tensor& b, bool transpose) {
  const auto n = static_cast<int64_t>(lu.pivots.size());
  if (n == 0) return b;
  if (!transpose) {
    const Tensor y = SolveTriangle(l, lu.factors, Permuted(l, lu, b, false), n, {.upper = false, .unit = true});
    return SolveTriangle(l, lu.factors, y, n, {.upper = true});
  }
  const Tensor factors = Transposed(l, lu.factors);
  const Tensor y = SolveTriangle(l, factors, b, n, {.upper = false});
  return Permuted(l, lu, SolveTriangle(l, factors, y, n, {.upper = true, .unit = true}), true);
}

Tensor SolvedByLu(Lowering& l, const Lu& lu, const Tensor& b, bool left, bool transpose) {
  if (left) return SolvedByLu(l, lu, b, transpose);
  return Transposed(l, SolvedByLu(l, lu, Transposed(l, b), !transpose));
}

// (A, pivot, check_errors) -> LU, pivots, info
absl::Status LowerLuFactor(Lowering& l) {
  if (!l.flag(1)) return l.Unsupported("LU without pivots");
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOf(l, l.tensor(0)));
  return l.ReturnAll({lu.factors, PivotsOf(l, lu, l.result(1).sizes), lu.info});
}

// (LU, pivots, B, left, adjoint)
absl::Status LowerLuSolve(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const int64_t n, RowsOf(l, l.tensor(0)));
  const Lu lu = FromPivots(l, l.tensor(0), l.tensor(1), n);
  return l.Return(SolvedByLu(l, lu, l.tensor(2), l.flag(3), l.flag(4)));
}

// Returns P, L and U with a = P L U.
std::vector<Tensor> Unpacked(Lowering& l, const Lu& lu) {
  const auto n = static_cast<int64_t>(lu.pivots.size());
  const DType dtype = lu.factors.dtype();
  const Tensor row = RowIndex(l, n), column = ColumnIndex(l, n);
  const Tensor below = l.b.Select(l.b.Gt(row, column), lu.factors, Identity(l, dtype, n, n));
  const Tensor upper = l.b.Select(l.b.Le(row, column), lu.factors, Number(l, 0));
  const Tensor identity = l.b.Expand(Identity(l, dtype, n, n), lu.factors.sizes());
  return {Permuted(l, lu, identity, true), below, upper};
}

// (A, pivot) -> P, L, U
absl::Status LowerLu(Lowering& l) {
  if (!l.flag(1)) return l.Unsupported("LU without pivots");
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOf(l, l.tensor(0)));
  return l.ReturnAll(Unpacked(l, lu));
}

// (LU_data, LU_pivots, unpack_data, unpack_pivots) -> P, L, U
absl::Status LowerLuUnpack(Lowering& l) {
  if (!l.flag(2) || !l.flag(3)) return l.Unsupported("unpacking a part");
  COTAN_ASSIGN_OR_RETURN(const int64_t n, RowsOf(l, l.tensor(0)));
  return l.ReturnAll(Unpacked(l, FromPivots(l, l.tensor(0), l.tensor(1), n)));
}

// (A, B, left, check_errors) -> result, LU, pivots, info
absl::Status LowerSolve(Lowering& l) {
  const Tensor a = l.tensor(0);
  Tensor b = l.tensor(1);
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOf(l, a));
  SymIntVector of_vectors = a.sizes();
  of_vectors.pop_back();
  const bool is_vector = b.rank() == 1 || b.sizes() == of_vectors;
  if (is_vector) b = l.b.Unsqueeze(b, -1);
  const Tensor x = SolvedByLu(l, lu, b, l.flag(2) || is_vector, /*transpose=*/false);
  return l.ReturnAll({is_vector ? l.b.Squeeze(x, {-1}) : x, lu.factors, PivotsOf(l, lu, l.result(2).sizes), lu.info});
}

// (A, check_errors) -> inverse, info
absl::Status LowerInverse(Lowering& l) {
  const Tensor a = l.tensor(0);
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOf(l, a));
  const auto n = static_cast<int64_t>(lu.pivots.size());
  const Tensor identity = l.b.Expand(Identity(l, a.dtype(), n, n), a.sizes());
  return l.ReturnAll({SolvedByLu(l, lu, identity, false), lu.info});
}

// The diagonal of U, [..., n], and true if the number of swaps is odd, [...].
struct Diagonal {
  Tensor elements;
  Tensor is_odd;
};

Diagonal DiagonalOf(Lowering& l, const Lu& lu, const Tensor& a) {
  SymIntVector batch = a.sizes();
  batch.resize(batch.size() - 2);
  Tensor swaps = l.b.Full(Whole(l, 0), DType::kInt64, batch);
  for (size_t i = 0; i < lu.pivots.size(); ++i) {
    const Tensor moved = l.b.Ne(lu.pivots[i], Whole(l, static_cast<int64_t>(i)));
    swaps = swaps + l.b.View(l.b.Cast(moved, DType::kInt64), batch);
  }
  const Tensor odd = l.b.Binary(serialization::FN_REMAINDER, swaps, Whole(l, 2));
  return {l.b.Diagonal(lu.factors, 0, a.rank() - 2, a.rank() - 1), l.b.Eq(odd, Whole(l, 1))};
}

Tensor WithSign(Lowering& l, const Tensor& x, const Tensor& is_odd) { return l.b.Select(is_odd, -x, x); }

Tensor ReduceLast(Lowering& l, serialization::ScalarFn fn, const Tensor& x) {
  return l.b.Squeeze(l.b.Reduce(fn, x, {-1}), {-1});
}

// For determinants LibTorch factors the transpose of a contiguous matrix, and its gradients rely on
// this. All matrices that reach these rows are contiguous (aot/decompositions/linalg_ops.h).
absl::StatusOr<Lu> LuOfTransposed(Lowering& l, const Tensor& a) { return LuOf(l, Transposed(l, a)); }

// (A) -> result, LU, pivots
absl::Status LowerDet(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOfTransposed(l, l.tensor(0)));
  const Diagonal diagonal = DiagonalOf(l, lu, l.tensor(0));
  const Tensor product = ReduceLast(l, serialization::FN_REDUCE_PROD, diagonal.elements);
  return l.ReturnAll({WithSign(l, product, diagonal.is_odd), lu.factors, PivotsOf(l, lu, l.result(2).sizes)});
}

// (A) -> sign, logabsdet, LU, pivots
absl::Status LowerSlogdet(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOfTransposed(l, l.tensor(0)));
  const Diagonal diagonal = DiagonalOf(l, lu, l.tensor(0));
  const Tensor sign = ReduceLast(l, serialization::FN_REDUCE_PROD, l.b.Sign(diagonal.elements));
  const Tensor logarithm = ReduceLast(l, serialization::FN_REDUCE_SUM, l.b.Log(l.b.Abs(diagonal.elements)));
  return l.ReturnAll({WithSign(l, sign, diagonal.is_odd), logarithm, lu.factors, PivotsOf(l, lu, l.result(3).sizes)});
}

// (A, mode) -> Q, R
absl::Status LowerQr(Lowering& l) {
  const Tensor a = l.tensor(0);
  const std::string mode = l.text(1);
  if (IsComplex(a.dtype())) return l.Unsupported("complex matrices");
  COTAN_ASSIGN_OR_RETURN(const int64_t rows, ConstantSize(l, a, -2));
  COTAN_ASSIGN_OR_RETURN(const int64_t columns, ConstantSize(l, a, -1));
  if (rows == 0 || columns == 0) return l.Unsupported("an empty matrix");
  const int64_t kept = mode == "complete" ? rows : std::min(rows, columns);
  const Qr qr = QrOf(l, a, {rows, columns}, kept);
  if (mode == "r") return l.ReturnAll({l.b.Full(Number(l, 0), a.dtype(), l.result(0).sizes), qr.r});
  return l.ReturnAll({qr.q, qr.r});
}

constexpr OpRow NewRow(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kComposite, lower}; }

constexpr OpRow kRows[] = {
    NewRow("aten._linalg_det.default", LowerDet),
    NewRow("aten._linalg_slogdet.default", LowerSlogdet),
    NewRow("aten._linalg_solve_ex.default", LowerSolve),
    NewRow("aten.cholesky_inverse.default", LowerCholeskyInverse),
    NewRow("aten.cholesky_solve.default", LowerCholeskySolve),
    NewRow("aten.linalg_cholesky_ex.default", LowerCholesky),
    NewRow("aten.linalg_inv_ex.default", LowerInverse),
    NewRow("aten.linalg_lu.default", LowerLu),
    NewRow("aten.linalg_lu_factor_ex.default", LowerLuFactor),
    NewRow("aten.linalg_lu_solve.default", LowerLuSolve),
    NewRow("aten.linalg_qr.default", LowerQr),
    NewRow("aten.linalg_solve_triangular.default", LowerSolveTriangular),
    NewRow("aten.lu_unpack.default", LowerLuUnpack),
    NewRow("aten.triangular_solve.default", LowerTriangularSolve),
};

}  // namespace

absl::Span<const OpRow> LinearAlgebraRows() { return kRows; }

}  // namespace cotan::aot
