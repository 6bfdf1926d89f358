// SPDX-License-Identifier: Apache-2.0

// Compares decompositions of matrices of more than 32 rows or columns, and solves with them, with LibTorch eager, in
// results and gradients. Functions of vectors do not depend on their signs, which are not those of LAPACK.
#include <ATen/ATen.h>

#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kSeed = 2027;

at::Tensor Random(std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble); }

// Returns matrices whose condition numbers are small.
at::Tensor Regular(std::vector<int64_t> sizes) {
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  return at::eye(rows, columns, at::kDouble).flip({-2}) + Random(std::move(sizes)) / (2.0 * static_cast<double>(rows));
}

// Returns a symmetric matrix with eigenvalues 1, 2, ..., so that gradients of vectors are small.
at::Tensor Spread(int64_t rows) {
  const at::Tensor vectors = std::get<0>(at::linalg_qr(Random({rows, rows})));
  return (vectors * at::arange(1, rows + 1, at::kDouble)).matmul(vectors.mT());
}

void Compare(const std::string& name, const aot::TensorFunction& function, const Tensors& inputs,
             bool has_gradient = true, double tolerance = kModelState) {
  SCOPED_TRACE(name);
  const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.tolerance = tolerance});
  EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
  if (!has_gradient) return;
  EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
}

class LargeMatrixTest : public ::testing::Test {
 protected:
  LargeMatrixTest() {
    at::manual_seed(kSeed);
    RecordProperty("seed", static_cast<int>(kSeed));
  }
};

TEST_F(LargeMatrixTest, ValuesAreThoseOfLapack) {
  const auto eigenvalues = [](const Tensors& in) -> Tensors { return {at::linalg_eigvalsh(in[0])}; };
  const auto values = [](const Tensors& in) -> Tensors { return {at::linalg_svdvals(in[0])}; };
  for (const int64_t n : {33, 64, 257}) {
    Compare("eigenvalues of " + std::to_string(n), eigenvalues, {Spread(n)});
    Compare("singular values of " + std::to_string(n), values, {Random({n, n})});
  }
  Compare("tall matrices", values, {Random({2, 100, 3})});
  Compare("wide, single precision", values, {Random({5, 64}).to(at::kFloat)});
  Compare("equal eigenvalues", eigenvalues, {at::eye(40, at::kDouble)}, false);
  Compare("rank 2", values, {Random({50, 2}).matmul(Random({2, 40}))}, false);
  Compare("zeros", values, {at::zeros({40, 35}, at::kDouble)}, false);
  Compare("large values", values, {Random({40, 40}) * 1e100}, false);
}

TEST_F(LargeMatrixTest, SymmetricMatricesAreFunctionsOfTheirEigenvalues) {
  const auto exponential = [](const Tensors& in) -> Tensors {
    const auto [values, vectors] = at::linalg_eigh(in[0]);
    return {(vectors * (-values).exp().unsqueeze(-2)).matmul(vectors.mT()), vectors.matmul(vectors.mT())};
  };
  const auto upper = [](const Tensors& in) -> Tensors {
    const auto [values, vectors] = at::linalg_eigh(in[0], "U");
    return {(vectors * values.rsqrt().unsqueeze(-2)).matmul(vectors.mT())};
  };
  Compare("exponential", exponential, {Spread(40)});
  Compare("inverse root of a batch", upper, {at::stack({Spread(35), Spread(35)})});
  Compare("single precision", upper, {Spread(64).to(at::kFloat)});
}

TEST_F(LargeMatrixTest, SingularVectorsRestoreTheMatrix) {
  for (const bool full : {false, true}) {
    const auto restored = [full](const Tensors& in) -> Tensors {
      const auto [u, s, vh] = at::linalg_svd(in[0], full);
      const int64_t kept = s.size(-1);
      return {(u.narrow(-1, 0, kept) * s.unsqueeze(-2)).matmul(vh.narrow(-2, 0, kept)), u.matmul(u.mT()),
              vh.mT().matmul(vh)};
    };
    // LibTorch has no gradient of additional vectors.
    Compare("square", restored, {Random({2, 34, 34})}, !full, kModelDrift);
    Compare("tall", restored, {Random({60, 20})}, !full);
    Compare("wide", restored, {Random({3, 50})}, !full);
    Compare("ones", restored, {at::ones({40, 40}, at::kDouble)}, false);
    Compare("without columns", restored, {at::zeros({40, 0}, at::kDouble)}, false);
  }
}

TEST_F(LargeMatrixTest, PseudoInversesNormsAndRanks) {
  const auto inverse = [](const Tensors& in) -> Tensors { return {at::linalg_pinv(in[0])}; };
  const auto hermitian = [](const Tensors& in) -> Tensors {
    return {at::linalg_pinv((in[0] + in[0].mT()) / 2, 1e-10, /*hermitian=*/true)};
  };
  const auto rank = [](const Tensors& in) -> Tensors { return {at::linalg_matrix_rank(in[0])}; };
  const auto norms = [](const Tensors& in) -> Tensors {
    return {at::linalg_matrix_norm(in[0], "nuc"), at::linalg_matrix_norm(in[0], 2), at::linalg_cond(in[0])};
  };
  Compare("a tall inverse", inverse, {Random({2, 60, 34})});
  Compare("a wide inverse, single precision", inverse, {Random({20, 64}).to(at::kFloat)});
  Compare("a hermitian inverse", hermitian, {Spread(40)});
  const at::Tensor deficient = Random({50, 7}).matmul(Random({7, 40}));
  Compare("an inverse of rank 7", inverse, {deficient}, false);
  Compare("ranks", rank, {at::stack({deficient, Random({50, 40}), at::zeros({50, 40}, at::kDouble)})}, false);
  const auto least_squares = [](const Tensors& in) -> Tensors {
    const auto [x, residuals, rank, values] = at::linalg_lstsq(in[0], in[1]);
    return {x, rank};
  };
  Compare("least squares", least_squares, {Random({60, 34}), Random({60, 3})});
  Compare("least squares of least norm", least_squares,
          {Random({20, 50}).to(at::kFloat), Random({20, 3}).to(at::kFloat)});
  Compare("norms", norms, {Regular({40, 40})}, true, kModelGradient);
}

