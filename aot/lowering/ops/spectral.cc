// SPDX-License-Identifier: Apache-2.0

// Rows of ops that need eigenvalues or singular values of real matrices. Those of small ones (IsUnrolled()) are
// computed by Jacobi's method with all sweeps unrolled, in f64; others go to the op of the runtime. A sweep rotates
// each pair of columns once, in rounds of disjoint pairs whose rotations are one orthogonal matrix (Golub and Van Loan,
// Matrix Computations, 8.5 and 8.6.3). The number of sweeps is enough for repeated and for widely spread values. Signs
// of vectors are not those of LAPACK.
#include <algorithm>
#include <utility>
#include <vector>

#include "aot/lowering/ops/linear_algebra_op.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"
#include "aot/lowering/ops/small_matrix.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using linear_algebra_op::Eigen;
using linear_algebra_op::Svd;

Tensor Double(Lowering& l, double value) { return l.b.Full(Number(l, value), DType::kFloat64, {}); }

Tensor ReduceSumOfRows(Lowering& l, const Tensor& a) { return l.b.ReduceSum(a, {-1}); }

int64_t Rounds(int64_t n) { return n % 2 == 0 ? n - 1 : n; }

// Measured on random, graded and degenerate matrices of 2 to 32 rows: one sweep less leaves errors above f64's.
int64_t Sweeps(int64_t n) {
  int64_t sweeps = 1;
  for (int64_t size = 1; size < n; size *= 2) sweeps += 2;
  return sweeps;
}

// Returns the index that each of n indexes is paired with in a round, [n, 1]; itself for one index if n is odd. Each
// pair occurs in one of Rounds(n).
Tensor PartnerOf(Lowering& l, int64_t n, int64_t round) {
  const int64_t rounds = Rounds(n);
  const Tensor index = RowIndex(l, n);
  const Tensor mirrored = l.b.Binary(serialization::FN_REMAINDER, Whole(l, round + n) - index, Whole(l, rounds));
  if (n % 2 != 0) return mirrored;
  // The last index meets the one that is its own mirror image.
  const int64_t fixed = (round + n) * (n / 2) % rounds;
  const Tensor partner = l.b.Select(l.b.Eq(index, Whole(l, fixed)), Whole(l, n - 1), mirrored);
  return l.b.Select(l.b.Eq(index, Whole(l, n - 1)), Whole(l, fixed), partner);
}

// Returns the orthogonal matrix j of a round for which the elements of the round's pairs are 0 in j^T g j.
Tensor RotationOf(Lowering& l, const Tensor& g, int64_t n, int64_t round) {
  const Tensor row = RowIndex(l, n), column = ColumnIndex(l, n), partner = PartnerOf(l, n, round);
  const Tensor is_pair = l.b.And(l.b.Eq(column, partner), l.b.Ne(row, partner));
  const Tensor zero = Double(l, 0), one = Double(l, 1);
  const Tensor diagonal = l.b.Diagonal(g, 0, g.rank() - 2, g.rank() - 1);
  const Tensor own = l.b.Unsqueeze(diagonal, -1);
  const Tensor other = ReduceSumOfRows(l, l.b.Select(is_pair, l.b.Unsqueeze(diagonal, -2), zero));
  // Exactly equal for both of a pair, so that j is orthogonal.
  const Tensor twice = ReduceSumOfRows(l, l.b.Select(is_pair, g + Transposed(l, g), zero));
  const Tensor ratio = (other - own) / twice;
  const Tensor sign_of_zero = l.b.Select(l.b.Lt(row, partner), one, -one);
  const Tensor sign = l.b.Select(l.b.Eq(ratio, zero), sign_of_zero, l.b.Sign(ratio));
  const Tensor angle = sign / (l.b.Abs(ratio) + l.b.Sqrt(ratio * ratio + one));
  const Tensor tangent = l.b.Select(l.b.Eq(twice, zero), zero, angle);
  const Tensor cosine = l.b.Rsqrt(tangent * tangent + one);
  return l.b.Select(l.b.Eq(row, column), cosine, l.b.Select(is_pair, tangent * cosine, zero));
}

