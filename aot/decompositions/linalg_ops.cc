// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/linalg_ops.h"

#include <ATen/ops/_linalg_det.h>
#include <ATen/ops/_linalg_slogdet.h>
#include <ATen/ops/_linalg_solve_ex.h>
#include <ATen/ops/eq.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

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

}  // namespace

void AddLinearAlgebraRewrites(torch::Library& library) {
  library.impl("_linalg_check_errors", CheckErrors);
  library.impl("_linalg_det", Det);
  library.impl("_linalg_slogdet", Slogdet);
  library.impl("_linalg_solve_ex", Solve);
}

}  // namespace cotan::aot
