// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/pooling_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/max.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

namespace cotan::aot {
namespace {

using ValuesAndIndices = std::tuple<at::Tensor, at::Tensor>;

// Returns the first index of each window of `window` elements along a dimension of `size`, for each plane:
// i64 [N, C, count]. `sample` [N, C] is in [0, 1).
at::Tensor Beginnings(const at::Tensor& sample, int64_t size, int64_t count, int64_t window) {
  const at::Tensor last = at::full({sample.size(0), sample.size(1), 1}, size - window, at::TensorOptions(at::kLong));
  if (count == 1) return last;
  const double step = static_cast<double>(size - window) / static_cast<double>(count - 1);
  const at::Tensor u = sample.unsqueeze(-1);
  const at::Tensor index = at::arange(count - 1, at::TensorOptions(u.scalar_type()));
  const at::Tensor first = ((index + u) * step).to(at::kLong) - (u * step).to(at::kLong);
  return at::cat({first, last}, -1);
}

// Returns the maximum of each window (the first of equal ones) and its index in the plane.
ValuesAndIndices Pool(const at::Tensor& self, at::IntArrayRef window, at::IntArrayRef output, const at::Tensor& samples,
                      int64_t spatial) {
  const bool is_batch = self.dim() == spatial + 2;
  TORCH_CHECK(is_batch || self.dim() == spatial + 1, "fractional_max_pool", spatial, "d: the input has sizes ",
              self.sizes());
  const at::Tensor x = is_batch ? self : self.unsqueeze(0);
  const int64_t batch = x.size(0), channels = x.size(1);
  // [N, C, outputs..., windows...], dimension by dimension.
  at::Tensor places;
  for (int64_t d = 0; d < spatial; ++d) {
    const auto k = static_cast<size_t>(d);
    const int64_t size = x.size(d + 2);
    TORCH_CHECK(output[k] + window[k] - 1 <= size, "fractional_max_pool", spatial, "d: windows of ", window,
                " do not fit into ", self.sizes());
    // For images, LibTorch's sample 0 is of the width and 1 of the height.
    const at::Tensor sample = samples.select(2, spatial == 2 ? 1 - d : d);
    const at::Tensor begin = Beginnings(sample, size, output[k], window[k]);
    const at::Tensor inside = at::arange(window[k], at::TensorOptions(at::kLong));
    std::vector<int64_t> sizes(static_cast<size_t>(2 + 2 * spatial), 1);
    sizes[0] = batch;
    sizes[1] = channels;
    sizes[k + 2] = output[k];
    std::vector<int64_t> of_window(sizes.size(), 1);
    of_window[k + 2 + static_cast<size_t>(spatial)] = window[k];
    const at::Tensor along = begin.view(sizes) + inside.view(of_window);
    places = d == 0 ? along : places * size + along;
  }
  const at::Tensor flat = at::gather(x.flatten(2), 2, places.flatten(2));
  std::vector<int64_t> sizes = {batch, channels};
  sizes.insert(sizes.end(), output.begin(), output.end());
  sizes.push_back(-1);
  const auto [values, chosen] = at::max(flat.view(sizes), -1);
  const at::Tensor indices = at::gather(places.flatten(2).view(sizes), -1, chosen.unsqueeze(-1)).squeeze(-1);
  return is_batch ? ValuesAndIndices{values, indices} : ValuesAndIndices{values.squeeze(0), indices.squeeze(0)};
}

template <int64_t kSpatial>
ValuesAndIndices FractionalMaxPool(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                                   const at::Tensor& random_samples) {
  return Pool(self, kernel_size, output_size, random_samples, kSpatial);
}

}  // namespace

void AddPoolingRewrites(torch::Library& library) {
  library.impl("fractional_max_pool2d", FractionalMaxPool<2>);
  library.impl("fractional_max_pool3d", FractionalMaxPool<3>);
}

}  // namespace cotan::aot
