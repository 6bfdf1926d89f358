// SPDX-License-Identifier: Apache-2.0

// Rows of decompositions and of solvers that use them. For small matrices (IsUnrolled()) the loops over columns are
// unrolled, and each step is a few expressions over the whole matrix; others go to the op of the runtime.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aot/lowering/ops/linear_algebra_op.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"
#include "aot/lowering/ops/small_matrix.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using linear_algebra_op::Cholesky;
using linear_algebra_op::Lu;
using linear_algebra_op::Triangle;

// Returns the number of rows. Unimplemented: the matrix is not square.
absl::StatusOr<int64_t> SquareRows(Lowering& l, const Tensor& a) {
  COTAN_ASSIGN_OR_RETURN(const MatrixSizes sizes, ConstantSizes(l, a));
  if (sizes.rows != sizes.columns) return l.Unsupported("a matrix that is not square");
  return sizes.rows;
}

Tensor ZeroInfo(Lowering& l, const Tensor& a) { return l.b.Full(Whole(l, 0), DType::kInt32, BatchOf(a)); }

// Returns `info` with step + 1 where it is 0 and `failed`, of size [..., 1, 1], is true.
Tensor Noted(Lowering& l, const Tensor& info, const Tensor& failed, int64_t step) {
  const Tensor here = l.b.And(l.b.View(failed, info.sizes()), l.b.Eq(info, Whole(l, 0)));
  return l.b.Select(here, Whole(l, step + 1), info);
}

// Cholesky --------------------------------------------------------------------------------------------------

absl::StatusOr<Cholesky> UnrolledCholesky(Lowering& l, Tensor a) {
  COTAN_ASSIGN_OR_RETURN(const int64_t n, SquareRows(l, a));
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
  const Tensor a = l.tensor(0);
  const bool upper = l.flag(1);
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, a));
  if (!unrolled) {
    const Cholesky cholesky = linear_algebra_op::CholeskyOf(l, a, upper);
    return l.ReturnAll({cholesky.factor, cholesky.info});
  }
  COTAN_ASSIGN_OR_RETURN(const Cholesky cholesky, UnrolledCholesky(l, upper ? Transposed(l, a) : a));
  return l.ReturnAll({upper ? Transposed(l, cholesky.factor) : cholesky.factor, cholesky.info});
}

// Triangles -------------------------------------------------------------------------------------------------

// Solves a x = b for a triangular a of n rows.
Tensor UnrolledTriangle(Lowering& l, const Tensor& a, Tensor b, int64_t n, const Triangle& triangle) {
  if (n == 0) return b;
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

// Solves a x = b, or x a = b without `left`.
absl::StatusOr<Tensor> SolvedTriangle(Lowering& l, const Tensor& a, const Tensor& b, const Triangle& triangle,
                                      bool left) {
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, a));
  if (!unrolled) {
    const Tensor x = linear_algebra_op::SolveTriangle(l, a, left ? b : Transposed(l, b), triangle, /*transpose=*/!left);
    return left ? x : Transposed(l, x);
  }
  COTAN_ASSIGN_OR_RETURN(const int64_t n, SquareRows(l, a));
  if (left) return UnrolledTriangle(l, a, b, n, triangle);
  const Triangle other{!triangle.upper, triangle.unit};
  return Transposed(l, UnrolledTriangle(l, Transposed(l, a), Transposed(l, b), n, other));
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
  const Tensor a = l.tensor(0);
  const Tensor identity = Identity(l, a.dtype(), RowsOf(a), RowsOf(a));
  COTAN_ASSIGN_OR_RETURN(const Tensor x, SolvedByCholesky(l, a, identity, l.flag(1)));
  return l.Return(x);
}

// LU --------------------------------------------------------------------------------------------------------

// Returns a with rows `i` and `p` swapped; p is [..., 1, 1], counted from 0.
Tensor Swapped(Lowering& l, const Tensor& a, int64_t i, const Tensor& p) {
  const Tensor row = RowIndex(l, RowsOf(a));
  const Tensor is_other = l.b.Eq(row, p);
  const Tensor other = l.b.ReduceSum(l.b.Select(is_other, a, l.b.Full(Number(l, 0), a.dtype(), {})), {-2});
  return l.b.Select(l.b.Eq(row, Whole(l, i)), other, l.b.Select(is_other, Row(l, a, i), a));
}

