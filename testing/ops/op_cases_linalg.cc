// SPDX-License-Identifier: Apache-2.0

// Cases of linear algebra, on well-conditioned matrices.
#include <ATen/ATen.h>

#include "testing/ops/op_case_groups.h"

namespace cotan::testing {
namespace {

// Returns a result of a decomposition as an argument of the op that takes it.
template <int kResult>
Arg Factored(const Arg& matrix) {
  return [matrix](at::ScalarType dtype) {
    at::manual_seed(17);  // the same matrix for each result
    return std::get<kResult>(at::linalg_lu_factor(matrix(dtype).toTensor()));
  };
}

Arg Triangle(Sizes sizes, bool upper) {
  const Arg matrix = Regular(sizes);
  return [matrix, upper](at::ScalarType dtype) {
    const at::Tensor a = matrix(dtype).toTensor();
    return upper ? a.triu() : a.tril();
  };
}

Arg Text(const char* text) { return V(c10::IValue(std::string(text))); }

Arg Bound(double value) { return V(at::full({}, value, at::kDouble)); }

}  // namespace

std::vector<OpCase> LinearAlgebraCases() {
  const Arg matrix = Regular({2, 5, 5}), spread = T({5, 5});
  const Arg factors = Factored<0>(matrix), pivots = Factored<1>(matrix);
  std::vector<OpCase> cases = {
      {"_linalg_det.default", {matrix}},
      {"_linalg_det.default", {spread}},
      {"_linalg_det.default", {T({1, 1})}},
      {"_linalg_slogdet.default", {Regular({3, 2, 4, 4})}},
      {"_linalg_solve_ex.default", {matrix, T({2, 5, 3}), V(true), V(false)}},
      {"_linalg_solve_ex.default", {matrix, T({2, 3, 5}), V(false), V(false)}},
      {"_linalg_solve_ex.default", {Regular({5, 5}), T({5}), V(true), V(false)}},
      {"_linalg_eigh.default", {PositiveDefinite({2, 5, 5}), Text("L"), V(false)}},
      {"_linalg_eigh.default", {T({4, 4}), Text("U"), V(false)}},
      {"_linalg_svd.default", {T({2, 6, 3}), V(false), V(false), None()}},
      {"_linalg_svd.default", {T({3, 5}), V(true), V(false), None()}},
      {"cholesky_inverse.default", {Triangle({4, 4}, false), V(false)}},
      {"cholesky_solve.default", {T({4, 2}), Triangle({4, 4}, true), V(true)}},
      {"linalg_cholesky_ex.default", {PositiveDefinite({2, 6, 6}), V(false), V(false)}},
      {"linalg_cholesky_ex.default", {PositiveDefinite({3, 3}), V(true), V(false)}},
      {"linalg_inv_ex.default", {Regular({2, 6, 6}), V(false)}},
      {"linalg_inv_ex.default", {Regular({20, 20}), V(false)}},
      {"linalg_lu.default", {matrix, V(true)}},
      {"linalg_lu_factor_ex.default", {matrix, V(true), V(false)}},
      {"linalg_lu_factor_ex.default", {spread, V(true), V(false)}},
      {"linalg_pinv.atol_rtol_tensor", {T({2, 5, 3}), Bound(0), Bound(1e-3), V(false)}},
      {"linalg_pinv.atol_rtol_tensor", {PositiveDefinite({4, 4}), Bound(1e-3), Bound(0), V(true)}},
      {"lu_unpack.default", {factors, pivots, V(true), V(true)}},
      {"triangular_solve.default", {T({4, 2}), Triangle({4, 4}, true), V(true), V(false), V(false)}},
      {"triangular_solve.default", {T({4, 2}), Triangle({4, 4}, false), V(false), V(true), V(false)}},
  };
  for (const bool left : {true, false}) {
    for (const bool adjoint : {true, false}) {
      const Arg b = left ? T({2, 5, 3}) : T({2, 3, 5});
      cases.push_back({"linalg_lu_solve.default", {factors, pivots, b, V(left), V(adjoint)}});
      cases.push_back({"linalg_solve_triangular.default",
                       {Triangle({5, 5}, adjoint), left ? T({5, 3}) : T({3, 5}), V(adjoint), V(left), V(false)}});
    }
  }
  for (const char* mode : {"reduced", "complete"}) {
    for (const Sizes& sizes : {Sizes{2, 4, 4}, Sizes{6, 3}, Sizes{3, 5}}) {
      cases.push_back({"linalg_qr.default", {Regular(sizes), Text(mode)}});
    }
  }
  return cases;
}

}  // namespace cotan::testing
