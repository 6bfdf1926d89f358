// SPDX-License-Identifier: Apache-2.0

// The only source that includes Eigen.

// Code under licenses other than the MPL 2.0 is not compiled.
#define EIGEN_MPL2_ONLY
// Batches are divided among threads by the kernel; a product runs on the calling thread.
#define EIGEN_DONT_PARALLELIZE
// A program may contain another version of Eigen, compiled with other flags. Its inline functions have other names.
#define Eigen cotan_eigen

#include "kernels/cpu/linear_algebra/decompositions.h"

#include <Eigen/Core>
#include <Eigen/Householder>
#include <Eigen/Jacobi>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace cotan::cpu::linear_algebra {
namespace {

using Index = Eigen::Index;
using MatrixMap = Eigen::Map<Eigen::MatrixXd>;
using VectorMap = Eigen::Map<Eigen::VectorXd>;
using Rotation = Eigen::JacobiRotation<double>;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kSmallest = std::numeric_limits<double>::min();

// Columns of a panel, which is factored column by column; products update the rest.
constexpr Index kPanel = 32;
// Sizes of the products that Eigen is asked for: those of up to this size take their memory from the stack, and do not
// depend on the sizes of the processor's caches.
constexpr Index kTile = 128;
constexpr Index kTileDepth = 64;

constexpr int64_t kMaxStepsPerValue = 30;  // QR takes about two
constexpr int kMaxSweeps = 40;             // Jacobi takes about three after an eigendecomposition

MatrixMap MapOf(const Matrix& a) { return {a.data, a.rows, a.columns}; }

// Adds factor * a * b to `c`, to its lower triangle and parts of the upper one with `lower_only`.
template <typename C, typename A, typename B>
void AddProduct(C&& c, const A& a, const B& b, double factor, bool lower_only = false) {
  for (Index column = 0; column < c.cols(); column += kTile) {
    const Index columns = std::min(kTile, c.cols() - column);
    for (Index row = lower_only ? column : 0; row < c.rows(); row += kTile) {
      const Index rows = std::min(kTile, c.rows() - row);
      for (Index at = 0; at < a.cols(); at += kTileDepth) {
        const Index depth = std::min(kTileDepth, a.cols() - at);
        c.block(row, column, rows, columns).noalias() +=
            (factor * a.block(row, at, rows, depth)) * b.block(at, column, depth, columns);
      }
    }
  }
}

// Returns the exponent e for which 2^e * largest is in [1, 2).
int ExponentOf(double largest) { return largest == 0 ? 0 : -std::ilogb(largest); }

// Multiplies by 2^exponent, which is exact but for results that are subnormal or infinite.
template <typename Values>
void Scale(Values&& values, int exponent) {
  for (Index j = 0; j < values.cols(); ++j) {
    for (Index i = 0; i < values.rows(); ++i) values(i, j) = std::ldexp(values(i, j), exponent);
  }
}

// Scales a lower triangle so that its largest element is in [1, 2). Returns false if an element is not finite.
bool ScaleTriangle(MatrixMap a, int& exponent) {
  double largest = 0;
  for (Index j = 0; j < a.cols(); ++j) {
    for (Index i = j; i < a.rows(); ++i) {
      if (!std::isfinite(a(i, j))) return false;
      largest = std::max(largest, std::abs(a(i, j)));
    }
  }
  exponent = ExponentOf(largest);
  for (Index j = 0; j < a.cols(); ++j) Scale(a.col(j).tail(a.rows() - j), exponent);
  return true;
}

// Eigenvalues -----------------------------------------------------------------------------------------------

// A symmetric tridiagonal matrix.
struct Tridiagonal {
  VectorMap diagonal;     // [N]
  VectorMap subdiagonal;  // [N], the last element is unused
};

// Returns T = Q^T A Q by reflections (Golub and Van Loan, Matrix Computations, 8.3.1), whose vectors replace the part
// of `a` below the diagonal. `factors` [N] receives their factors.
void Tridiagonalize(MatrixMap a, Tridiagonal& t, VectorMap factors, VectorMap work) {
  const Index n = a.rows();
  for (Index k = 0; k + 1 < n; ++k) {
    const Index rest = n - k - 1;
    auto v = a.col(k).tail(rest);
    v.makeHouseholderInPlace(factors[k], t.subdiagonal[k]);
    v[0] = 1;
    auto block = a.bottomRightCorner(rest, rest);
    auto w = work.head(rest);
    w.noalias() = block.template selfadjointView<Eigen::Lower>() * (factors[k] * v);
    w -= (0.5 * factors[k] * w.dot(v)) * v;
    block.template selfadjointView<Eigen::Lower>().rankUpdate(v, w, -1);
  }
  t.diagonal = a.diagonal();
}

// Replaces `a`, as Tridiagonalize() leaves it, by Q.
void FormTransformation(MatrixMap a, VectorMap factors, VectorMap work) {
  const Index n = a.rows();
  for (Index k = n - 2; k >= 0; --k) {
    const Index rest = n - k - 1;
    // Column k + 1 held the vector of the next reflection, which is part of the block on its right by now.
    a.col(k + 1).tail(rest).setZero();
    a.row(k + 1).tail(rest).setZero();
    a(k + 1, k + 1) = 1;
    a.bottomRightCorner(rest, rest).applyHouseholderOnTheLeft(a.col(k).tail(rest - 1), factors[k], work.data());
  }
  a.col(0).setZero();
  a.row(0).setZero();
  a(0, 0) = 1;
}

// Returns the eigenvalue of the last two rows up to `last` that is nearer to the last element (Wilkinson's shift).
double ShiftOf(const Tridiagonal& t, Index last) {
  const double below = t.subdiagonal[last - 1], half = (t.diagonal[last - 1] - t.diagonal[last]) / 2;
  const double root = std::hypot(half, below);
  return t.diagonal[last] - below * (below / (half + (half < 0 ? -root : root)));
}

// Makes one QR step with an implicit shift on rows first to last (Golub and Van Loan, 8.3.5), with the same rotations
// of the columns of `q`, if it has any.
void StepQr(Tridiagonal& t, Index first, Index last, MatrixMap q) {
  VectorMap& d = t.diagonal;
  VectorMap& e = t.subdiagonal;
  double x = d[first] - ShiftOf(t, last), bulge = e[first];
  for (Index k = first; k < last; ++k) {
    const double length = std::hypot(x, bulge);
    if (length == 0) return;
    const double c = x / length, s = bulge / length;
    if (k > first) e[k - 1] = length;
    const double change = s * (d[k + 1] - d[k]) + 2 * c * e[k];
    d[k] += s * change;
    d[k + 1] -= s * change;
    e[k] = c * change - e[k];
    if (q.cols() > 0) q.applyOnTheRight(k, k + 1, Rotation(c, -s));
    if (k + 1 == last) return;
    x = e[k];
    bulge = s * e[k + 1];
    e[k + 1] *= c;
  }
}

bool IsNegligible(const Tridiagonal& t, Index k) {
  const double below = std::abs(t.subdiagonal[k]);
  return below <= kSmallest || below <= kEpsilon * (std::abs(t.diagonal[k]) + std::abs(t.diagonal[k + 1]));
}

// Makes the matrix diagonal by QR steps. Returns false if it does not converge.
bool Diagonalize(Tridiagonal& t, MatrixMap q) {
  const Index n = t.diagonal.size();
  int64_t steps = 0;
  for (Index last = n - 1; last > 0;) {
    Index first = last;
    while (first > 0 && !IsNegligible(t, first - 1)) --first;
    if (first > 0) t.subdiagonal[first - 1] = 0;
    if (first == last) {
      --last;
      continue;
    }
    if (++steps > kMaxStepsPerValue * n) return false;
    StepQr(t, first, last, q);
  }
  return true;
}

// Sorts values, with the columns of `first` and `second` unless they are empty.
void Sort(VectorMap values, bool descending, MatrixMap first, MatrixMap second) {
  for (Index i = 0; i < values.size(); ++i) {
    Index best = i;
    for (Index j = i + 1; j < values.size(); ++j) {
      if (descending ? values[j] > values[best] : values[j] < values[best]) best = j;
    }
    if (best == i) continue;
    std::swap(values[i], values[best]);
    if (first.cols() > 0) first.col(i).swap(first.col(best));
    if (second.cols() > 0) second.col(i).swap(second.col(best));
  }
}

// Singular values -------------------------------------------------------------------------------------------

// Rotates columns p and q of `a`, and of `v` if it has any, to be orthogonal. Returns whether they were not.
bool RotatePair(MatrixMap a, MatrixMap v, VectorMap squares, Index p, Index q) {
  if (std::min(squares[p], squares[q]) < kSmallest) return false;  // a column that counts as zero
  const double product = a.col(p).dot(a.col(q));
  const double tolerance = kEpsilon * std::max(10.0, std::sqrt(static_cast<double>(a.rows())));
  if (std::abs(product) <= tolerance * std::sqrt(squares[p]) * std::sqrt(squares[q])) return false;
  const double ratio = (squares[q] - squares[p]) / (2 * product);
  const double tangent = (ratio < 0 ? -1 : 1) / (std::abs(ratio) + std::hypot(ratio, 1.0));
  const double cosine = 1 / std::hypot(tangent, 1.0);
  const Rotation rotation(cosine, tangent * cosine);
  a.applyOnTheRight(p, q, rotation);
  if (v.cols() > 0) v.applyOnTheRight(p, q, rotation);
  squares[p] = a.col(p).squaredNorm();
  squares[q] = a.col(q).squaredNorm();
  return true;
}

// Makes the columns of `a` orthogonal by Jacobi's one-sided rotations (Golub and Van Loan, 8.6.3). Returns false if
// they do not converge.
bool Orthogonalize(MatrixMap a, MatrixMap v, VectorMap squares) {
  for (Index j = 0; j < a.cols(); ++j) squares[j] = a.col(j).squaredNorm();
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool is_done = true;
    for (Index p = 0; p < a.cols(); ++p) {
      for (Index q = p + 1; q < a.cols(); ++q) {
        if (RotatePair(a, v, squares, p, q)) is_done = false;
      }
    }
    if (is_done) return true;
  }
  return false;
}