// Returns `pivots`, [..., 1, 1] each and counted from 0, in LAPACK's form: i32 [..., K], counted from 1.
Tensor PivotsOf(Lowering& l, const std::vector<Tensor>& pivots, SymIntVector batch) {
  batch.emplace_back(static_cast<int64_t>(pivots.size()));
  if (pivots.empty()) return l.b.Full(Whole(l, 0), DType::kInt32, batch);
  return l.b.Cast(l.b.View(l.b.Concat(pivots, -2), batch) + Whole(l, 1), DType::kInt32);
}

absl::StatusOr<Lu> UnrolledLu(Lowering& l, Tensor a) {
  COTAN_ASSIGN_OR_RETURN(const MatrixSizes sizes, ConstantSizes(l, a));
  const Tensor row = RowIndex(l, sizes.rows), column = ColumnIndex(l, sizes.columns);
  std::vector<Tensor> pivots;
  Tensor info = ZeroInfo(l, a);
  for (int64_t k = 0; k < std::min(sizes.rows, sizes.columns); ++k) {
    const Tensor size = l.b.Select(l.b.Ge(row, Whole(l, k)), l.b.Abs(Column(l, a, k)), Number(l, -1));
    const Tensor is_largest = l.b.Eq(size, l.b.ReduceMax(size, {-2}));
    const Tensor places = l.b.Select(is_largest, row, Whole(l, sizes.rows - 1));
    pivots.push_back(l.b.Reduce(serialization::FN_REDUCE_MIN, places, {-2}));
    a = Swapped(l, a, k, pivots.back());
    const Tensor pivot = Element(l, a, k, k);
    const Tensor singular = l.b.Eq(pivot, Number(l, 0));
    info = Noted(l, info, singular, k);
    const Tensor below = Column(l, a, k);
    const Tensor factor = l.b.Select(singular, below, below / pivot);
    const Tensor rest = a - factor * Row(l, a, k);
    const Tensor changed =
        l.b.Select(l.b.Gt(column, Whole(l, k)), rest, l.b.Select(l.b.Eq(column, Whole(l, k)), factor, a));
    a = l.b.Select(l.b.Gt(row, Whole(l, k)), changed, a);
  }
  return Lu{a, PivotsOf(l, pivots, BatchOf(a)), info};
}

absl::StatusOr<Lu> LuOf(Lowering& l, const Tensor& a) {
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, a));
  return unrolled ? UnrolledLu(l, a) : linear_algebra_op::LuOf(l, a);
}

// Swaps the rows of b as the pivots of a factored matrix of n rows say, or undoes that if `reverse`.
Tensor Permuted(Lowering& l, const Tensor& pivots, Tensor b, int64_t n, bool reverse) {
  const Tensor from_zero = l.b.Cast(l.b.Unsqueeze(pivots, -1), DType::kInt64) - Whole(l, 1);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = reverse ? n - 1 - k : k;
    b = Swapped(l, b, i, Row(l, from_zero, i));
  }
  return b;
}

// Solves a x = b, or a^T x = b if `transpose`, for a matrix of n rows.
Tensor UnrolledSolve(Lowering& l, const Tensor& lu, const Tensor& pivots, const Tensor& b, int64_t n, bool transpose) {
  if (n == 0) return b;
  if (!transpose) {
    const Tensor y = UnrolledTriangle(l, lu, Permuted(l, pivots, b, n, false), n, {.upper = false, .unit = true});
    return UnrolledTriangle(l, lu, y, n, {.upper = true});
  }
  const Tensor factors = Transposed(l, lu);
  const Tensor y = UnrolledTriangle(l, factors, b, n, {.upper = false});
  return Permuted(l, pivots, UnrolledTriangle(l, factors, y, n, {.upper = true, .unit = true}), n, true);
}

// Solves a x = b, or x a = b without `left`, with a^T in place of a if `transpose`.
absl::StatusOr<Tensor> SolvedByLu(Lowering& l, const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left,
                                  bool transpose) {
  if (!left) {
    COTAN_ASSIGN_OR_RETURN(const Tensor x, SolvedByLu(l, lu, pivots, Transposed(l, b), /*left=*/true, !transpose));
    return Transposed(l, x);
  }
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, lu));
  if (!unrolled) return linear_algebra_op::SolveByLu(l, lu, pivots, b, transpose);
  COTAN_ASSIGN_OR_RETURN(const int64_t n, SquareRows(l, lu));
  return UnrolledSolve(l, lu, pivots, b, n, transpose);
}

