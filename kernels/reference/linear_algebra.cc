// SPDX-License-Identifier: Apache-2.0

// Decompositions by textbook algorithms in double: Jacobi's rotations, Householder's reflections, elimination.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::LinearAlgebra;
using serialization::Op;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr int kMaxSweeps = 60;

class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, double value = 0)
      : rows_(rows), columns_(columns), values_(static_cast<size_t>(rows * columns), value) {}

  static Matrix Identity(int64_t rows, int64_t columns) {
    Matrix identity(rows, columns);
    for (int64_t i = 0; i < std::min(rows, columns); ++i) identity(i, i) = 1;
    return identity;
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  double& operator()(int64_t i, int64_t j) { return values_[static_cast<size_t>(i * columns_ + j)]; }
  double operator()(int64_t i, int64_t j) const { return values_[static_cast<size_t>(i * columns_ + j)]; }

  Matrix Transposed() const {
    Matrix result(columns_, rows_);
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < columns_; ++j) result(j, i) = (*this)(i, j);
    }
    return result;
  }
  bool IsFinite() const {
    return std::all_of(values_.begin(), values_.end(), [](double value) { return std::isfinite(value); });
  }
  double LargestSize() const {
    double largest = 0;
    for (const double value : values_) largest = std::max(largest, std::abs(value));
    return largest;
  }
  void Scale(double factor) {
    for (double& value : values_) value *= factor;
  }
  void SwapRows(int64_t i, int64_t j) {
    for (int64_t c = 0; c < columns_; ++c) std::swap((*this)(i, c), (*this)(j, c));
  }
  // Returns the columns in another order.
  Matrix Columns(const std::vector<int64_t>& order) const {
    Matrix result(rows_, columns_);
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < columns_; ++j) result(i, j) = (*this)(i, order[static_cast<size_t>(j)]);
    }
    return result;
  }

 private:
  int64_t rows_;
  int64_t columns_;
  std::vector<double> values_;
};

using Vector = std::vector<double>;

// A rotation of two columns or rows.
struct Rotation {
  double cosine = 1;
  double sine = 0;
};

// Returns the rotation that makes `g` zero in [[a, g], [g, b]].
Rotation RotationOf(double a, double b, double g) {
  if (g == 0) return {};
  const double ratio = (b - a) / (2 * g);
  const double tangent = (ratio < 0 ? -1 : 1) / (std::abs(ratio) + std::hypot(ratio, 1));
  const double cosine = 1 / std::hypot(tangent, 1);
  return {cosine, tangent * cosine};
}

void RotateColumns(Matrix& a, int64_t p, int64_t q, const Rotation& r) {
  for (int64_t i = 0; i < a.rows(); ++i) {
    const double first = a(i, p), second = a(i, q);
    a(i, p) = r.cosine * first - r.sine * second;
    a(i, q) = r.sine * first + r.cosine * second;
  }
}

void RotateRows(Matrix& a, int64_t p, int64_t q, const Rotation& r) {
  for (int64_t j = 0; j < a.columns(); ++j) {
    const double first = a(p, j), second = a(q, j);
    a(p, j) = r.cosine * first - r.sine * second;
    a(q, j) = r.sine * first + r.cosine * second;
  }
}

// Returns the indexes of values in their order.
std::vector<int64_t> OrderOf(const Vector& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return descending ? x > y : x < y;
  });
  return order;
}

Vector Ordered(const Vector& values, const std::vector<int64_t>& order) {
  Vector result;
  for (const int64_t i : order) result.push_back(values[static_cast<size_t>(i)]);
  return result;
}

// Returns a power of two that brings the largest element near 1.
double ScaleOf(const Matrix& a) {
  const double largest = a.LargestSize();
  return largest == 0 ? 1 : std::ldexp(1.0, std::min(-std::ilogb(largest), 1000));
}

struct Eigen {
  Vector values;
  Matrix vectors;
};

// Jacobi's method on a symmetric matrix.
Eigen EigenOf(Matrix a) {
  const int64_t n = a.rows();
  if (!a.IsFinite()) return {Vector(static_cast<size_t>(n), kNan), Matrix(n, n, kNan)};
  const double scale = ScaleOf(a);
  a.Scale(scale);
  Matrix vectors = Matrix::Identity(n, n);
  bool is_done = false;
  for (int sweep = 0; sweep < kMaxSweeps && !is_done; ++sweep) {
    is_done = true;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) <= kEps * kEps) continue;
        is_done = false;
        const Rotation rotation = RotationOf(a(p, p), a(q, q), a(p, q));
        RotateColumns(a, p, q, rotation);
        RotateRows(a, p, q, rotation);
        a(p, q) = a(q, p) = 0;
        RotateColumns(vectors, p, q, rotation);
      }
    }
  }
  Vector values;
  for (int64_t i = 0; i < n; ++i) values.push_back(a(i, i) / scale);
  const std::vector<int64_t> order = OrderOf(values, false);
  return {Ordered(values, order), vectors.Columns(order)};
}

