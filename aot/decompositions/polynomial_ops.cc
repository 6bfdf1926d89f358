// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/polynomial_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

// Each step is a few ops of the program.
constexpr int64_t kMaxDegree = 64;

// p[0] = 1, p[1] = first * x + offset, p[k + 1] = next(k, x, p[k], p[k - 1]).
struct Family {
  const char* name;
  double first;
  double offset;
  at::Tensor (*next)(int64_t k, const at::Tensor& x, const at::Tensor& p, const at::Tensor& before);
};

at::Tensor Chebyshev(int64_t, const at::Tensor& x, const at::Tensor& p, const at::Tensor& before) {
  return 2 * x * p - before;
}

at::Tensor HermiteH(int64_t k, const at::Tensor& x, const at::Tensor& p, const at::Tensor& before) {
  return 2 * x * p - 2 * k * before;
}

at::Tensor HermiteHe(int64_t k, const at::Tensor& x, const at::Tensor& p, const at::Tensor& before) {
  return x * p - k * before;
}

at::Tensor Laguerre(int64_t k, const at::Tensor& x, const at::Tensor& p, const at::Tensor& before) {
  return ((2 * k + 1 - x) * p - k * before) / (k + 1);
}

at::Tensor Legendre(int64_t k, const at::Tensor& x, const at::Tensor& p, const at::Tensor& before) {
  return ((2 * k + 1) * x * p - k * before) / (k + 1);
}

at::Tensor Evaluate(const Family& family, const at::Tensor& x, int64_t degree) {
  if (degree > kMaxDegree) {
    CurrentRecorder()->ReportUnsupported(
        family.name, c10::str("a degree above ", kMaxDegree, " (", degree, " here) is not supported"));
  }
  if (degree < 0) return at::zeros_like(x);
  at::Tensor before = at::ones_like(x);
  if (degree == 0) return before;
  at::Tensor p = family.first * x + family.offset;
  for (int64_t k = 1; k < std::min(degree, kMaxDegree); ++k) {
    before = std::exchange(p, family.next(k, x, p, before));
  }
  return p;
}

constexpr Family kFamilies[] = {
    {"aten.special_chebyshev_polynomial_t", 1, 0, Chebyshev},  {"aten.special_chebyshev_polynomial_u", 2, 0, Chebyshev},
    {"aten.special_chebyshev_polynomial_v", 2, -1, Chebyshev}, {"aten.special_chebyshev_polynomial_w", 2, 1, Chebyshev},
    {"aten.special_hermite_polynomial_h", 2, 0, HermiteH},     {"aten.special_hermite_polynomial_he", 1, 0, HermiteHe},
    {"aten.special_laguerre_polynomial_l", -1, 1, Laguerre},   {"aten.special_legendre_polynomial_p", 1, 0, Legendre},
};

// PyTorch has no derivatives of them.
template <int kFamily, bool kShifted>
at::Tensor Polynomial(const at::Tensor& self, const at::Scalar& degree) {
  const at::Tensor x = (self.is_floating_point() ? self : self.to(at::kFloat)).detach();
  return Evaluate(kFamilies[kFamily], kShifted ? 2 * x - 1 : x, degree.toLong());
}

}  // namespace

void AddPolynomialRewrites(torch::Library& library) {
  library.impl("special_chebyshev_polynomial_t.n_scalar", Polynomial<0, false>);
  library.impl("special_chebyshev_polynomial_u.n_scalar", Polynomial<1, false>);
  library.impl("special_chebyshev_polynomial_v.n_scalar", Polynomial<2, false>);
  library.impl("special_chebyshev_polynomial_w.n_scalar", Polynomial<3, false>);
  library.impl("special_shifted_chebyshev_polynomial_t.n_scalar", Polynomial<0, true>);
  library.impl("special_shifted_chebyshev_polynomial_u.n_scalar", Polynomial<1, true>);
  library.impl("special_shifted_chebyshev_polynomial_v.n_scalar", Polynomial<2, true>);
  library.impl("special_shifted_chebyshev_polynomial_w.n_scalar", Polynomial<3, true>);
  library.impl("special_hermite_polynomial_h.n_scalar", Polynomial<4, false>);
  library.impl("special_hermite_polynomial_he.n_scalar", Polynomial<5, false>);
  library.impl("special_laguerre_polynomial_l.n_scalar", Polynomial<6, false>);
  library.impl("special_legendre_polynomial_p.n_scalar", Polynomial<7, false>);
}

}  // namespace cotan::aot
