// SPDX-License-Identifier: Apache-2.0

// Compares functions of eigenvalues, eigenvectors and singular vectors of small matrices with LibTorch eager, in
// results and gradients. The functions do not depend on the signs of vectors, which are not those of LAPACK.
#include <ATen/ATen.h>

#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kSeed = 2026;

struct Case {
  std::string name;
  at::Tensor matrix;
};

at::Tensor Random(std::vector<int64_t> sizes) { return at::randn(sizes, at::kDouble); }

at::Tensor Symmetric(std::vector<int64_t> sizes) {
  const at::Tensor a = Random(std::move(sizes));
  return a + a.mT();
}

// Returns a matrix whose singular values go from 1 to 10^-12.
at::Tensor Graded(int64_t rows) {
  const at::Tensor values = at::pow(10, at::linspace(0, -12, rows, at::kDouble));
  const at::Tensor left = std::get<0>(at::linalg_qr(Random({rows, rows})));
  const at::Tensor right = std::get<0>(at::linalg_qr(Random({rows, rows})));
  return left.matmul(values.diag()).matmul(right);
}

void Compare(const std::string& name, const aot::TensorFunction& function, const Tensors& inputs, bool has_gradient,
             double tolerance = kModelState) {
  SCOPED_TRACE(name);
  const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.tolerance = tolerance});
  EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
  if (!has_gradient) return;
  EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
}

class SpectralTest : public ::testing::Test {
 protected:
  SpectralTest() {
    at::manual_seed(kSeed);
    RecordProperty("seed", static_cast<int>(kSeed));
  }
};

TEST_F(SpectralTest, ValuesAreThoseOfLapack) {
  const auto eigenvalues = [](const Tensors& in) -> Tensors { return {at::linalg_eigvalsh(in[0])}; };
  const auto values = [](const Tensors& in) -> Tensors { return {at::linalg_svdvals(in[0])}; };
  for (const int64_t n : {1, 2, 3, 5, 8, 17, 32}) {
    Compare("eigenvalues of " + std::to_string(n), eigenvalues, {Symmetric({n, n})}, true);
    Compare("singular values of " + std::to_string(n), values, {Random({n, n})}, true);
  }
  Compare("a tall matrix", values, {Random({2, 7, 3})}, true);
  Compare("a wide matrix", values, {Random({2, 3, 7})}, true);
  Compare("single precision", values, {Random({2, 4, 4}).to(at::kFloat)}, true);
  Compare("graded values", values, {Graded(16)}, false, kModelDrift);
  // Gradients of equal values are not finite in LibTorch.
  Compare("equal eigenvalues", eigenvalues, {at::eye(6, at::kDouble)}, false);
  Compare("zeros", values, {at::zeros({4, 3}, at::kDouble)}, false);
  Compare("a column of zeros", values, {Random({5, 4}) * at::tensor({1., 0., 1., 1.}, at::kDouble)}, false);
  Compare("large values", values, {Random({4, 4}) * 1e100}, false);
}

TEST_F(SpectralTest, SymmetricMatricesAreFunctionsOfTheirEigenvalues) {
  const auto inverse_root = [](const Tensors& in) -> Tensors {
    const auto [values, vectors] =
        at::linalg_eigh(in[0].matmul(in[0].mT()) + 0.5 * at::eye(in[0].size(-1), at::kDouble));
    return {(vectors * values.rsqrt().unsqueeze(-2)).matmul(vectors.mT())};
  };
  const auto upper = [](const Tensors& in) -> Tensors {
    const auto [values, vectors] = at::linalg_eigh(in[0], "U");
    return {(vectors * values.exp().unsqueeze(-2)).matmul(vectors.mT()), vectors.abs()};
  };
  for (const int64_t n : {1, 2, 5, 12}) {
    Compare("inverse root of " + std::to_string(n), inverse_root, {Random({2, n, n})}, true);
    Compare("exponential of " + std::to_string(n), upper, {Symmetric({n, n})}, true);
  }
}

TEST_F(SpectralTest, SingularVectorsRestoreTheMatrix) {
  const auto restored = [](bool full) -> aot::TensorFunction {
    return [full](const Tensors& in) -> Tensors {
      const auto [u, s, vh] = at::linalg_svd(in[0], full);
      const int64_t kept = s.size(-1);
      const at::Tensor product = (u.narrow(-1, 0, kept) * s.unsqueeze(-2)).matmul(vh.narrow(-2, 0, kept));
      return {product, u.matmul(u.mT()), vh.mT().matmul(vh)};
    };
  };
  const std::vector<Case> cases = {
      {"square", Random({2, 4, 4})},
      {"tall", Random({7, 3})},
      {"wide", Random({3, 7})},
      {"one row", Random({1, 5})},
      {"one column", Random({5, 1})},
      {"of 20 rows", Random({20, 20})},
      {"graded", Graded(8)},
      {"zeros", at::zeros({4, 3}, at::kDouble)},
      {"ones", at::ones({5, 5}, at::kDouble)},
  };
  for (const Case& c : cases) {
    const bool has_gradient = c.name != "graded" && c.name != "zeros" && c.name != "ones";
    Compare(c.name, restored(false), {c.matrix}, has_gradient);
    // LibTorch has no gradient of additional vectors.
    Compare(c.name + ", full", restored(true), {c.matrix}, false);
  }
}

TEST_F(SpectralTest, LowRankApproximationHasGradients) {
  const auto low_rank = [](const Tensors& in) -> Tensors {
    const auto [u, s, vh] = at::linalg_svd(in[0], false);
    return {(u.narrow(-1, 0, 2) * s.narrow(-1, 0, 2).unsqueeze(-2)).matmul(vh.narrow(-2, 0, 2))};
  };
  Compare("tall", low_rank, {Random({6, 4})}, true);
  Compare("wide", low_rank, {Random({2, 4, 6})}, true);
}

TEST_F(SpectralTest, PseudoInversesDropSmallValues) {
  const auto inverse = [](const Tensors& in) -> Tensors { return {at::linalg_pinv(in[0])}; };
  const auto hermitian = [](const Tensors& in) -> Tensors {
    return {at::linalg_pinv((in[0] + in[0].mT()) / 2, 1e-10, /*hermitian=*/true)};
  };
  const auto rank = [](const Tensors& in) -> Tensors { return {at::linalg_matrix_rank(in[0])}; };
  const at::Tensor deficient = Random({6, 2}).matmul(Random({2, 5}));
  Compare("full rank", inverse, {Random({2, 6, 4})}, true);
  Compare("wide", inverse, {Random({4, 6})}, true);
  Compare("rank 2", inverse, {deficient}, true);
  Compare("hermitian, rank 1", hermitian, {at::ones({3, 3}, at::kDouble)}, false);
  const auto absolute = [](const Tensors& in) -> Tensors { return {at::linalg_pinv(in[0], 1e-3)}; };
  Compare("absolute tolerance", absolute, {deficient + 1e-6 * Random({6, 5})}, false);
  Compare("rank", rank, {at::stack({deficient, Random({6, 5}), at::zeros({6, 5}, at::kDouble)})}, false);
}

TEST_F(SpectralTest, NormsOfMatricesHaveGradients) {
  const auto norms = [](const Tensors& in) -> Tensors {
    return {at::linalg_matrix_norm(in[0], "nuc"), at::linalg_matrix_norm(in[0], 2), at::linalg_cond(in[0])};
  };
  Compare("norms", norms, {Random({3, 4, 4})}, true);
}

}  // namespace
}  // namespace cotan::testing