// Replaces each column by its direction, a column that is too short by zeros. Returns whether none was.
bool Normalize(MatrixMap a, VectorMap lengths) {
  bool all = true;
  for (Index j = 0; j < a.cols(); ++j) {
    if (lengths[j] > std::sqrt(kSmallest)) {
      a.col(j) /= lengths[j];
      continue;
    }
    a.col(j).setZero();
    all = false;
  }
  return all;
}

// QR --------------------------------------------------------------------------------------------------------

// Factors `a` by reflections, whose vectors replace the part below the diagonal.
void Reflect(MatrixMap a, VectorMap factors, VectorMap work) {
  const Index m = a.rows(), n = a.cols();
  for (Index k = 0; k < std::min(m, n); ++k) {
    double diagonal = 0;
    a.col(k).tail(m - k).makeHouseholderInPlace(factors[k], diagonal);
    a(k, k) = diagonal;
    a.bottomRightCorner(m - k, n - k - 1).applyHouseholderOnTheLeft(a.col(k).tail(m - k - 1), factors[k], work.data());
  }
}

// Sets `q` to the product of the reflections that are in `a`.
void FormQ(MatrixMap a, VectorMap factors, VectorMap work, MatrixMap q) {
  const Index m = a.rows();
  q.setIdentity();
  for (Index k = std::min(m, a.cols()) - 1; k >= 0; --k) {
    q.bottomRightCorner(m - k, q.cols() - k)
        .applyHouseholderOnTheLeft(a.col(k).tail(m - k - 1), factors[k], work.data());
  }
}

