// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/linalg_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_linalg_det.h>
#include <ATen/ops/_linalg_slogdet.h>
#include <ATen/ops/_linalg_solve_ex.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/linalg_matrix_rank.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/where.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "aot/capture/dispatch_keys.h"
#include "aot/capture/effects.h"

namespace cotan::aot {
namespace {

// A failed factorization ends the call with an error, also on the device.
void CheckErrors(const at::Tensor& info, std::string_view api_name, bool is_matrix) {
  Assert(at::eq(info, 0), std::string(api_name), "the matrix is singular or not positive definite");
}

// The dense copy fixes the layout: LibTorch returns the factors of another layout in another form, which
// the op table lacks.
std::tuple<at::Tensor, at::Tensor, at::Tensor> Det(const at::Tensor& a) {
  const at::Tensor dense = a.contiguous();
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return at::_linalg_det(dense);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> Slogdet(const at::Tensor& a) {
  const at::Tensor dense = a.contiguous();
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return at::_linalg_slogdet(dense);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> Solve(const at::Tensor& a, const at::Tensor& b, bool left,
                                                                 bool check_errors) {
  const at::Tensor dense = a.contiguous();
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return at::_linalg_solve_ex(dense, b, left, check_errors);
}

// The solution by the pseudo-inverse, from which LibTorch's gradient is derived, too. The residuals of other drivers
// than the default one exist if the matrix has full rank, which is data.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> LeastSquares(const at::Tensor& a, const at::Tensor& b,
                                                                        std::optional<double> rcond,
                                                                        std::optional<std::string_view> driver) {
  if (driver.value_or("gelsy") != "gelsy") {
    c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
    return at::linalg_lstsq(a, b, rcond, driver);
  }
  const bool is_vector = b.dim() == 1 || (b.dim() == a.dim() - 1 && b.sizes() == a.sizes().slice(0, b.dim()));
  const at::Tensor x = at::linalg_pinv(a, 0.0, rcond).matmul(is_vector ? b.unsqueeze(-1) : b);
  // They require grad as eager's.
  const at::Tensor no_residuals = x.flatten().slice(0, 0, 0).clone();
  return {is_vector ? x.squeeze(-1) : x, no_residuals, at::linalg_matrix_rank(a.detach(), 0.0, rcond),
          at::empty({0}, a.options())};
}

// Degree of the polynomial that approximates the exponential of a matrix of norm 1, to rounding.
int64_t TaylorDegree(at::ScalarType dtype) { return at::toRealValueType(dtype) == at::kDouble ? 18 : 11; }

// The matrix is halved until its norm is at most 1, and the exponential of that is squared as often. Both numbers
// depend on data, so that the program always has kMaxSquarings. The result is NaN if that is too few.
at::Tensor MatrixExp(const at::Tensor& self) {
  constexpr int64_t kMaxSquarings = 16;
  TORCH_CHECK(self.dim() >= 2 && self.size(-1) == self.size(-2), "linalg.matrix_exp: the input has sizes ",
              self.sizes(), "; it takes square matrices");
  if (self.numel() == 0) return self.clone();
  if (self.size(-1) == 1) return at::exp(self);
  const at::Tensor norm = at::amax(at::sum(at::abs(self.detach()), at::IntArrayRef{-2}), at::IntArrayRef{-1});
  const at::Tensor halvings = at::clamp_min(at::ceil(at::log2(norm)), 0).unsqueeze(-1).unsqueeze(-1);
  const at::Tensor factor =
      at::where(halvings <= kMaxSquarings, at::exp2(-halvings), at::Scalar(std::numeric_limits<double>::quiet_NaN()));
  const at::Tensor scaled = self * factor;
  const at::Tensor one = at::eye(self.size(-1), self.options());
  const int64_t degree = TaylorDegree(self.scalar_type());
  at::Tensor result = one + scaled * (1.0 / static_cast<double>(degree));
  for (int64_t k = degree - 1; k > 0; --k) {
    result = one + at::matmul(scaled, result) * (1.0 / static_cast<double>(k));
  }
  for (int64_t k = 0; k < kMaxSquarings; ++k) {
    result = at::where(halvings > k, at::matmul(result, result), result);
  }
  return result;
}

// Returns the first columns of the product of reflections I - tau v v^H, which is I - V T V^H with T = (I + D S)^-1 D,
// where D has tau in its diagonal and S is V^H V above its diagonal.
at::Tensor HouseholderProduct(const at::Tensor& input, const at::Tensor& tau) {
  TORCH_CHECK(input.dim() >= 2 && tau.dim() == input.dim() - 1 && input.size(-2) >= input.size(-1) &&
                  input.size(-1) >= tau.size(-1),
              "linalg.householder_product: the input has sizes ", input.sizes(), " and tau ", tau.sizes(),
              "; expected [..., m, n] and [..., k] with m >= n >= k");
  const int64_t rows = input.size(-2), columns = input.size(-1), count = tau.size(-1);
  const at::Tensor one = at::eye(rows, columns, input.options());
  if (count == 0 || input.numel() == 0) return one.expand_as(input).mT().contiguous().mT();
  const at::Tensor v = at::tril(input.narrow(-1, 0, count), -1) + one.narrow(-1, 0, count);
  const at::Tensor scale = tau.unsqueeze(-1);
  const at::Tensor mixed = scale * at::triu(at::matmul(v.mH(), v), 1) + at::eye(count, input.options());
  const at::Tensor t =
      at::linalg_solve_triangular(mixed, scale * at::eye(count, input.options()), /*upper=*/true, /*left=*/true,
                                  /*unitriangular=*/true);
  // In the layout of LAPACK, as LibTorch's.
  return (one - at::matmul(v, at::matmul(t, v.narrow(-2, 0, columns).mH()))).mT().contiguous().mT();
}

}  // namespace

void AddLinearAlgebraRewrites(torch::Library& library) {
  library.impl("_linalg_check_errors", CheckErrors);
  library.impl("_linalg_det", Det);
  library.impl("_linalg_slogdet", Slogdet);
  library.impl("_linalg_solve_ex", Solve);
  library.impl("linalg_lstsq", LeastSquares);
  library.impl("linalg_matrix_exp", MatrixExp);
  library.impl("linalg_householder_product", HouseholderProduct);
}

}  // namespace cotan::aot