TEST_F(LargeMatrixTest, Solves) {
  const auto solve = [](const Tensors& in) -> Tensors { return {at::linalg_solve(in[0], in[1])}; };
  const auto from_right = [](const Tensors& in) -> Tensors { return {at::linalg_solve(in[0], in[1], /*left=*/false)}; };
  const auto inverse = [](const Tensors& in) -> Tensors { return {at::linalg_inv(in[0])}; };
  const auto determinants = [](const Tensors& in) -> Tensors {
    const auto [sign, logarithm] = at::linalg_slogdet(in[0]);
    return {at::linalg_det(in[0]), sign, logarithm};
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    Compare("a solve", solve, {Regular({64, 64}).to(dtype), Random({64, 3}).to(dtype)});
    Compare("a batch of vectors", solve, {Regular({3, 33, 33}).to(dtype), Random({3, 33}).to(dtype)});
    Compare("one right side for a batch", solve, {Regular({3, 40, 40}).to(dtype), Random({40, 2}).to(dtype)});
    Compare("from the right", from_right, {Regular({40, 40}).to(dtype), Random({2, 40}).to(dtype)});
    Compare("an inverse", inverse, {Regular({2, 100, 100}).to(dtype)});
    Compare("determinants", determinants, {Regular({2, 40, 40}).to(dtype)});
  }
}

TEST_F(LargeMatrixTest, FactorsSolveAndUnpack) {
  const auto by_factors = [](const Tensors& in) -> Tensors {
    const auto [factors, pivots] = at::linalg_lu_factor(in[0]);
    return {at::linalg_lu_solve(factors, pivots, in[1]), pivots};
  };
  const auto unpacked = [](const Tensors& in) -> Tensors {
    const auto [permutation, lower, upper] = at::linalg_lu(in[0]);
    return {permutation, lower, upper, permutation.matmul(lower).matmul(upper)};
  };
  Compare("LU", by_factors, {Regular({2, 40, 40}), Random({2, 40, 3})});
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{64, 64}, {50, 34}, {34, 50}, {2, 40, 3}, {3, 40}}) {
    Compare("P, L and U of " + std::to_string(sizes[0]) + " rows", unpacked, {Regular(sizes)});
  }
  const auto triangular = [](const Tensors& in) -> Tensors {
    return {at::linalg_solve_triangular(in[0].triu() + at::eye(in[0].size(-1), at::kDouble) * 3, in[1], true)};
  };
  Compare("a triangle", triangular, {Regular({40, 40}).flip({-2}), Random({40, 2})});
  const auto cholesky = [](const Tensors& in) -> Tensors {
    const at::Tensor positive = in[0].matmul(in[0].mT()) + at::eye(in[0].size(-2), at::kDouble);
    const at::Tensor lower = at::linalg_cholesky(positive);
    return {lower, at::linalg_cholesky(positive, /*upper=*/true), at::cholesky_solve(in[1], lower),
            at::cholesky_inverse(lower)};
  };
  Compare("Cholesky", cholesky, {Regular({40, 50}), Random({40, 3})});
  const auto qr = [](const Tensors& in) -> Tensors {
    const auto [q, r] = at::linalg_qr(in[0]);
    return {q, r, q.matmul(r)};
  };
  Compare("QR of a square", qr, {Regular({2, 40, 40})});
  Compare("QR of a tall matrix", qr, {Random({64, 20})});
  Compare("QR of a wide matrix", qr, {Random({20, 64})});
}

TEST_F(LargeMatrixTest, ASingularMatrixEndsTheCall) {
  const auto inverse = [](const Tensors& in) -> Tensors { return {at::linalg_inv(in[0])}; };
  absl::StatusOr<CompiledFunction> compiled =
      CompiledFunction::Create(inverse, {Regular({40, 40})}, /*with_gradients=*/false);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(compiled->Call({Regular({40, 40})}).ok());
  const absl::Status status = compiled->Call({at::zeros({40, 40}, at::kDouble)}).status();
  EXPECT_NE(status.message().find("singular"), std::string::npos) << status;
}

// Eager throws for a matrix that is not finite. Compiled calls end, with NaN.
TEST_F(LargeMatrixTest, AMatrixThatIsNotFiniteHasNanAsValues) {
  const auto values = [](const Tensors& in) -> Tensors {
    return {at::linalg_svdvals(in[0]), at::linalg_eigvalsh(in[0])};
  };
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(values, {Spread(40)}, /*with_gradients=*/false);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  at::Tensor bad = Spread(40);
  bad[7][3] = bad[3][7] = std::numeric_limits<double>::quiet_NaN();
  const absl::StatusOr<Tensors> results = compiled->Call({bad});
  ASSERT_TRUE(results.ok()) << results.status();
  for (const at::Tensor& result : *results) EXPECT_TRUE(result.isnan().all().item<bool>());
}

}  // namespace
}  // namespace cotan::testing
