// SPDX-License-Identifier: Apache-2.0

// Cases of linear algebra, on well-conditioned matrices.
#include <ATen/ATen.h>

#include <algorithm>

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

// Returns matrices near the identity, with reversed rows if `reversed`, so that an LU swaps rows.
Arg NearIdentity(Sizes sizes, bool reversed = false) {
  return [sizes, reversed](at::ScalarType dtype) {
    const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
    const at::Tensor noise = (at::rand(sizes, at::kDouble) * 2 - 1) / static_cast<double>(std::max(rows, columns));
    const at::Tensor near = at::eye(rows, columns, at::kDouble) + noise;
    return (reversed ? near.flip({-2}) : near).to(dtype);
  };
}

Arg LargeTriangle(Sizes sizes, bool upper) {
  return [matrix = NearIdentity(sizes), upper](at::ScalarType dtype) {
    const at::Tensor a = matrix(dtype).toTensor();
    return upper ? a.triu() : a.tril();
  };
}

// Adds matrices above the size up to which decompositions are unrolled: the op of the runtime.
void AddLarge(std::vector<OpCase>& cases) {
  const Arg matrix = NearIdentity({2, 40, 40}, true);
  const Arg factors = Factored<0>(matrix), pivots = Factored<1>(matrix);
  const Arg wide = NearIdentity({34, 50}, true), tall = NearIdentity({50, 34}, true);
  for (const OpCase& c : std::vector<OpCase>{
           {"_linalg_det.default", {NearIdentity({33, 33}, true)}},
           {"_linalg_slogdet.default", {PositiveDefinite({2, 64, 64})}},
           {"_linalg_solve_ex.default", {matrix, T({2, 40, 3}), V(true), V(false)}},
           {"_linalg_solve_ex.default", {matrix, T({2, 3, 40}), V(false), V(false)}},
           {"_linalg_solve_ex.default", {NearIdentity({100, 100}, true), T({100}), V(true), V(false)}},
           {"cholesky_inverse.default", {LargeTriangle({40, 40}, true), V(true)}},
           {"cholesky_solve.default", {T({3, 40, 2}), LargeTriangle({40, 40}, false), V(false)}},
           {"linalg_cholesky_ex.default", {PositiveDefinite({2, 40, 40}), V(false), V(false)}},
           {"linalg_cholesky_ex.default", {PositiveDefinite({33, 33}), V(true), V(false)}},
           {"linalg_inv_ex.default", {NearIdentity({257, 257}, true), V(false)}},
           {"linalg_lu.default", {wide, V(true)}},
           {"linalg_lu.default", {tall, V(true)}},
           {"linalg_lu_factor_ex.default", {tall, V(true), V(false)}},
           {"linalg_lu_factor_ex.default", {NearIdentity({2, 64, 64}, true), V(true), V(false)}},
           {"lu_unpack.default", {factors, pivots, V(true), V(true)}},
           {"lu_unpack.default", {Factored<0>(tall), Factored<1>(tall), V(true), V(true)}},
           {"triangular_solve.default", {T({40, 2}), LargeTriangle({40, 40}, true), V(true), V(true), V(false)}},
       }) {
    cases.push_back(c);
  }
  for (const bool left : {true, false}) {
    for (const bool adjoint : {true, false}) {
      const Arg b = left ? T({2, 40, 3}) : T({2, 3, 40});
      cases.push_back({"linalg_lu_solve.default", {factors, pivots, b, V(left), V(adjoint)}});
      cases.push_back(
          {"linalg_solve_triangular.default",
           {LargeTriangle({40, 40}, adjoint), left ? T({2, 40, 3}) : T({3, 40}), V(adjoint), V(left), V(false)}});
    }
  }
  for (const char* mode : {"reduced", "complete", "r"}) {
    for (const Sizes& sizes : {Sizes{2, 40, 40}, Sizes{64, 3}, Sizes{3, 50}}) {
      cases.push_back({"linalg_qr.default", {NearIdentity(sizes, true), Text(mode)}});
    }
  }
  const Arg eigen = PositiveDefinite({2, 40, 40});
  cases.push_back({"_linalg_eigh.default", {eigen, Text("L"), V(false)}});
  cases.push_back({"_linalg_eigh.default", {eigen, Text("U"), V(false)}});
  for (const Sizes& sizes : {Sizes{100, 100}, Sizes{2, 50, 34}, Sizes{3, 50}}) {
    cases.push_back({"_linalg_svd.default", {T(sizes), V(false), V(false), None()}});
  }
  cases.push_back({"linalg_pinv.atol_rtol_tensor", {T({2, 50, 34}), Bound(0), Bound(1e-3), V(false)}});
  cases.push_back({"linalg_pinv.atol_rtol_tensor", {PositiveDefinite({40, 40}), Bound(1e-3), Bound(0), V(true)}});
}

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
      {"lu_unpack.default", {factors, pivots, V(true), V(false)}},
      {"lu_unpack.default", {factors, pivots, V(false), V(true)}},
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
  cases.push_back({"linalg_lu.default", {Regular({5, 3}), V(true)}});
  cases.push_back({"linalg_lu.default", {Regular({3, 5}), V(true)}});
  cases.push_back({"linalg_lu_factor_ex.default", {Regular({2, 3, 5}), V(true), V(false)}});
  AddLarge(cases);
  return cases;
}

}  // namespace cotan::testing
