// SPDX-License-Identifier: Apache-2.0

// Decompositions and solves of one real matrix in double, in memory of the caller. Nothing is allocated for matrices of
// up to 16384 rows, and results depend on the values alone. All matrices are column-major and dense; their memory is
// aligned to 16 bytes and does not overlap.
#ifndef COTAN_KERNELS_CPU_LINEAR_ALGEBRA_DECOMPOSITIONS_H_
#define COTAN_KERNELS_CPU_LINEAR_ALGEBRA_DECOMPOSITIONS_H_

#include <cstdint>

namespace cotan::cpu::linear_algebra {

// Element (i, j) is data[i + j * rows].
struct Matrix {
  double* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
};

// Memory of at least WorkspaceSize() numbers, with undefined content before and after a call.
using Workspace = double*;

// Returns the workspace of a call on an [M, N] matrix, in numbers.
int64_t WorkspaceSize(int64_t rows, int64_t columns);

// Computes the eigenvalues, ascending, of the symmetric matrix whose lower triangle is in `a`, and, with `has_vectors`,
// replaces `a` by its eigenvectors, in columns. Otherwise the content of `a` is undefined afterwards. Returns false if
// an element of the triangle is not finite or the values do not converge.
bool Eigh(Matrix a, bool has_vectors, double* values, Workspace workspace);

// The result of Svd(), for an [M, N] matrix with M >= N.
struct SvdResult {
  double* values = nullptr;  // [N], descending
  Matrix u;                  // [M, N], or [M, M]
  Matrix v;                  // [N, N], in columns
  bool has_vectors = false;  // otherwise the content of `u` and `v` is undefined afterwards
};

// Decomposes `a`, whose content is lost. Returns false if an element is not finite or the values do not converge.
bool Svd(Matrix a, const SvdResult& result, Workspace workspace);

// Computes Q [M, K] or [M, M], and replaces `a` [M, N] by R in its upper triangle and zeros. The diagonal of R has
// LAPACK's signs. Returns false if an element is not finite.
bool Qr(Matrix a, Matrix q, Workspace workspace);

// Replaces `a` [M, N] by L (unit diagonal, not stored) and U. pivots[i] in [0, M) is the row that was swapped with row
// i, for i < min(M, N). Returns 0, or the number, from 1, of the first pivot that is zero.
int64_t Lu(Matrix a, int32_t* pivots);

// Replaces `b` [N, R] by the X of A X = B, where `lu` and `pivots`, as from Lu(), are of A.
void SolveByLu(Matrix lu, const int32_t* pivots, Matrix b);

// As SolveByLu(), for A^T X = B. `lu` is transposed: L^T and U^T.
void SolveByTransposedLu(Matrix lu, const int32_t* pivots, Matrix b);

// Replaces the lower triangle of `a` by the factor L with A = L L^T; the upper one is not read, and its content is
// undefined afterwards. Returns 0, or the number, from 1, of the first pivot that is not positive; then the content of
// the lower triangle is undefined, too.
int64_t Cholesky(Matrix a);

struct Triangle {
  bool upper = false;
  bool unit = false;  // the diagonal counts as ones
};

// Replaces `b` [N, R] by the X of A X = B for the triangle of `a`.
void SolveTriangle(Matrix a, Matrix b, Triangle triangle);

}  // namespace cotan::cpu::linear_algebra

#endif  // COTAN_KERNELS_CPU_LINEAR_ALGEBRA_DECOMPOSITIONS_H_
