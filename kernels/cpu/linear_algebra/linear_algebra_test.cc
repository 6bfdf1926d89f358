// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/linear_algebra/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using serialization::LinearAlgebra;
using serialization::Op;
using testing::DenseLayout;
using ::testing::Each;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;
using Values = std::vector<double>;

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64, kI32 = DType::kInt32;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Op OpOf(LinearAlgebra::Function function, bool upper = false, bool full = false) {
  Op op;
  op.mutable_linear_algebra()->set_function(function);
  op.mutable_linear_algebra()->set_upper(upper);
  op.mutable_linear_algebra()->set_full_matrices(full);
  return op;
}

// A matrix in row-major order.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  Values values;

  Matrix(int64_t m, int64_t n, Values content = {}) : rows(m), columns(n), values(std::move(content)) {
    values.resize(static_cast<size_t>(m * n));
  }
  double& At(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double At(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

Matrix Transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) result.At(j, i) = a.At(i, j);
  }
  return result;
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t j = 0; j < b.columns; ++j) result.At(i, j) += a.At(i, k) * b.At(k, j);
    }
  }
  return result;
}

Matrix Identity(int64_t n) {
  Matrix result(n, n);
  for (int64_t i = 0; i < n; ++i) result.At(i, i) = 1;
  return result;
}

Matrix Diagonal(const Values& values) {
  Matrix result = Identity(static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) result.At(static_cast<int64_t>(i), static_cast<int64_t>(i)) = values[i];
  return result;
}

// Returns the largest difference, relative to eps of the dtype and the largest element of `b`.
double Units(const Matrix& a, const Matrix& b, DType dtype = kF64) {
  double largest = 0, difference = 0;
  for (size_t i = 0; i < b.values.size(); ++i) {
    largest = std::max(largest, std::abs(b.values[i]));
    difference = std::max(difference, std::abs(a.values[i] - b.values[i]));
    if (std::isnan(a.values[i]) != std::isnan(b.values[i])) return kInfinity;
  }
  const double eps = dtype == kF32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  return largest == 0 ? (difference == 0 ? 0 : kInfinity) : difference / (eps * largest);
}

Matrix Random(int64_t m, int64_t n, std::mt19937_64& random) {
  Matrix result(m, n);
  std::normal_distribution<double> normal;
  for (double& value : result.values) value = normal(random);
  return result;
}

HostTensor TensorOf(const Matrix& a, DType dtype = kF64) { return HostTensor(dtype, {a.rows, a.columns}, a.values); }
Matrix MatrixOf(const HostTensor& a) { return {a.layout().sizes[0], a.layout().sizes[1], a.Values()}; }

struct Named {
  std::string name;
  Matrix matrix;
};

// Returns square, tall and wide matrices, of which some are rank-deficient, graded, very large or very small.
std::vector<Named> Matrices(std::mt19937_64& random) {
  std::vector<Named> cases = {{"zeros", Matrix(40, 40)}, {"identity", Identity(35)}, {"number", Matrix(1, 1, {-3})}};
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 2}, {5, 3}, {3, 5}, {33, 33}, {64, 64}, {100, 100}, {90, 40}, {40, 90}, {1, 50}, {50, 1}, {129, 130}}) {
    cases.push_back({absl::StrCat(m, " x ", n), Random(m, n, random)});
  }
  cases.push_back({"ones", Matrix(40, 40, Values(1600, 1))});
  cases.push_back({"rank 3", Product(Random(50, 3, random), Random(3, 45, random))});
  for (const double scale : {1e-300, 1e-30, 1e30, 1e300}) {
    Matrix scaled = Random(40, 36, random);
    for (double& value : scaled.values) value *= scale;
    cases.push_back({absl::StrCat("times ", scale), scaled});
  }
  Matrix graded = Random(60, 60, random);
  for (int64_t i = 0; i < 60; ++i) {
    for (int64_t j = 0; j < 60; ++j) graded.At(i, j) *= std::pow(10, -0.3 * static_cast<double>(j));
  }
  cases.push_back({"graded", graded});
  Matrix zero_column = Random(38, 37, random);
  for (int64_t i = 0; i < 38; ++i) zero_column.At(i, 11) = 0;
  cases.push_back({"a column of zeros", zero_column});
  return cases;
}