// Sets `u` to the columns of `a`, which are orthogonal, of length 1 or zero, completed to an orthonormal set.
void Complete(MatrixMap a, MatrixMap u, VectorMap factors, VectorMap work) {
  Reflect(a, factors, work);
  FormQ(a, factors, work, u);
  for (Index j = 0; j < a.cols(); ++j) {
    if (a(j, j) < 0) u.col(j) *= -1;
  }
}

// Elimination -----------------------------------------------------------------------------------------------

Index PivotOf(MatrixMap a, Index k) {
  Index pivot = k;
  for (Index i = k + 1; i < a.rows(); ++i) {
    if (std::isnan(a(i, k))) return i;
    if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
  }
  return pivot;
}

// Eliminates columns first to first + count of `a` below the diagonal. Returns as Lu().
int64_t EliminatePanel(MatrixMap a, Index first, Index count, int32_t* pivots) {
  int64_t info = 0;
  for (Index k = first; k < first + count; ++k) {
    const Index pivot = PivotOf(a, k), below = a.rows() - k - 1, right = first + count - k - 1;
    pivots[k] = static_cast<int32_t>(pivot);
    if (pivot != k) a.row(k).swap(a.row(pivot));
    if (a(k, k) == 0) {
      if (info == 0) info = k + 1;
      continue;
    }
    a.col(k).tail(below) /= a(k, k);
    a.block(k + 1, k + 1, below, right).noalias() -= a.col(k).tail(below) * a.row(k).segment(k + 1, right);
  }
  return info;
}

