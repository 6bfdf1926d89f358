// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/distance_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <vector>

#include "aot/decompositions/zero_gradient.h"

namespace cotan::aot {
namespace {

// Computes distances as |x - y|^2 = |x|^2 + |y|^2 - 2 xy, with one matrix product. Where the distance is
// zero, so is the gradient.
at::Tensor EuclideanByProduct(const at::Tensor& x1, const at::Tensor& x2) {
  const at::Tensor norms1 = at::sum(x1 * x1, at::IntArrayRef{-1}).unsqueeze(-1);
  const at::Tensor norms2 = at::sum(x2 * x2, at::IntArrayRef{-1}).unsqueeze(-2);
  const at::Tensor square = norms1 + norms2 - 2 * at::matmul(x1, x2.transpose(-2, -1));
  const at::Tensor positive = square > 0;
  return at::where(positive, at::sqrt(at::where(positive, square, at::Scalar(1.0))), at::Scalar(0.0));
}

// Returns ATen's choice (cdist_impl in aten/src/ATen/native/Distance.cpp), for Euclidean distances only.
// Compute mode 0: by the number of rows, 1: always, 2: never.
bool UsesProduct(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  if (p != 2) return false;
  constexpr int64_t kFewRows = 25;
  const int64_t mode = compute_mode.value_or(0);
  return mode == 1 || (mode == 0 && (x1.size(-2) > kFewRows || x2.size(-2) > kFewRows));
}

// The largest magnitude along the last dimension. As in ATen's distances, each element that has it gets the whole
// gradient, whereas those of a norm share it.
struct LargestMagnitude : torch::autograd::Function<LargestMagnitude> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, const at::Tensor& difference) {
    const at::Tensor largest = at::amax(at::abs(difference), at::IntArrayRef{-1});
    context->save_for_backward({difference, largest});
    return largest;
  }

  static torch::autograd::variable_list backward(Context* context, const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor is_largest = at::eq(at::abs(saved[0]), saved[1].unsqueeze(-1));
    return {at::sign(saved[0]) * is_largest * gradients[0].unsqueeze(-1)};
  }
};

// Returns the norms of the differences along the last dimension.
at::Tensor Distances(const at::Tensor& difference, double p) {
  const bool takes_largest = std::isinf(p) && difference.size(-1) > 0;
  return takes_largest ? LargestMagnitude::apply(difference)
                       : at::linalg_vector_norm(difference, p, at::IntArrayRef{-1});
}

at::Tensor CdistForward(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  if (UsesProduct(x1, x2, p, compute_mode)) return EuclideanByProduct(x1, x2);
  const at::Tensor norms = Distances(x1.unsqueeze(-2) - x2.unsqueeze(-3), p);
  // The number of different coordinates is locally constant.
  return p == 0 ? WithZeroGradient(WithZeroGradient(norms, x1), x2) : norms;
}

at::Tensor PdistForward(const at::Tensor& self, double p) {
  const at::Tensor pairs = at::triu_indices(self.size(0), self.size(0), 1);
  const at::Tensor first = at::index_select(self, 0, pairs.select(0, 0));
  const at::Tensor second = at::index_select(self, 0, pairs.select(0, 1));
  const at::Tensor norms = Distances(first - second, p);
  return p == 0 ? WithZeroGradient(norms, self) : norms;
}

// Returns all dimensions except `dim`.
std::vector<int64_t> Others(const at::Tensor& tensor, int64_t dim) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  return others;
}

// Scales v so that the norm of each slice along `dim`, or of the whole if it is -1, is g.
at::Tensor WeightNorm(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const std::vector<int64_t> others = Others(v, dim);
  // An empty list of dimensions means all of them. A slice of one element has its magnitude as norm.
  const at::Tensor norm = others.empty() ? at::abs(v) : at::linalg_vector_norm(v, 2, others, /*keepdim=*/true);
  return v * (g / norm);
}

// Scales slices along `dim` with a larger norm to `maxnorm`.
at::Tensor Renorm(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm) {
  TORCH_CHECK(self.dim() >= 2, "renorm: 'self' has ", self.dim(), " dimensions, but at least 2 are needed");
  TORCH_CHECK(p.toDouble() > 0, "renorm: 'p' is ", p.toDouble(), ", which is not greater than 0");
  TORCH_CHECK(maxnorm.toDouble() >= 0, "renorm: 'maxnorm' is ", maxnorm.toDouble(), ", which is not at least 0");
  const int64_t kept = at::maybe_wrap_dim(dim, self.dim());
  const at::Tensor norm = at::linalg_vector_norm(self, p, Others(self, kept), /*keepdim=*/true);
  const at::Tensor factor = maxnorm.toDouble() / (norm + 1e-7);
  return self * at::where(norm > maxnorm, factor, at::Scalar(1.0));
}

// The gradient reads the values before the write.
at::Tensor& RenormInPlace(at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm) {
  return self.copy_(Renorm(self.clone(), p, dim, maxnorm));
}

}  // namespace

void AddDistanceRewrites(torch::Library& library) {
  library.impl("_cdist_forward", CdistForward);
  library.impl("_euclidean_dist", EuclideanByProduct);
  library.impl("_pdist_forward", PdistForward);
  library.impl("_weight_norm", WeightNorm);
  library.impl("renorm", Renorm);
  library.impl("renorm_", RenormInPlace);
}

}  // namespace cotan::aot