class LinearAlgebraTest : public ::testing::Test {
 protected:
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(LinearAlgebraTest, EighSolvesTheEigenvalueEquation) {
  for (const auto& [name, a] : Matrices(random_)) {
    if (a.rows != a.columns) continue;
    SCOPED_TRACE(name);
    Matrix symmetric = a;
    const Matrix transposed = Transposed(a);
    for (size_t i = 0; i < a.values.size(); ++i) symmetric.values[i] += transposed.values[i];
    for (const bool upper : {false, true}) {
      Matrix given = symmetric;  // what is not read is NaN
      for (int64_t i = 0; i < a.rows; ++i) {
        for (int64_t j = 0; j < i; ++j) (upper ? given.At(i, j) : given.At(j, i)) = kNan;
      }
      HostTensor x = TensorOf(given), values(kF64, {a.rows}), vectors(kF64, {a.rows, a.rows}), alone(kF64, {a.rows});
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::EIGH, upper), {&x}, {&values, &vectors}).ok());
      const Matrix v = MatrixOf(vectors);
      EXPECT_LE(Units(Product(Transposed(v), v), Identity(a.rows)), testing::kMatmul);
      EXPECT_LE(Units(Product(Product(v, Diagonal(values.Values())), Transposed(v)), symmetric), testing::kMatmul);
      const Values sorted = values.Values();
      EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::EIGH, upper), {&x}, {&alone}).ok());
      EXPECT_EQ(alone.Values(), sorted);
    }
  }
}

TEST_F(LinearAlgebraTest, SingularVectorsRestoreTheMatrix) {
  for (const auto& [name, a] : Matrices(random_)) {
    SCOPED_TRACE(name);
    const int64_t k = std::min(a.rows, a.columns);
    for (const bool full : {false, true}) {
      const int64_t left = full ? a.rows : k, right = full ? a.columns : k;
      HostTensor x = TensorOf(a), s(kF64, {k}), u(kF64, {a.rows, left}), vh(kF64, {right, a.columns}), alone(kF64, {k});
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::SVD, false, full), {&x}, {&s, &u, &vh}).ok());
      EXPECT_LE(Units(Product(Transposed(MatrixOf(u)), MatrixOf(u)), Identity(left)), testing::kMatmul);
      EXPECT_LE(Units(Product(MatrixOf(vh), Transposed(MatrixOf(vh))), Identity(right)), testing::kMatmul);
      Matrix values(left, right);
      for (int64_t i = 0; i < k; ++i) values.At(i, i) = s.Values()[static_cast<size_t>(i)];
      EXPECT_LE(Units(Product(Product(MatrixOf(u), values), MatrixOf(vh)), a), testing::kMatmul);
      const Values sorted = s.Values();
      EXPECT_TRUE(std::is_sorted(sorted.rbegin(), sorted.rend()));
      EXPECT_GE(sorted.back(), 0);
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::SVD), {&x}, {&alone}).ok());
      EXPECT_EQ(alone.Values(), sorted);
    }
  }
}

TEST_F(LinearAlgebraTest, QrHasOrthonormalColumnsAndATriangle) {
  for (const auto& [name, a] : Matrices(random_)) {
    SCOPED_TRACE(name);
    for (const bool full : {false, true}) {
      const int64_t kept = full ? a.rows : std::min(a.rows, a.columns);
      HostTensor x = TensorOf(a), q(kF64, {a.rows, kept}), r(kF64, {kept, a.columns});
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::QR, false, full), {&x}, {&q, &r}).ok());
      EXPECT_LE(Units(Product(Transposed(MatrixOf(q)), MatrixOf(q)), Identity(kept)), testing::kMatmul);
      EXPECT_LE(Units(Product(MatrixOf(q), MatrixOf(r)), a), testing::kMatmul);
      const Matrix triangle = MatrixOf(r);
      for (int64_t i = 0; i < kept; ++i) {
        for (int64_t j = 0; j < std::min(i, a.columns); ++j) EXPECT_EQ(triangle.At(i, j), 0);
      }
    }
  }
}

