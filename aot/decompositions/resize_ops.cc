// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/resize_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sinc.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

namespace cotan::aot {
namespace {

// Weight of an element by its distance; 0 from the filter's support on.
using Filter = at::Tensor (*)(const at::Tensor& distance);

at::Tensor Linear(const at::Tensor& distance) {
  return at::where(distance < 1, 1 - distance, at::zeros_like(distance));
}

at::Tensor Cubic(const at::Tensor& x) {
  constexpr double kA = -0.5;
  const at::Tensor near = ((kA + 2) * x - (kA + 3)) * x * x + 1;
  const at::Tensor far = (((x - 5) * x + 8) * x - 4) * kA;
  return at::where(x < 1, near, at::where(x < 2, far, at::zeros_like(x)));
}

at::Tensor Lanczos(const at::Tensor& x) {
  constexpr double kWidth = 3;
  return at::where(x < kWidth, at::sinc(x) * at::sinc(x / kWidth), at::zeros_like(x));
}

// Returns the number of input elements per output element.
double ScaleOf(int64_t from, int64_t to, bool align_corners, std::optional<double> factor) {
  if (align_corners) return to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
  if (factor.has_value() && *factor > 0) return 1 / *factor;
  return static_cast<double>(from) / static_cast<double>(to);
}

// Returns weights [to, from] whose rows add up to 1.
at::Tensor Weights(int64_t from, int64_t to, double scale, Filter filter, const at::Tensor& like) {
  const at::TensorOptions options(at::kDouble);
  const at::Tensor center = (at::arange(to, options) + 0.5) * scale;
  const at::Tensor place = at::arange(from, options) + 0.5;
  const at::Tensor distance = at::abs(place.unsqueeze(0) - center.unsqueeze(1)) / std::max(scale, 1.0);
  const at::Tensor weights = filter(distance);
  return (weights / at::sum(weights, at::IntArrayRef{1}, /*keepdim=*/true)).to(like.scalar_type());
}

template <Filter kFilter>
at::Tensor Resize(const at::Tensor& self, c10::SymIntArrayRef output_size, bool align_corners,
                  std::optional<double> scales_h, std::optional<double> scales_w) {
  TORCH_CHECK(self.is_floating_point(), "antialiased resizing of ", self.scalar_type(),
              "; convert the image to floats");
  const at::IntArrayRef size = C10_AS_INTARRAYREF_SLOW(output_size);
  TORCH_CHECK(self.dim() == 4 && size.size() == 2, "antialiased resizing takes images [N, C, H, W], but got sizes ",
              self.sizes());
  const double scale_h = ScaleOf(self.size(2), size[0], align_corners, scales_h);
  const double scale_w = ScaleOf(self.size(3), size[1], align_corners, scales_w);
  const at::Tensor rows = Weights(self.size(2), size[0], scale_h, kFilter, self);
  const at::Tensor columns = Weights(self.size(3), size[1], scale_w, kFilter, self);
  return at::matmul(rows, at::matmul(self, columns.t()));
}

}  // namespace

void AddResizeRewrites(torch::Library& library) {
  library.impl("_upsample_bilinear2d_aa", Resize<Linear>);
  library.impl("_upsample_bicubic2d_aa", Resize<Cubic>);
  library.impl("_upsample_lanczos2d_aa", Resize<Lanczos>);
}

}  // namespace cotan::aot