// (A, pivot, check_errors) -> LU, pivots, info
absl::Status LowerLuFactor(Lowering& l) {
  if (!l.flag(1)) return l.Unsupported("LU without pivots");
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOf(l, l.tensor(0)));
  return l.ReturnAll({lu.factors, lu.pivots, lu.info});
}

// (LU, pivots, B, left, adjoint)
absl::Status LowerLuSolve(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Tensor x, SolvedByLu(l, l.tensor(0), l.tensor(1), l.tensor(2), l.flag(3), l.flag(4)));
  return l.Return(x);
}

// Returns P of a = P L U, [..., M, M]: the matrix that undoes the swaps.
absl::StatusOr<Tensor> PermutationOf(Lowering& l, const Tensor& factors, const Tensor& pivots) {
  const SymInt rows = RowsOf(factors);
  const Tensor identity = Identity(l, factors.dtype(), rows, rows);
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, factors));
  SymIntVector sizes = BatchOf(factors);
  if (unrolled) {
    sizes.insert(sizes.end(), {rows, rows});
    COTAN_ASSIGN_OR_RETURN(const MatrixSizes constant, ConstantSizes(l, factors));
    return Permuted(l, pivots, l.b.Expand(identity, sizes), std::min(constant.rows, constant.columns), true);
  }
  // The solve with an LU whose L and U are identities swaps rows alone. Rows without a pivot stay where they are.
  const SymInt missing = rows + pivots.sizes().back() * SymInt(-1);
  sizes.push_back(missing);
  const Tensor others = l.b.Iota(static_cast<int>(sizes.size()) - 1, DType::kInt32, sizes) +
                        l.b.Literal(pivots.sizes().back() + SymInt(1));
  const Tensor all = missing == SymInt(0) ? pivots : l.b.Concat({pivots, others}, -1);
  return linear_algebra_op::SolveByLu(l, identity, all, identity, /*transpose=*/true);
}

// Returns L, [..., M, K], and U, [..., K, N].
std::pair<Tensor, Tensor> TrianglesOf(Lowering& l, const Tensor& factors, const SymInt& shorter) {
  const Tensor left = l.b.Slice(factors, -1, 0, shorter, 1), right = l.b.Slice(factors, -2, 0, shorter, 1);
  const Tensor is_below = l.b.Gt(RowIndex(l, RowsOf(left)), ColumnIndex(l, shorter));
  const Tensor is_upper = l.b.Le(RowIndex(l, shorter), ColumnIndex(l, ColumnsOf(right)));
  return {l.b.Select(is_below, left, Identity(l, left.dtype(), RowsOf(left), shorter)),
          l.b.Select(is_upper, right, Number(l, 0))};
}

// (A, pivot) -> P, L, U
absl::Status LowerLu(Lowering& l) {
  if (!l.flag(1)) return l.Unsupported("LU without pivots");
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOf(l, l.tensor(0)));
  COTAN_ASSIGN_OR_RETURN(const Tensor permutation, PermutationOf(l, lu.factors, lu.pivots));
  const auto [lower, upper] = TrianglesOf(l, lu.factors, lu.pivots.sizes().back());
  return l.ReturnAll({permutation, lower, upper});
}

// (LU_data, LU_pivots, unpack_data, unpack_pivots) -> P, L, U; what is not unpacked has no elements.
absl::Status LowerLuUnpack(Lowering& l) {
  const Tensor factors = l.tensor(0), pivots = l.tensor(1);
  const auto empty = [&](int k) { return l.b.Full(Number(l, 0), factors.dtype(), l.result(k).sizes); };
  Tensor permutation = empty(0), lower = empty(1), upper = empty(2);
  if (l.flag(3)) {
    COTAN_ASSIGN_OR_RETURN(permutation, PermutationOf(l, factors, pivots));
  }
  if (l.flag(2)) std::tie(lower, upper) = TrianglesOf(l, factors, pivots.sizes().back());
  return l.ReturnAll({permutation, lower, upper});
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
  COTAN_ASSIGN_OR_RETURN(const Tensor x,
                         SolvedByLu(l, lu.factors, lu.pivots, b, /*left=*/l.flag(2) || is_vector, /*transpose=*/false));
  return l.ReturnAll({is_vector ? l.b.Squeeze(x, {-1}) : x, lu.factors, lu.pivots, lu.info});
}

// (A, check_errors) -> inverse, info
absl::Status LowerInverse(Lowering& l) {
  const Tensor a = l.tensor(0);
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOf(l, a));
  const Tensor identity = l.b.Expand(Identity(l, a.dtype(), RowsOf(a), RowsOf(a)), a.sizes());
  COTAN_ASSIGN_OR_RETURN(const Tensor x, SolvedByLu(l, lu.factors, lu.pivots, identity, /*left=*/true, false));
  return l.ReturnAll({x, lu.info});
}