TEST_F(LinearAlgebraTest, LuRestoresTheMatrixAndSolves) {
  for (const auto& [name, a] : Matrices(random_)) {
    SCOPED_TRACE(name);
    const int64_t k = std::min(a.rows, a.columns);
    HostTensor x = TensorOf(a), lu(kF64, {a.rows, a.columns}), pivots(kI32, {k}), info(kI32, DimVector{});
    ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::LU), {&x}, {&lu, &pivots, &info}).ok());
    Matrix lower(a.rows, k), upper(k, a.columns);
    const Matrix factors = MatrixOf(lu);
    for (int64_t i = 0; i < a.rows; ++i) {
      for (int64_t j = 0; j < k; ++j) lower.At(i, j) = i > j ? factors.At(i, j) : i == j ? 1 : 0;
      for (int64_t j = i; i < k && j < a.columns; ++j) upper.At(i, j) = factors.At(i, j);
    }
    Matrix product = Product(lower, upper);
    for (int64_t i = k; i-- > 0;) {
      const auto other = static_cast<int64_t>(pivots.Values()[static_cast<size_t>(i)]) - 1;
      for (int64_t j = 0; j < a.columns; ++j) std::swap(product.At(i, j), product.At(other, j));
    }
    EXPECT_LE(Units(product, a), testing::kMatmul);
    if (a.rows != a.columns || info.Values()[0] != 0 || name == "graded") continue;
    Matrix solution = Random(a.rows, 70, random_);
    for (const bool transpose : {false, true}) {
      HostTensor b = TensorOf(Product(transpose ? Transposed(a) : a, solution)), found(kF64, {a.rows, 70});
      Op solve = OpOf(LinearAlgebra::LU_SOLVE);
      solve.mutable_linear_algebra()->set_transpose(transpose);
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, solve, {&lu, &pivots, &b}, {&found}).ok());
      const Matrix restored = Product(transpose ? Transposed(a) : a, MatrixOf(found));
      EXPECT_LE(Units(restored, MatrixOf(b)), testing::kModelGradient);
    }
  }
}

TEST_F(LinearAlgebraTest, NanBelowAZeroPivotReachesTheDiagonal) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  HostTensor x(kF64, {2, 2}, {0, 1, nan, 1}), lu(kF64, {2, 2}), pivots(kI32, {2}), info(kI32, DimVector{});
  ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::LU), {&x}, {&lu, &pivots, &info}).ok());
  EXPECT_TRUE(std::isnan(lu.Values()[0]));
}

TEST_F(LinearAlgebraTest, AZeroPivotIsTheInfo) {
  HostTensor x(kF64, {3, 3}, {1, 2, 3, 2, 4, 6, 1, 1, 1}), lu(kF64, {3, 3}), pivots(kI32, {3}), info(kI32, DimVector{});
  ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::LU), {&x}, {&lu, &pivots, &info}).ok());
  EXPECT_EQ(info.Values(), Values{3});
  Matrix zero_column = Random(50, 50, random_);
  for (int64_t i = 0; i < 50; ++i) zero_column.At(i, 39) = zero_column.At(i, 44) = 0;
  HostTensor a = TensorOf(zero_column), large(kF64, {50, 50}), swaps(kI32, {50});
  ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::LU), {&a}, {&large, &swaps, &info}).ok());
  EXPECT_EQ(info.Values(), Values{40});
}

TEST_F(LinearAlgebraTest, CholeskyRestoresTheMatrixOrNamesThePivot) {
  for (const int64_t n : {1, 5, 33, 100, 200}) {
    const Matrix root = Random(n, n + 5, random_);
    Matrix a = Product(root, Transposed(root));
    for (const bool upper : {false, true}) {
      const Op op = OpOf(LinearAlgebra::CHOLESKY, upper);
      HostTensor x = TensorOf(a), factor(kF64, {n, n}), info(kI32, DimVector{});
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, op, {&x}, {&factor, &info}).ok());
      const Matrix f = upper ? Transposed(MatrixOf(factor)) : MatrixOf(factor);
      EXPECT_EQ(info.Values(), Values{0});
      EXPECT_LE(Units(Product(f, Transposed(f)), a), testing::kMatmul);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j) EXPECT_EQ(f.At(i, j), 0);
      }
      Matrix indefinite = a;
      indefinite.At(n - 1, n - 1) = -1;
      HostTensor y = TensorOf(indefinite);
      ASSERT_TRUE(RunOp(MakeLinearAlgebra, op, {&y}, {&factor, &info}).ok());
      EXPECT_EQ(info.Values(), Values{static_cast<double>(n)});
      EXPECT_TRUE(std::isnan(factor.Values().back()));
    }
  }
}