void SwapRows(MatrixMap b, const int32_t* pivots, bool reverse) {
  const Index n = b.rows();
  for (Index k = 0; k < n; ++k) {
    const Index i = reverse ? n - 1 - k : k;
    if (pivots[i] != i) b.row(i).swap(b.row(pivots[i]));
  }
}

// Solves with columns first to first + count of a triangle, for the same rows of `b`.
void SolvePanel(MatrixMap a, MatrixMap b, Index first, Index count, const Triangle& triangle) {
  for (Index column = 0; column < b.cols(); ++column) {
    for (Index step = 0; step < count; ++step) {
      const Index i = triangle.upper ? first + count - 1 - step : first + step;
      if (!triangle.unit) b(i, column) /= a(i, i);
      const Index from = triangle.upper ? first : i + 1, others = count - 1 - step;
      b.col(column).segment(from, others) -= b(i, column) * a.col(i).segment(from, others);
    }
  }
}

}  // namespace

int64_t WorkspaceSize(int64_t rows, int64_t columns) {
  return 4 * (std::max(rows, columns) + 2);  // kept a multiple of 2, for the alignment
}

bool Eigh(Matrix matrix, bool has_vectors, double* values, Workspace workspace) {
  MatrixMap a = MapOf(matrix);
  const Index n = a.rows();
  if (n == 0) return true;
  int exponent = 0;
  if (!ScaleTriangle(a, exponent)) return false;
  const Index stride = n + n % 2;
  Tridiagonal t{VectorMap(values, n), VectorMap(workspace, n)};
  VectorMap factors(workspace + stride, n), work(workspace + 2 * stride, n);
  Tridiagonalize(a, t, factors, work);
  if (has_vectors) FormTransformation(a, factors, work);
  MatrixMap none(nullptr, n, 0), vectors(a.data(), n, has_vectors ? n : 0);
  if (!Diagonalize(t, vectors)) return false;
  Sort(t.diagonal, /*descending=*/false, vectors, none);
  Scale(t.diagonal, -exponent);
  return true;
}

// The eigenvectors of A^T A make the columns of A V nearly orthogonal; rotations make them orthogonal to rounding,
// those of small values, too. The left vectors are their directions.
bool Svd(Matrix matrix, const SvdResult& result, Workspace workspace) {
  MatrixMap a = MapOf(matrix), v = MapOf(result.v);
  const Index m = a.rows(), n = a.cols();
  if (n == 0) {
    MapOf(result.u).setIdentity();
    return true;
  }
  if (!a.allFinite()) return false;
  const int exponent = ExponentOf(a.cwiseAbs().maxCoeff());
  Scale(a, exponent);
  VectorMap values(result.values, n);
  v.setZero();
  AddProduct(v, a.transpose(), a, 1, /*lower_only=*/true);
  if (!Eigh(result.v, /*has_vectors=*/true, result.values, workspace)) return false;
  // Descending values: Jacobi's rotations converge faster.
  for (Index j = 0; 2 * j + 1 < n; ++j) v.col(j).swap(v.col(n - 1 - j));
  // `u` has room for [M, N].
  MatrixMap product(result.u.data, m, n);
  product.setZero();
  AddProduct(product, a, v, 1);
  a = product;
  MatrixMap none(nullptr, n, 0), vectors(v.data(), n, result.has_vectors ? n : 0);
  if (!Orthogonalize(a, vectors, values)) return false;
  for (Index j = 0; j < n; ++j) values[j] = a.col(j).norm();
  Sort(values, /*descending=*/true, a, vectors);
  if (result.has_vectors) {
    const bool all = Normalize(a, values);
    if (all && result.u.columns == n) {
      MapOf(result.u) = a;
    } else {
      Complete(a, MapOf(result.u), VectorMap(workspace, n), VectorMap(workspace + n + n % 2, m));
    }
  }
  Scale(values, -exponent);
  return true;
}

