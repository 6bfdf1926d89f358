// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/sampling_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/round.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "aot/decompositions/zero_gradient.h"

namespace cotan::aot {
namespace {

enum Interpolation : int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

// One spatial dimension of the input, with the padding and alignment of the call.
struct Axis {
  int64_t size;
  int64_t padding;
  bool align_corners;
};

// Converts coordinates from [-1, 1] to element indices.
at::Tensor Unnormalized(const at::Tensor& x, const Axis& axis) {
  const auto size = static_cast<double>(axis.size);
  if (axis.align_corners) return (x + 1) * ((size - 1) / 2);
  return ((x + 1) * size - 1) / 2;
}

// Clips to [0, size - 1]; the gradient at the border is 0.
at::Tensor Clipped(const at::Tensor& x, int64_t size) {
  const at::Tensor low = at::where(x <= 0, at::Scalar(0.0), x);
  return at::where(low >= static_cast<double>(size - 1), at::Scalar(static_cast<double>(size - 1)), low);
}

// Reflects at `low` and at `low + span` until the result is between them.
at::Tensor Reflected(const at::Tensor& x, double low, double span) {
  if (span == 0) return x * 0;
  const at::Tensor distance = at::abs(x - low);
  const at::Tensor extra = at::fmod(distance, span);
  const at::Tensor flipped = at::remainder(at::floor(distance.detach() / span), 2.0) == 1;
  return at::where(flipped, span + low - extra, extra + low);
}

// Maps coordinates outside of the input to coordinates inside, by the padding mode.
at::Tensor Folded(const at::Tensor& x, const Axis& axis) {
  if (axis.padding == kZeros) return x;
  if (axis.padding == kBorder) return Clipped(x, axis.size);
  const auto size = static_cast<double>(axis.size);
  const at::Tensor reflected = axis.align_corners ? Reflected(x, 0, size - 1) : Reflected(x, -0.5, size);
  return Clipped(reflected, axis.size);
}

// One index along an axis with its weight, for each point.
struct Tap {
  at::Tensor place;   // index, floating point, without gradient
  at::Tensor weight;  // undefined if it is 1
};

// Cubic convolution with a = -0.75: at a distance of at most 1, and of 1 to 2.
at::Tensor CubicNear(const at::Tensor& x) { return ((1.25 * x - 2.25) * x) * x + 1; }
at::Tensor CubicFar(const at::Tensor& x) { return ((-0.75 * x + 3.75) * x - 6) * x + 3; }

std::vector<Tap> TapsOf(const at::Tensor& coordinate, const Axis& axis, int64_t interpolation) {
  if (interpolation == kNearest) return {{at::round(Folded(Unnormalized(coordinate, axis), axis)).detach(), {}}};
  if (interpolation == kLinear) {
    const at::Tensor x = Folded(Unnormalized(coordinate, axis), axis);
    const at::Tensor first = at::floor(x.detach());
    const at::Tensor t = x - first;
    return {{first, 1 - t}, {first + 1, t}};
  }
  const at::Tensor x = Unnormalized(coordinate, axis);
  const at::Tensor first = at::floor(x.detach());
  const at::Tensor t = x - first;
  std::vector<Tap> taps = {
      {first - 1, CubicFar(t + 1)}, {first, CubicNear(t)}, {first + 1, CubicNear(1 - t)}, {first + 2, CubicFar(2 - t)}};
  for (Tap& tap : taps) tap.place = Folded(tap.place, axis);
  return taps;
}

// Gathers elements of a tensor [N, C, plane] at taps of all axes and adds them up.
class Sampler {
 public:
  // `points` is the number of points of each image.
  Sampler(const at::Tensor& input, std::vector<Axis> axes, int64_t points)
      : planes_(input.flatten(2)), axes_(std::move(axes)), points_(points) {}

  // Returns the weighted sum of the taps, [N, C, points].
  at::Tensor Sum(const std::vector<std::vector<Tap>>& taps) {
    taps_ = &taps;
    sum_ = at::Tensor();
    Visit(0, {}, {}, {});
    return sum_;
  }

 private:
  // Visits all combinations of taps; `index`, `inside` and `weight` cover the axes before `axis`.
  void Visit(size_t axis, const at::Tensor& index, const at::Tensor& inside, const at::Tensor& weight) {
    if (axis == axes_.size()) return Add(index, inside, weight);
    const int64_t size = axes_[axis].size;
    for (const Tap& tap : (*taps_)[axis]) {
      const at::Tensor within = at::logical_and(tap.place >= 0, tap.place <= static_cast<double>(size - 1));
      const at::Tensor place = at::where(within, tap.place, at::Scalar(0.0)).to(at::kLong);
      Visit(axis + 1, index.defined() ? index * size + place : place,
            inside.defined() ? at::logical_and(inside, within) : within,
            !tap.weight.defined() ? weight : (weight.defined() ? weight * tap.weight : tap.weight));
    }
  }

  void Add(const at::Tensor& index, const at::Tensor& inside, const at::Tensor& weight) {
    const at::Tensor rows = index.view({-1, 1, points_}).expand({-1, planes_.size(1), -1});
    const at::Tensor found = planes_.gather(2, rows);
    at::Tensor term = at::where(inside.view({-1, 1, points_}), found, at::Scalar(0.0));
    if (weight.defined()) term = term * weight.view({-1, 1, points_});
    sum_ = sum_.defined() ? sum_ + term : term;
  }