// Returns the operands' sizes after the batch of a random case; the last one or more are outputs.
struct Case {
  Op op;
  std::vector<DimVector> inputs, outputs;
};

Case RandomCase(std::mt19937_64& random) {
  const auto size = [&] { return static_cast<int64_t>(random() % 3 == 0 ? random() % 70 : random() % 12); };
  const int64_t n = size(), m = size(), columns = size(), k = std::min(m, n);
  const auto function = static_cast<LinearAlgebra::Function>(1 + random() % 7);
  Case c{OpOf(function, random() % 2 == 0, random() % 2 == 0), {}, {}};
  c.op.mutable_linear_algebra()->set_transpose(random() % 2 == 0);
  c.op.mutable_linear_algebra()->set_unit_diagonal(random() % 2 == 0);
  const bool full = c.op.linear_algebra().full_matrices();
  switch (function) {
    case LinearAlgebra::EIGH:
      return {c.op, {{n, n}}, {{n}}};
    case LinearAlgebra::SVD:
      return {c.op, {{m, n}}, {{k}}};
    case LinearAlgebra::QR:
      return {c.op, {{m, n}}, {{m, full ? m : k}, {full ? m : k, n}}};
    case LinearAlgebra::LU:
      return {c.op, {{m, n}}, {{m, n}, {k}, {}}};
    case LinearAlgebra::LU_SOLVE:
      return {c.op, {{n, n}, {n}, {n, columns}}, {{n, columns}}};
    case LinearAlgebra::CHOLESKY:
      return {c.op, {{n, n}}, {{n, n}, {}}};
    default:
      return {c.op, {{n, n}, {n, columns}}, {{n, columns}}};
  }
}

DimVector InBatch(const DimVector& batch, const DimVector& sizes) {
  DimVector result = batch;
  result.insert(result.end(), sizes.begin(), sizes.end());
  return result;
}

// Adds to the diagonals of all matrices, which makes them well-conditioned and positive definite.
void AddToDiagonals(HostTensor& x, double number) {
  const DimVector& sizes = x.layout().sizes;
  const int64_t m = sizes[sizes.size() - 2], n = sizes.back();
  Values values = x.Values();
  for (int64_t start = 0; start < static_cast<int64_t>(values.size()); start += m * n) {
    for (int64_t i = 0; i < std::min(m, n); ++i) values[static_cast<size_t>(start + i * n + i)] += number;
  }
  x.SetValues(values);
}

TEST_F(LinearAlgebraTest, AgreesWithTheReferenceForAllFunctionsLayoutsAndBatches) {
  for (int round = 0; round < 400; ++round) {
    const Case c = RandomCase(random_);
    const DType dtype = random_() % 2 == 0 ? kF32 : kF64;
    DimVector batch(random_() % 3);
    for (int64_t& size : batch) size = static_cast<int64_t>(random_() % 4);
    SCOPED_TRACE(absl::StrCat("round ", round, ", ", c.op.linear_algebra().DebugString(), DTypeName(dtype)));
    std::vector<HostTensor> inputs, outputs, expected;
    for (const DimVector& sizes : c.inputs) {
      const bool is_matrix = sizes.size() == 2;
      const StridedLayout layout = RandomLayout(InBatch(batch, sizes), random_, true, false);
      const double rows = static_cast<double>(sizes[0]);
      inputs.push_back(is_matrix ? RandomTensor(dtype, layout, random_)
                                 : RandomTensor(kI32, layout, random_, 1, rows + 0.9));
    }
    AddToDiagonals(inputs[0], static_cast<double>(c.inputs[0][0]));
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const DType type = c.op.linear_algebra().function() != LinearAlgebra::QR && i > 0 ? kI32 : dtype;
      outputs.emplace_back(type, RandomLayout(InBatch(batch, c.outputs[i]), random_, true, false));
      expected.emplace_back(type, InBatch(batch, c.outputs[i]));
    }
    std::vector<HostTensor*> in, out, reference;
    for (HostTensor& tensor : inputs) in.push_back(&tensor);
    for (HostTensor& tensor : outputs) out.push_back(&tensor);
    for (HostTensor& tensor : expected) reference.push_back(&tensor);
    const absl::Status status = RunOp(MakeLinearAlgebra, c.op, in, out, 1 + static_cast<int>(random_() % 3));
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(RunOp(reference::MakeLinearAlgebra, c.op, in, reference).ok());
    for (size_t i = 0; i < outputs.size(); ++i) {
      // A solve is a chain of two products with factors.
      EXPECT_LE(ErrorInUnits(outputs[i], expected[i].Values()), 2 * testing::kMatmul) << "output " << i;
      EXPECT_TRUE(GapsAreUntouched(outputs[i]));
    }
  }
}

