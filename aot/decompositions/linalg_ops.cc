// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/linalg_ops.h"

#include <ATen/ops/_linalg_det.h>
#include <ATen/ops/_linalg_slogdet.h>
#include <ATen/ops/_linalg_solve_ex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/linalg_matrix_rank.h>
#include <ATen/ops/linalg_pinv.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

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

}  // namespace

void AddLinearAlgebraRewrites(torch::Library& library) {
  library.impl("_linalg_check_errors", CheckErrors);
  library.impl("_linalg_det", Det);
  library.impl("_linalg_slogdet", Slogdet);
  library.impl("_linalg_solve_ex", Solve);
  library.impl("linalg_lstsq", LeastSquares);
}

}  // namespace cotan::aot