bool Qr(Matrix matrix, Matrix q, Workspace workspace) {
  MatrixMap a = MapOf(matrix);
  const Index m = a.rows(), n = a.cols();
  if (!a.allFinite()) return false;
  const Index stride = std::max(m, n) + std::max(m, n) % 2;
  VectorMap factors(workspace, std::min(m, n)), work(workspace + stride, std::max(m, n));
  // Squares of the elements of a column, which reflections need, neither overflow nor underflow after this.
  VectorMap exponents(workspace + 2 * stride, n);
  for (Index j = 0; j < n; ++j) {
    exponents[j] = m == 0 ? 0 : ExponentOf(a.col(j).cwiseAbs().maxCoeff());
    Scale(a.col(j), static_cast<int>(exponents[j]));
  }
  Reflect(a, factors, work);
  FormQ(a, factors, work, MapOf(q));
  for (Index j = 0; j < n; ++j) {
    if (j + 1 < m) a.col(j).tail(m - j - 1).setZero();
    Scale(a.col(j), -static_cast<int>(exponents[j]));
  }
  return true;
}

int64_t Lu(Matrix matrix, int32_t* pivots) {
  MatrixMap a = MapOf(matrix);
  const Index size = std::min(a.rows(), a.cols());
  int64_t info = 0;
  for (Index first = 0; first < size; first += kPanel) {
    const Index count = std::min(kPanel, size - first), next = first + count;
    const int64_t found = EliminatePanel(a, first, count, pivots);
    if (info == 0) info = found;
    const Index right = a.cols() - next, below = a.rows() - next;
    for (Index column = next; column < a.cols(); ++column) {
      auto b = a.col(column);
      for (Index k = first; k < next; ++k)
        b.segment(k + 1, next - k - 1) -= b[k] * a.col(k).segment(k + 1, next - k - 1);
    }
    AddProduct(a.bottomRightCorner(below, right), a.block(next, first, below, count),
               a.block(first, next, count, right), -1);
  }
  return info;
}

void SolveByLu(Matrix lu, const int32_t* pivots, Matrix b) {
  SwapRows(MapOf(b), pivots, /*reverse=*/false);
  SolveTriangle(lu, b, {.upper = false, .unit = true});
  SolveTriangle(lu, b, {.upper = true});
}

void SolveByTransposedLu(Matrix lu, const int32_t* pivots, Matrix b) {
  SolveTriangle(lu, b, {.upper = false});
  SolveTriangle(lu, b, {.upper = true, .unit = true});
  SwapRows(MapOf(b), pivots, /*reverse=*/true);
}

int64_t Cholesky(Matrix matrix) {
  MatrixMap a = MapOf(matrix);
  const Index n = a.rows();
  for (Index first = 0; first < n; first += kPanel) {
    const Index next = std::min(first + kPanel, n), below = n - next;
    for (Index k = first; k < next; ++k) {
      if (!(a(k, k) > 0)) return k + 1;
      a(k, k) = std::sqrt(a(k, k));
      a.col(k).tail(n - k - 1) /= a(k, k);
      for (Index j = k + 1; j < next; ++j) a.col(j).tail(n - j) -= a(j, k) * a.col(k).tail(n - j);
    }
    const auto panel = a.block(next, first, below, next - first);
    AddProduct(a.bottomRightCorner(below, below), panel, panel.transpose(), -1, /*lower_only=*/true);
  }
  return 0;
}

void SolveTriangle(Matrix matrix, Matrix right, Triangle triangle) {
  MatrixMap a = MapOf(matrix), b = MapOf(right);
  const Index n = a.rows();
  for (Index done = 0; done < n; done += kPanel) {
    const Index count = std::min(kPanel, n - done), rest = n - done - count;
    const Index first = triangle.upper ? rest : done, next = triangle.upper ? 0 : done + count;
    SolvePanel(a, b, first, count, triangle);
    AddProduct(b.middleRows(next, rest), a.block(next, first, rest, count), b.middleRows(first, count), -1);
  }
}

}  // namespace cotan::cpu::linear_algebra
