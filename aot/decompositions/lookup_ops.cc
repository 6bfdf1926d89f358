// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/lookup_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/scatter_reduce.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "aot/capture/dispatch_keys.h"
#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

// Scales the rows at the indices that have a larger norm to `max_norm`. Norms are of these rows only. The factor of a
// row is the mean over its lookups, whose sum in f64 is exact for factors of up to 24 bits.
at::Tensor Renormed(const at::Tensor& table, const at::Tensor& indices, double max_norm, double norm_type) {
  TORCH_CHECK(table.dim() == 2, "embedding_renorm: the table has sizes ", table.sizes(), "; it takes a matrix");
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "embedding_renorm: the indices have dtype ", indices.scalar_type(), "; it takes i32 or i64");
  const at::Tensor row = indices.reshape({-1}).to(at::kLong);
  const at::Tensor norm = at::linalg_vector_norm(at::index_select(table, 0, row), norm_type, at::IntArrayRef{1});
  const at::Tensor factor = at::where(norm > max_norm, max_norm / (norm + 1e-7), at::Scalar(1.0)).to(at::kDouble);
  const at::Tensor none = at::zeros({table.size(0)}, factor.options());
  const at::Tensor lookups = none.scatter_add(0, row, at::ones(row.sizes(), factor.options()));
  const at::Tensor mean = none.scatter_add(0, row, factor) / lookups;
  return table * at::where(lookups > 0, mean, at::Scalar(1.0)).to(table.scalar_type()).unsqueeze(1);
}

// Has no derivative.
at::Tensor& RenormInPlace(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
  TORCH_CHECK(!self.requires_grad() || !c10::GradMode::is_enabled(),
              "embedding_renorm_: the table requires grad; call it with gradients disabled");
  return self.copy_(Renormed(self, indices, max_norm, norm_type));
}

// Returns the combinations of `size` of the numbers below `count` in lexicographic order, joined.
std::vector<int64_t> CombinationsOf(int64_t count, int64_t size, bool with_replacement) {
  const int64_t step = with_replacement ? 0 : 1;
  std::vector<int64_t> chosen(static_cast<size_t>(size));
  for (int64_t k = 0; k < size; ++k) chosen[static_cast<size_t>(k)] = k * step;
  std::vector<int64_t> all;
  if (count == 0 || chosen.back() >= count) return all;
  while (true) {
    all.insert(all.end(), chosen.begin(), chosen.end());
    int64_t k = size - 1;  // the last one that can grow
    while (k >= 0 && chosen[static_cast<size_t>(k)] == count - 1 - step * (size - 1 - k)) --k;
    if (k < 0) return all;
    ++chosen[static_cast<size_t>(k)];
    for (++k; k < size; ++k) chosen[static_cast<size_t>(k)] = chosen[static_cast<size_t>(k - 1)] + step;
  }
}

at::Tensor Combinations(const at::Tensor& self, int64_t r, bool with_replacement) {
  TORCH_CHECK(self.dim() == 1, "combinations: the input has sizes ", self.sizes(), "; it takes a vector");
  TORCH_CHECK(r >= 0, "combinations: expected r >= 0, got ", r);
  if (r == 0) return at::zeros({0}, self.options());
  const std::vector<int64_t> places = CombinationsOf(self.size(0), r, with_replacement);
  at::Tensor table;
  {
    const c10::impl::ExcludeDispatchKeyGuard guard(kTracingKeys);
    table = at::tensor(places, at::kLong);
  }
  const auto count = static_cast<int64_t>(places.size()) / r;
  // The result is not a view.
  return at::_unsafe_view(at::index_select(self, 0, CurrentRecorder()->Constant(table)), {count, r});
}

// LibTorch has no derivative of these.
at::Tensor ScatterReducing(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                           std::string_view reduce) {
  TORCH_CHECK(reduce == "add" || reduce == "multiply", "scatter: '", reduce, "' is not one of add, multiply");
  if (c10::GradMode::is_enabled() && (self.requires_grad() || src.requires_grad())) {
    CurrentRecorder()->ReportUnsupported("aten.scatter.reduce", "it has no derivative; use scatter_reduce");
  }
  if (reduce == "add") return at::scatter_add(self, dim, index, src);
  return at::scatter_reduce(self, dim, index, src, "prod", /*include_self=*/true);
}

at::Tensor ScatterReducingNumber(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                                 std::string_view reduce) {
  return ScatterReducing(self, dim, index, at::full(index.sizes(), value, self.options()), reduce);
}

// With a minlength, the number of bins is that; an element beyond ends the call with an error. Not differentiable.
at::Tensor Bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, c10::SymInt minlength) {
  const int64_t bins = minlength.expect_int();
  if (bins == 0) {
    const c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
    return at::bincount(self, weights, bins);
  }
  TORCH_CHECK(bins > 0 && self.dim() == 1 && at::isIntegralType(self.scalar_type(), /*includeBool=*/false),
              "bincount: expected a vector of integers and minlength >= 0, got sizes ", self.sizes(), " of ",
              self.scalar_type(), " and ", bins);
  at::Tensor counts = at::ones(self.sizes(), at::TensorOptions(at::kLong));
  if (weights.has_value() && weights->defined()) {
    TORCH_CHECK(weights->sizes() == self.sizes(), "bincount: the weights have sizes ", weights->sizes(),
                ", the input has ", self.sizes());
    counts = weights->detach().to(weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble);
  }
  return at::zeros({bins}, counts.options()).scatter_add(0, self.to(at::kLong), counts);
}

}  // namespace

void AddLookupRewrites(torch::Library& library) {
  library.impl("embedding_renorm", Renormed);
  library.impl("embedding_renorm_", RenormInPlace);
  library.impl("bincount", Bincount);
  library.impl("combinations", Combinations);
  library.impl("scatter.reduce", ScatterReducing);
  library.impl("scatter.value_reduce", ScatterReducingNumber);
}

}  // namespace cotan::aot