// Returns a [..., n, n] in f64 whose columns are those of `a` in the order of `indexes`, [..., n].
Tensor Reordered(Lowering& l, const Tensor& a, const Tensor& indexes, int64_t n) {
  const Tensor is_source = l.b.Eq(RowIndex(l, n), l.b.Unsqueeze(indexes, -2));
  return l.b.Matmul(a, l.b.Cast(is_source, DType::kFloat64));
}

// As linear_algebra_op::Eigh(), in f64; `a` is not empty.
absl::StatusOr<Eigen> UnrolledEigen(Lowering& l, Tensor a, bool upper) {
  COTAN_ASSIGN_OR_RETURN(const MatrixSizes sizes, ConstantSizes(l, a));
  const int64_t n = sizes.columns;
  a = l.b.Cast(a, DType::kFloat64);
  const Tensor row = RowIndex(l, n), column = ColumnIndex(l, n);
  a = l.b.Select(upper ? l.b.Le(row, column) : l.b.Ge(row, column), a, Transposed(l, a));
  Tensor vectors = l.b.Expand(Identity(l, DType::kFloat64, n, n), a.sizes());
  for (int64_t sweep = 0; n > 1 && sweep < Sweeps(n); ++sweep) {
    for (int64_t round = 0; round < Rounds(n); ++round) {
      const Tensor rotation = RotationOf(l, a, n, round);
      a = l.b.Matmul(Transposed(l, rotation), l.b.Matmul(a, rotation));
      vectors = l.b.Matmul(vectors, rotation);
    }
  }
  const Tensor diagonal = l.b.Diagonal(a, 0, a.rank() - 2, a.rank() - 1);
  const auto [values, indexes] = l.b.Sort(diagonal, -1, SymInt(n), /*descending=*/false);
  return Eigen{values, Reordered(l, vectors, indexes, n)};
}

// Decomposes the symmetric matrix of which `a` has the upper or the lower triangle, in f64 or in the dtype of `a`.
absl::StatusOr<Eigen> EigenOf(Lowering& l, const Tensor& a, bool upper, bool has_vectors) {
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, a));
  if (IsEmpty(a)) {
    SymIntVector of_values = a.sizes();
    of_values.pop_back();
    return Eigen{l.b.Full(Number(l, 0), a.dtype(), of_values), a};
  }
  return unrolled ? UnrolledEigen(l, a, upper) : linear_algebra_op::Eigh(l, a, upper, has_vectors);
}

// Columns of a = scaled vectors^T that are orthogonal.
struct OrthogonalColumns {
  MatrixSizes sizes;  // of a: no more columns than rows
  Tensor scaled;      // [..., rows, columns]: left singular vectors, each times its value
  Tensor values;      // [..., columns], descending
  Tensor vectors;     // [..., columns, columns]: right singular vectors in columns
};

absl::StatusOr<OrthogonalColumns> OrthogonalColumnsOf(Lowering& l, const Tensor& a) {
  COTAN_ASSIGN_OR_RETURN(const MatrixSizes matrix, ConstantSizes(l, a));
  const int64_t n = matrix.columns;
  Tensor scaled = l.b.Cast(a, DType::kFloat64);
  SymIntVector sizes = a.sizes();
  sizes[sizes.size() - 2] = SymInt(n);
  Tensor vectors = l.b.Expand(Identity(l, DType::kFloat64, n, n), sizes);
  for (int64_t sweep = 0; n > 1 && sweep < Sweeps(n); ++sweep) {
    for (int64_t round = 0; round < Rounds(n); ++round) {
      const Tensor rotation = RotationOf(l, l.b.Matmul(Transposed(l, scaled), scaled), n, round);
      scaled = l.b.Matmul(scaled, rotation);
      vectors = l.b.Matmul(vectors, rotation);
    }
  }
  const Tensor lengths = l.b.Sqrt(l.b.Squeeze(l.b.ReduceSum(scaled * scaled, {-2}), {-2}));
  const auto [values, indexes] = l.b.Sort(lengths, -1, SymInt(n), /*descending=*/true);
  return OrthogonalColumns{matrix, Reordered(l, scaled, indexes, n), values, Reordered(l, vectors, indexes, n)};
}