TEST_F(LinearAlgebraTest, ResultsDoNotDependOnTheNumberOfThreads) {
  HostTensor x = RandomTensor(kF32, DenseLayout({7, 41, 39}), random_);
  const Op op = OpOf(LinearAlgebra::SVD);
  std::vector<Values> results;
  for (const int threads : {1, 2, 3}) {
    HostTensor s(kF32, {7, 39}), u(kF32, {7, 41, 39}), vh(kF32, {7, 39, 39});
    ASSERT_TRUE(RunOp(MakeLinearAlgebra, op, {&x}, {&s, &u, &vh}, threads).ok());
    results.push_back(u.Values());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(LinearAlgebraTest, MatricesThatAreNotFiniteGiveNan) {
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    Matrix a = Random(40, 40, random_);
    a.At(20, 3) = bad;
    HostTensor x = TensorOf(a), vector(kF64, {40}), first(kF64, {40, 40}), second(kF64, {40, 40});
    ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::EIGH), {&x}, {&vector, &first}).ok());
    EXPECT_THAT(vector.Values(), Each(::testing::IsNan()));
    EXPECT_THAT(first.Values(), Each(::testing::IsNan()));
    ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::SVD), {&x}, {&vector, &first, &second}).ok());
    EXPECT_THAT(vector.Values(), Each(::testing::IsNan()));
    EXPECT_THAT(second.Values(), Each(::testing::IsNan()));
    ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::QR), {&x}, {&first, &second}).ok());
    EXPECT_THAT(first.Values(), Each(::testing::IsNan()));
    HostTensor pivots(kI32, {40}), info(kI32, DimVector{}), b = TensorOf(Random(40, 2, random_)), y(kF64, {40, 2});
    ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::LU), {&x}, {&first, &pivots, &info}).ok());
    ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::LU_SOLVE), {&first, &pivots, &b}, {&y}).ok());
    // A number divided by an infinite pivot is 0, as in LAPACK.
    if (std::isnan(bad)) {
      EXPECT_TRUE(std::isnan(y.Values()[0]));
    }
  }
}

TEST_F(LinearAlgebraTest, MatricesWithoutElementsHaveIdentitiesAsVectors) {
  HostTensor tall(kF64, {3, 0}), wide(kF64, {0, 2}), s(kF64, {0}), u(kF64, {3, 3}), nothing(kF64, {0, 0});
  const Op full = OpOf(LinearAlgebra::SVD, false, true);
  ASSERT_TRUE(RunOp(MakeLinearAlgebra, full, {&tall}, {&s, &u, &nothing}).ok());
  EXPECT_EQ(u.Values(), Identity(3).values);
  HostTensor vh(kF64, {2, 2});
  ASSERT_TRUE(RunOp(MakeLinearAlgebra, full, {&wide}, {&s, &nothing, &vh}).ok());
  EXPECT_EQ(vh.Values(), Identity(2).values);
  HostTensor r(kF64, {3, 0});
  ASSERT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::QR, false, true), {&tall}, {&u, &r}).ok());
  EXPECT_EQ(u.Values(), Identity(3).values);
  HostTensor batch(kF64, {0, 5, 5}), values(kF64, {0, 5});
  EXPECT_TRUE(RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::EIGH), {&batch}, {&values}, 2).ok());
}

TEST_F(LinearAlgebraTest, PivotsOutOfRangeAreRefused) {
  HostTensor lu = TensorOf(Identity(3)), b = TensorOf(Identity(3)), x(kF64, {3, 3});
  for (const double bad : {0., 4., -1.}) {
    HostTensor pivots(kI32, {3}, {1, bad, 3});
    const absl::Status status = RunOp(MakeLinearAlgebra, OpOf(LinearAlgebra::LU_SOLVE), {&lu, &pivots, &b}, {&x});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), ::testing::HasSubstr(absl::StrCat("pivot 1 is ", bad)));
  }
}

}  // namespace
}  // namespace cotan::cpu