struct Qr {
  Matrix q, r;
};

// Adds - factor v v^T a to `a`.
void Reflect(const Vector& v, double factor, Matrix& a) {
  for (int64_t j = 0; j < a.columns(); ++j) {
    double product = 0;
    for (int64_t i = 0; i < a.rows(); ++i) product += v[static_cast<size_t>(i)] * a(i, j);
    for (int64_t i = 0; i < a.rows(); ++i) a(i, j) -= factor * product * v[static_cast<size_t>(i)];
  }
}

// Householder's reflections with LAPACK's choice of signs: a diagonal element of R has the sign opposite to that of the
// element that it replaces. Q has `kept` columns.
Qr QrOf(Matrix a, int64_t kept) {
  const int64_t m = a.rows(), n = a.columns();
  if (!a.IsFinite()) return {Matrix(m, kept, kNan), Matrix(kept, n, kNan)};
  const double scale = ScaleOf(a);
  a.Scale(scale);
  std::vector<std::pair<Vector, double>> reflections;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < m; ++i) below = std::hypot(below, a(i, k));
    if (below == 0) continue;
    const double length = std::hypot(a(k, k), below), target = a(k, k) < 0 ? length : -length;
    Vector v(static_cast<size_t>(m), 0);
    for (int64_t i = k + 1; i < m; ++i) v[static_cast<size_t>(i)] = a(i, k) / (a(k, k) - target);
    v[static_cast<size_t>(k)] = 1;
    const double factor = (target - a(k, k)) / target;
    Reflect(v, factor, a);
    for (int64_t i = k + 1; i < m; ++i) a(i, k) = 0;
    reflections.emplace_back(std::move(v), factor);
  }
  Matrix q = Matrix::Identity(m, kept), r(kept, n);
  for (size_t k = reflections.size(); k-- > 0;) Reflect(reflections[k].first, reflections[k].second, q);
  for (int64_t i = 0; i < kept; ++i) {
    for (int64_t j = i; j < n; ++j) r(i, j) = a(i, j) / scale;
  }
  return {std::move(q), std::move(r)};
}

struct Svd {
  Matrix u;  // [M, kept]
  Vector values;
  Matrix v;  // [N, N]
};

// Returns whether no two columns had to be rotated, after rotating all pairs to be orthogonal.
bool Orthogonalize(Matrix& a, Matrix& v) {
  const double tolerance = kEps * static_cast<double>(a.rows() + 10);
  bool is_done = true;
  for (int64_t p = 0; p < a.columns(); ++p) {
    for (int64_t q = p + 1; q < a.columns(); ++q) {
      double own = 0, other = 0, product = 0;
      for (int64_t i = 0; i < a.rows(); ++i) {
        own += a(i, p) * a(i, p);
        other += a(i, q) * a(i, q);
        product += a(i, p) * a(i, q);
      }
      if (std::abs(product) <= tolerance * std::sqrt(own) * std::sqrt(other)) continue;
      is_done = false;
      const Rotation rotation = RotationOf(own, other, product);
      RotateColumns(a, p, q, rotation);
      RotateColumns(v, p, q, rotation);
    }
  }
  return is_done;
}

// The one-sided method of Jacobi on a matrix with no more columns than rows. The left vectors are the orthogonal
// columns at length 1; QR completes them where a value is zero.
Svd TallSvdOf(Matrix a, int64_t kept) {
  const int64_t m = a.rows(), n = a.columns();
  const Svd none = {Matrix(m, kept, kNan), Vector(static_cast<size_t>(n), kNan), Matrix(n, n, kNan)};
  if (!a.IsFinite()) return none;
  const double scale = ScaleOf(a);
  a.Scale(scale);
  Matrix v = Matrix::Identity(n, n);
  int sweep = 0;
  while (!Orthogonalize(a, v)) {
    if (++sweep == kMaxSweeps) return none;
  }
  Vector lengths;
  for (int64_t j = 0; j < n; ++j) {
    double length = 0;
    for (int64_t i = 0; i < m; ++i) length = std::hypot(length, a(i, j));
    for (int64_t i = 0; i < m; ++i) a(i, j) = length == 0 ? 0 : a(i, j) / length;
    lengths.push_back(length / scale);
  }
  const std::vector<int64_t> order = OrderOf(lengths, true);
  Qr qr = QrOf(a.Columns(order), kept);
  for (int64_t j = 0; j < n; ++j) {
    if (qr.r(j, j) >= 0) continue;
    for (int64_t i = 0; i < m; ++i) qr.q(i, j) = -qr.q(i, j);
  }
  return {std::move(qr.q), Ordered(lengths, order), v.Columns(order)};
}