// Returns `kept` left singular vectors. QR makes those of zero values orthogonal to the others, too.
Tensor LeftVectors(Lowering& l, const OrthogonalColumns& a, int64_t kept) {
  const Qr qr = QrOf(l, a.scaled, a.sizes, kept);
  const Tensor diagonal = l.b.Diagonal(qr.r, 0, qr.r.rank() - 2, qr.r.rank() - 1);
  const Tensor sign = l.b.Unsqueeze(l.b.Select(l.b.Lt(diagonal, Double(l, 0)), Double(l, -1), Double(l, 1)), -2);
  const SymInt columns(a.sizes.columns);
  const Tensor first = l.b.Slice(qr.q, -1, 0, columns, 1) * sign;
  if (kept == a.sizes.columns) return first;
  return l.b.Concat({first, l.b.Slice(qr.q, -1, columns, SymInt(kept), 1)}, -1);
}

// As linear_algebra_op::SvdOf(), in f64; `a` is not empty.
absl::StatusOr<Svd> UnrolledSvd(Lowering& l, const Tensor& a, bool has_vectors, bool full_matrices) {
  COTAN_ASSIGN_OR_RETURN(const MatrixSizes sizes, ConstantSizes(l, a));
  const bool is_wide = sizes.columns > sizes.rows;
  COTAN_ASSIGN_OR_RETURN(const OrthogonalColumns columns, OrthogonalColumnsOf(l, is_wide ? Transposed(l, a) : a));
  if (!has_vectors) return Svd{Tensor(), columns.values, Tensor()};
  const Tensor left = LeftVectors(l, columns, full_matrices ? columns.sizes.rows : columns.sizes.columns);
  if (is_wide) return Svd{columns.vectors, columns.values, Transposed(l, left)};
  return Svd{left, columns.values, Transposed(l, columns.vectors)};
}

// The vectors of a matrix without elements are those of identities.
Svd EmptySvd(Lowering& l, const Tensor& a, bool full_matrices) {
  const SymInt rows = RowsOf(a), columns = ColumnsOf(a);
  const auto in_batch = [&](const Tensor& x, SymIntVector sizes) {
    const SymIntVector batch = BatchOf(a);
    sizes.insert(sizes.begin(), batch.begin(), batch.end());
    return l.b.Expand(x, std::move(sizes));
  };
  const SymInt left = full_matrices ? rows : SymInt(0), right = full_matrices ? columns : SymInt(0);
  return {in_batch(Identity(l, a.dtype(), rows, left), {rows, left}),
          in_batch(l.b.Full(Number(l, 0), a.dtype(), {SymInt(0)}), {SymInt(0)}),
          in_batch(Identity(l, a.dtype(), right, columns), {right, columns})};
}

// Decomposes a matrix, in f64 or in its dtype.
absl::StatusOr<Svd> SvdOf(Lowering& l, const Tensor& a, bool has_vectors, bool full_matrices) {
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, a));
  if (IsEmpty(a)) return EmptySvd(l, a, full_matrices);
  return unrolled ? UnrolledSvd(l, a, has_vectors, full_matrices)
                  : linear_algebra_op::SvdOf(l, a, has_vectors, full_matrices);
}

Tensor EmptyResult(Lowering& l, int k) { return l.b.Full(Number(l, 0), l.result(k).dtype, l.result(k).sizes); }

// (A, UPLO, compute_v) -> eigenvalues, eigenvectors
absl::Status LowerEigh(Lowering& l) {
  const bool has_vectors = l.flag(2);
  COTAN_ASSIGN_OR_RETURN(const Eigen eigen, EigenOf(l, l.tensor(0), l.text(1) == "U", has_vectors));
  return l.ReturnCast({eigen.values, has_vectors ? eigen.vectors : EmptyResult(l, 1)});
}

// (A, full_matrices, compute_uv, driver) -> U, S, Vh
absl::Status LowerSvd(Lowering& l) {
  const bool has_vectors = l.flag(2);
  COTAN_ASSIGN_OR_RETURN(const Svd svd, SvdOf(l, l.tensor(0), has_vectors, l.flag(1)));
  if (!has_vectors) return l.ReturnCast({EmptyResult(l, 0), svd.values, EmptyResult(l, 2)});
  return l.ReturnCast({svd.u, svd.values, svd.vh});
}

// The pseudo-inverse drops values up to max(atol, rtol * the largest one).
struct Tolerance {
  Tensor atol, rtol;  // f64[...]
};