  const at::Tensor planes_;
  const std::vector<Axis> axes_;
  const int64_t points_;
  const std::vector<std::vector<Tap>>* taps_ = nullptr;
  at::Tensor sum_;
};

// `input` is [N, C, spatial...], `grid` is [N, out..., d]: the last coordinate is of the outermost
// dimension.
at::Tensor GridSample(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation, int64_t padding,
                      bool align_corners) {
  const int64_t spatial = input.dim() - 2;
  TORCH_CHECK(spatial >= 2 && grid.dim() == input.dim() && grid.size(-1) == spatial && grid.size(0) == input.size(0),
              "grid_sampler: an input of sizes ", input.sizes(), " with a grid of sizes ", grid.sizes());
  const std::vector<int64_t> out(grid.sizes().begin() + 1, grid.sizes().end() - 1);
  int64_t points = 1;
  for (const int64_t size : out) points *= size;
  std::vector<Axis> axes;
  std::vector<std::vector<Tap>> taps;
  for (int64_t d = 0; d < spatial; ++d) {
    axes.push_back({input.size(2 + d), padding, align_corners});
    const at::Tensor coordinate = grid.select(-1, spatial - 1 - d).reshape({grid.size(0), points});
    taps.push_back(TapsOf(coordinate, axes.back(), interpolation));
  }
  std::vector<int64_t> sizes = {input.size(0), input.size(1)};
  sizes.insert(sizes.end(), out.begin(), out.end());
  const at::Tensor result = at::_unsafe_view(Sampler(input, axes, points).Sum(taps), sizes);  // not a view
  return interpolation == kNearest ? WithZeroGradient(result, grid) : result;
}

// Returns `count` coordinates; -1 and 1 are the centers of the corner elements if `align_corners`, else the
// borders of the input.
at::Tensor Places(int64_t count, bool align_corners, const at::TensorOptions& options) {
  if (count <= 1) return at::zeros({count}, options);
  const at::Tensor places = at::linspace(-1, 1, count, options);
  return align_corners ? places : places * (static_cast<double>(count - 1) / static_cast<double>(count));
}

// `theta` is [N, d, d + 1], `size` is [N, C, spatial...]; returns [N, spatial..., d].
at::Tensor AffineGrid(const at::Tensor& theta, c10::SymIntArrayRef size, bool align_corners) {
  const std::vector<int64_t> sizes = C10_AS_INTARRAYREF_SLOW(size).vec();
  const auto spatial = static_cast<int64_t>(sizes.size()) - 2;
  std::vector<int64_t> out(sizes.begin() + 2, sizes.end());
  std::vector<at::Tensor> coordinates;
  int64_t points = 1;
  for (int64_t d = spatial - 1; d >= 0; --d) {
    std::vector<int64_t> along(static_cast<size_t>(spatial), 1);
    along[static_cast<size_t>(d)] = out[static_cast<size_t>(d)];
    const at::Tensor places = Places(out[static_cast<size_t>(d)], align_corners, theta.options().requires_grad(false));
    coordinates.push_back(places.view(along).expand(out));
    points *= out[static_cast<size_t>(d)];
  }
  coordinates.push_back(at::ones(out, theta.options().requires_grad(false)));
  const at::Tensor base = at::stack(coordinates, -1).view({1, points, spatial + 1}).expand({sizes[0], -1, -1});
  std::vector<int64_t> result = {sizes[0]};
  result.insert(result.end(), out.begin(), out.end());
  result.push_back(spatial);
  return at::_unsafe_view(at::bmm(base, theta.transpose(1, 2)), result);
}

// Writes each element of `self` to its index in a plane of zeros; the last of several with one index stays.
// The gradient is gathered, so that each of them gets the gradient at that index.
at::Tensor MaxUnpool(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size) {
  const int64_t spatial = static_cast<int64_t>(output_size.size());
  std::vector<int64_t> planes(self.sizes().begin(), self.sizes().end() - spatial);
  std::vector<int64_t> result = planes;
  result.insert(result.end(), output_size.begin(), output_size.end());
  planes.push_back(1);
  for (const int64_t size : output_size) planes.back() *= size;
  const at::Tensor zeros = at::zeros(planes, self.options().requires_grad(false));
  return at::_unsafe_view(zeros.scatter(-1, indices.flatten(-spatial), self.flatten(-spatial)), result);
}

at::Tensor MaxUnpool2d(const at::Tensor& self, const at::Tensor& indices, c10::SymIntArrayRef output_size) {
  return MaxUnpool(self, indices, C10_AS_INTARRAYREF_SLOW(output_size));
}

at::Tensor MaxUnpool3d(const at::Tensor& self, const at::Tensor& indices, c10::SymIntArrayRef output_size,
                       at::IntArrayRef stride, at::IntArrayRef padding) {
  return MaxUnpool(self, indices, C10_AS_INTARRAYREF_SLOW(output_size));
}

}  // namespace

void AddSamplingRewrites(torch::Library& library) {
  library.impl("grid_sampler_2d", GridSample);
  library.impl("grid_sampler_3d", GridSample);
  library.impl("affine_grid_generator", AffineGrid);
  library.impl("max_unpool2d", MaxUnpool2d);
  library.impl("max_unpool3d", MaxUnpool3d);
}

}  // namespace cotan::aot