struct Lu {
  Matrix factors;
  std::vector<int64_t> pivots;  // from 0
  int64_t info = 0;
};

Lu LuOf(Matrix a) {
  Lu lu{std::move(a), {}, 0};
  Matrix& f = lu.factors;
  for (int64_t k = 0; k < std::min(f.rows(), f.columns()); ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < f.rows(); ++i) {
      if (std::abs(f(i, k)) > std::abs(f(pivot, k))) pivot = i;
    }
    lu.pivots.push_back(pivot);
    f.SwapRows(k, pivot);
    if (f(k, k) == 0) {
      if (lu.info == 0) lu.info = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < f.rows(); ++i) {
      f(i, k) /= f(k, k);
      for (int64_t j = k + 1; j < f.columns(); ++j) f(i, j) -= f(i, k) * f(k, j);
    }
  }
  return lu;
}

// Solves a x = b for a triangular matrix.
Matrix SolveTriangle(const Matrix& a, Matrix b, bool upper, bool unit) {
  const int64_t n = a.rows();
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = upper ? n - 1 - k : k;
    for (int64_t c = 0; c < b.columns(); ++c) {
      for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) b(i, c) -= a(i, j) * b(j, c);
      if (!unit) b(i, c) /= a(i, i);
    }
  }
  return b;
}

Matrix SolveByLu(const Matrix& lu, const std::vector<int64_t>& pivots, Matrix b, bool transpose) {
  const int64_t n = lu.rows();
  if (!transpose) {
    for (int64_t i = 0; i < n; ++i) b.SwapRows(i, pivots[static_cast<size_t>(i)]);
    return SolveTriangle(lu, SolveTriangle(lu, std::move(b), false, true), true, false);
  }
  const Matrix factors = lu.Transposed();
  b = SolveTriangle(factors, SolveTriangle(factors, std::move(b), false, false), true, true);
  for (int64_t i = n; i-- > 0;) b.SwapRows(i, pivots[static_cast<size_t>(i)]);
  return b;
}

struct Cholesky {
  Matrix lower;
  int64_t info = 0;
};

// Reads the lower triangle. The factor's is NaN if a pivot is not positive.
Cholesky CholeskyOf(const Matrix& a) {
  const int64_t n = a.rows();
  Cholesky result{Matrix(n, n), 0};
  Matrix& f = result.lower;
  for (int64_t j = 0; j < n && result.info == 0; ++j) {
    for (int64_t i = j; i < n; ++i) {
      double sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= f(i, k) * f(j, k);
      if (i == j && !(sum > 0)) result.info = j + 1;
      f(i, j) = i == j ? std::sqrt(sum) : sum / f(j, j);
    }
  }
  if (result.info == 0) return result;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) f(i, j) = kNan;
  }
  return result;
}

// The operands of one matrix of the batch.
class Item {
 public:
  Item(const Op& op, const Tensors& in, const Tensors& out, absl::Span<const int64_t> batch)
      : op_(op.linear_algebra()), in_(in), out_(out), batch_(batch.begin(), batch.end()) {}

  absl::Status Run() const {
    switch (op_.function()) {
      case LinearAlgebra::EIGH:
        return RunEigh();
      case LinearAlgebra::SVD:
        return RunSvd();
      case LinearAlgebra::QR:
        return RunQr();
      case LinearAlgebra::LU:
        return RunLu();
      case LinearAlgebra::LU_SOLVE:
        return RunLuSolve();
      case LinearAlgebra::CHOLESKY:
        return RunCholesky();
      default:
        return RunTriangularSolve();
    }
  }

 private:
  DimVector At(std::initializer_list<int64_t> index) const {
    DimVector at = batch_;
    at.insert(at.end(), index.begin(), index.end());
    return at;
  }
  int64_t Rows(const Tensor& tensor) const { return tensor.size(tensor.rank() - 2); }
  int64_t Columns(const Tensor& tensor) const { return tensor.size(tensor.rank() - 1); }