// The diagonal of U, [..., n], and true if the number of swaps is odd, [...].
struct Diagonal {
  Tensor elements;
  Tensor is_odd;
};

Tensor ReduceLast(Lowering& l, serialization::ScalarFn fn, const Tensor& x) {
  return l.b.Squeeze(l.b.Reduce(fn, x, {-1}), {-1});
}

Diagonal DiagonalOf(Lowering& l, const Lu& lu) {
  const Tensor own = l.b.Iota(0, DType::kInt64, {lu.pivots.sizes().back()}) + Whole(l, 1);
  const Tensor moved = l.b.Ne(l.b.Cast(lu.pivots, DType::kInt64), own);
  const Tensor swaps = ReduceLast(l, serialization::FN_REDUCE_SUM, l.b.Cast(moved, DType::kInt64));
  const Tensor odd = l.b.Binary(serialization::FN_REMAINDER, swaps, Whole(l, 2));
  const int rank = lu.factors.rank();
  return {l.b.Diagonal(lu.factors, 0, rank - 2, rank - 1), l.b.Eq(odd, Whole(l, 1))};
}

Tensor WithSign(Lowering& l, const Tensor& x, const Tensor& is_odd) { return l.b.Select(is_odd, -x, x); }

// For determinants LibTorch factors the transpose of a contiguous matrix, and its gradients rely on
// this. All matrices that reach these rows are contiguous (aot/decompositions/linalg_ops.h).
absl::StatusOr<Lu> LuOfTransposed(Lowering& l, const Tensor& a) { return LuOf(l, Transposed(l, a)); }

// (A) -> result, LU, pivots
absl::Status LowerDet(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOfTransposed(l, l.tensor(0)));
  const Diagonal diagonal = DiagonalOf(l, lu);
  const Tensor product = ReduceLast(l, serialization::FN_REDUCE_PROD, diagonal.elements);
  return l.ReturnAll({WithSign(l, product, diagonal.is_odd), lu.factors, lu.pivots});
}

// (A) -> sign, logabsdet, LU, pivots
absl::Status LowerSlogdet(Lowering& l) {
  COTAN_ASSIGN_OR_RETURN(const Lu lu, LuOfTransposed(l, l.tensor(0)));
  const Diagonal diagonal = DiagonalOf(l, lu);
  const Tensor sign = ReduceLast(l, serialization::FN_REDUCE_PROD, l.b.Sign(diagonal.elements));
  const Tensor logarithm = ReduceLast(l, serialization::FN_REDUCE_SUM, l.b.Log(l.b.Abs(diagonal.elements)));
  return l.ReturnAll({WithSign(l, sign, diagonal.is_odd), logarithm, lu.factors, lu.pivots});
}

// QR --------------------------------------------------------------------------------------------------------

// Q of a matrix without elements is the identity, R zeros, both of the sizes of the results.
absl::Status ReturnEmptyQr(Lowering& l, const Tensor& a, bool full_matrices) {
  const SymInt kept = full_matrices ? RowsOf(a) : SymInt(0);
  const Tensor r = l.b.Full(Number(l, 0), a.dtype(), l.result(1).sizes);
  return l.ReturnAll({l.b.Expand(Identity(l, a.dtype(), RowsOf(a), kept), l.result(0).sizes), r});
}

// (A, mode) -> Q, R
absl::Status LowerQr(Lowering& l) {
  const Tensor a = l.tensor(0);
  const std::string mode = l.text(1);
  const bool full = mode == "complete";
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, a));
  if (IsEmpty(a) && mode != "r") return ReturnEmptyQr(l, a, full);
  Tensor q, r;
  if (unrolled && !IsEmpty(a)) {
    COTAN_ASSIGN_OR_RETURN(const MatrixSizes sizes, ConstantSizes(l, a));
    const Qr qr = QrOf(l, a, sizes, full ? sizes.rows : std::min(sizes.rows, sizes.columns));
    q = qr.q;
    r = qr.r;
  } else {
    const linear_algebra_op::Qr qr = linear_algebra_op::QrOf(l, a, full);
    q = qr.q;
    r = qr.r;
  }
  return l.ReturnAll({mode == "r" ? l.b.Full(Number(l, 0), a.dtype(), l.result(0).sizes) : q, r});
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