// (self, *, atol, rtol, hermitian): without atol 0; without rtol eps * size, or 0 where atol is positive.
absl::StatusOr<Tolerance> ToleranceOf(Lowering& l) {
  const Tensor a = l.tensor(0), atol = l.optional_tensor(1), rtol = l.optional_tensor(2);
  COTAN_ASSIGN_OR_RETURN(const MatrixSizes sizes, ConstantSizes(l, a));
  const Tensor zero = Double(l, 0);
  Tolerance tolerance;
  tolerance.atol = atol.defined() ? l.b.Cast(atol, DType::kFloat64) : zero;
  const Tensor epsilon = Double(l, Epsilon(a.dtype()) * static_cast<double>(std::max(sizes.rows, sizes.columns)));
  tolerance.rtol =
      rtol.defined() ? l.b.Cast(rtol, DType::kFloat64) : l.b.Select(l.b.Gt(tolerance.atol, zero), zero, epsilon);
  return tolerance;
}

// Returns 1 / values as [..., 1, n], and 0 for dropped ones.
Tensor Inverted(Lowering& l, const Tensor& given, const Tolerance& tolerance) {
  const Tensor values = l.b.Cast(given, DType::kFloat64), lengths = l.b.Abs(values);
  const Tensor one = Double(l, 1);
  const Tensor scaled = l.b.Unsqueeze(tolerance.rtol, -1) * l.b.ReduceMax(lengths, {-1});
  const Tensor is_kept = l.b.Gt(lengths, l.b.Maximum(l.b.Unsqueeze(tolerance.atol, -1), scaled));
  const Tensor inverse = l.b.Select(is_kept, one / l.b.Select(is_kept, values, one), Double(l, 0));
  return l.b.Unsqueeze(l.b.Cast(inverse, given.dtype()), -2);
}

// Returns left diag(inverse) right^T.
absl::Status ReturnProduct(Lowering& l, const Tensor& left, const Tensor& inverse, const Tensor& right) {
  return l.ReturnCast({l.b.Matmul(left * inverse, Transposed(l, right))});
}

// Needs no left vectors of zero values, which take a QR.
absl::Status LowerUnrolledPseudoInverse(Lowering& l, const Tolerance& tolerance) {
  const Tensor a = l.tensor(0);
  COTAN_ASSIGN_OR_RETURN(const MatrixSizes sizes, ConstantSizes(l, a));
  const bool is_wide = sizes.columns > sizes.rows;
  COTAN_ASSIGN_OR_RETURN(const OrthogonalColumns columns, OrthogonalColumnsOf(l, is_wide ? Transposed(l, a) : a));
  const Tensor inverse = Inverted(l, columns.values, tolerance);
  const Tensor left = columns.scaled * inverse;  // vectors of length 1, or 0
  if (is_wide) return ReturnProduct(l, left, inverse, columns.vectors);
  return ReturnProduct(l, columns.vectors, inverse, left);
}

absl::Status LowerPseudoInverse(Lowering& l) {
  const Tensor a = l.tensor(0);
  if (IsEmpty(a)) return l.Return(EmptyResult(l, 0));
  COTAN_ASSIGN_OR_RETURN(const Tolerance tolerance, ToleranceOf(l));
  if (l.flag(3)) {
    COTAN_ASSIGN_OR_RETURN(const Eigen eigen, EigenOf(l, a, /*upper=*/false, /*has_vectors=*/true));
    return ReturnProduct(l, eigen.vectors, Inverted(l, eigen.values, tolerance), eigen.vectors);
  }
  COTAN_ASSIGN_OR_RETURN(const bool unrolled, IsUnrolled(l, a));
  if (unrolled) return LowerUnrolledPseudoInverse(l, tolerance);
  const Svd svd = linear_algebra_op::SvdOf(l, a, /*has_vectors=*/true, /*full_matrices=*/false);
  return ReturnProduct(l, Transposed(l, svd.vh), Inverted(l, svd.values, tolerance), svd.u);
}

constexpr OpRow kRows[] = {
    {"aten._linalg_eigh.default", OpFamily::kComposite, LowerEigh},
    {"aten._linalg_svd.default", OpFamily::kComposite, LowerSvd},
    {"aten.linalg_pinv.atol_rtol_tensor", OpFamily::kComposite, LowerPseudoInverse},
};

}  // namespace

absl::Span<const OpRow> SpectralRows() { return kRows; }

}  // namespace cotan::aot