  Matrix Read(const Tensor& tensor) const {
    Matrix matrix(Rows(tensor), Columns(tensor));
    for (int64_t i = 0; i < matrix.rows(); ++i) {
      for (int64_t j = 0; j < matrix.columns(); ++j) matrix(i, j) = tensor.GetFloat(At({i, j}));
    }
    return matrix;
  }
  // Returns the symmetric matrix of the triangle that the op reads.
  Matrix ReadSymmetric(const Tensor& tensor) const {
    Matrix matrix = Read(tensor);
    for (int64_t i = 0; i < matrix.rows(); ++i) {
      for (int64_t j = 0; j < i; ++j) {
        const double element = op_.upper() ? matrix(j, i) : matrix(i, j);
        matrix(i, j) = matrix(j, i) = element;
      }
    }
    return matrix;
  }
  void Write(const Tensor& tensor, const Matrix& matrix) const {
    for (int64_t i = 0; i < matrix.rows(); ++i) {
      for (int64_t j = 0; j < matrix.columns(); ++j) tensor.SetFloat(At({i, j}), matrix(i, j));
    }
  }
  void Write(const Tensor& tensor, const Vector& values) const {
    for (size_t i = 0; i < values.size(); ++i) tensor.SetFloat(At({static_cast<int64_t>(i)}), values[i]);
  }
  void WriteInfo(const Tensor& tensor, int64_t info) const { tensor.Set(batch_, {0, info}); }

  absl::Status RunEigh() const {
    const Eigen eigen = EigenOf(ReadSymmetric(in_[0]));
    Write(out_[0], eigen.values);
    if (out_.size() > 1) Write(out_[1], eigen.vectors);
    return absl::OkStatus();
  }

  absl::Status RunSvd() const {
    Matrix a = Read(in_[0]);
    const bool is_wide = a.columns() > a.rows();
    if (is_wide) a = a.Transposed();
    const int64_t kept = op_.full_matrices() ? a.rows() : a.columns();
    const Svd svd = TallSvdOf(std::move(a), kept);
    Write(out_[0], svd.values);
    if (out_.size() == 1) return absl::OkStatus();
    Write(out_[1], is_wide ? svd.v : svd.u);
    Write(out_[2], (is_wide ? svd.u : svd.v).Transposed());
    return absl::OkStatus();
  }

  absl::Status RunQr() const {
    const Qr qr = QrOf(Read(in_[0]), Columns(out_[0]));
    Write(out_[0], qr.q);
    Write(out_[1], qr.r);
    return absl::OkStatus();
  }

  absl::Status RunLu() const {
    const Lu lu = LuOf(Read(in_[0]));
    Write(out_[0], lu.factors);
    for (size_t i = 0; i < lu.pivots.size(); ++i) out_[1].Set(At({static_cast<int64_t>(i)}), {0, lu.pivots[i] + 1});
    WriteInfo(out_[2], lu.info);
    return absl::OkStatus();
  }

  absl::Status RunLuSolve() const {
    const int64_t n = Rows(in_[0]);
    std::vector<int64_t> pivots;
    for (int64_t i = 0; i < n; ++i) {
      pivots.push_back(in_[1].Get(At({i})).i - 1);
      if (pivots.back() >= 0 && pivots.back() < n) continue;
      return absl::InvalidArgumentError(absl::StrCat("pivot ", pivots.back() + 1, " is out of range [1, ", n, "]"));
    }
    Write(out_[0], SolveByLu(Read(in_[0]), pivots, Read(in_[2]), op_.transpose()));
    return absl::OkStatus();
  }

  absl::Status RunCholesky() const {
    const Cholesky cholesky = CholeskyOf(ReadSymmetric(in_[0]));
    Write(out_[0], op_.upper() ? cholesky.lower.Transposed() : cholesky.lower);
    WriteInfo(out_[1], cholesky.info);
    return absl::OkStatus();
  }

  absl::Status RunTriangularSolve() const {
    const Matrix a = op_.transpose() ? Read(in_[0]).Transposed() : Read(in_[0]);
    Write(out_[0], SolveTriangle(a, Read(in_[1]), op_.upper() != op_.transpose(), op_.unit_diagonal()));
    return absl::OkStatus();
  }

  const LinearAlgebra& op_;
  const Tensors& in_;
  const Tensors& out_;
  const DimVector batch_;
};

absl::Status RunLinearAlgebra(const Op& op, const Tensors& in, const Tensors& out) {
  absl::Status status;
  const DimVector batch(in[0].sizes().begin(), in[0].sizes().end() - 2);
  ForEachIndex(batch, [&](absl::Span<const int64_t> index) { status.Update(Item(op, in, out, index).Run()); });
  return status;
}

}  // namespace

KernelOr MakeLinearAlgebra(const KernelRequest& request) { return MakeFunctionKernel(request, RunLinearAlgebra); }

}  // namespace cotan::reference
