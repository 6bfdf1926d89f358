// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/window_geometry.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "kernels/cuda/convolution/convolution_copy.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kVector = 4;
// Elements of a kernel, and of a row of it, which the kernels unroll.
constexpr int64_t kMaxTaps = 64;
constexpr int64_t kMaxRowTaps = 16;
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
// The elements that kernels address beyond the end of an operand, without access, are fewer.
constexpr int64_t kMaxExtent = kMaxInt / 4;

ImageStrides StridesOf(const StridedLayout& layout) {
  return {layout.strides[0], layout.strides[1], {layout.strides[3], layout.strides[4]}};
}

Extent SpatialSizes(const StridedLayout& layout) { return {layout.sizes[3], layout.sizes[4]}; }

// Returns the channels that lie next to each other, at a multiple of their number.
int64_t VectorOf(const StridedLayout& layout) {
  if (layout.strides[1] != 1 || layout.sizes[1] % kVector != 0) return 1;
  const bool aligned =
      layout.strides[0] % kVector == 0 && layout.strides[3] % kVector == 0 && layout.strides[4] % kVector == 0;
  return aligned ? kVector : 1;
}

// What the two spatial dimensions of a problem have in common.
WindowGeometry CommonGeometry(const ConvolutionProblem& problem, const StridedLayout& source,
                              const StridedLayout& result) {
  WindowGeometry geometry;
  geometry.dtype = problem.dtype;
  geometry.images = source.sizes[0];
  geometry.result = SpatialSizes(result);
  geometry.channels = result.sizes[1];
  geometry.source = SpatialSizes(source);
  geometry.source_channels = source.sizes[1];
  geometry.source_strides = StridesOf(source);
  geometry.result_strides = StridesOf(result);
  geometry.source_vector = VectorOf(source);
  geometry.result_vector = VectorOf(result);
  if (problem.bias) geometry.bias = problem.bias->layout.strides[0];
  return geometry;
}

// The geometry in which narrow is the result and wide the source.
WindowGeometry ForwardGeometry(const ConvolutionProblem& problem) {
  const StridedLayout& weights = problem.weights.layout;
  WindowGeometry geometry = CommonGeometry(problem, problem.wide.layout, problem.narrow.layout);
  for (size_t d = 0; d < 2; ++d) {
    geometry.taps[d] = weights.sizes[d + 3];
    geometry.stride[d] = problem.stride[d + 1];
    geometry.dilation[d] = problem.dilation[d + 1];
    geometry.padding[d] = problem.padding[d + 1];
    geometry.weight_at[d] = weights.strides[d + 3];
  }
  geometry.weight_source = weights.strides[1];
  geometry.weight_result = weights.strides[0];
  return geometry;
}

// The elements of wide whose coordinate is `residue` modulo the stride, along one dimension. Of the kernel, the
// elements `last`, `last` - step, ... meet windows; element i of the part is covered by window i - padding of narrow
// with `last`, by a later one with each next one.
struct Residue {
  int64_t residue, count, taps, last, step, padding, dilation;
};

std::vector<Residue> ResiduesOf(const ConvolutionProblem& problem, size_t d) {
  const int64_t stride = problem.stride[d], dilation = problem.dilation[d], padding = problem.padding[d];
  const int64_t kernel = problem.weights.layout.sizes[d + 2];
  const int64_t size = problem.wide.layout.sizes[d + 2];
  const int64_t step = stride / std::gcd(stride, dilation);
  std::vector<Residue> residues;
  for (int64_t r = 0; r < std::min(stride, size); ++r) {
    Residue residue = {r, (size - r + stride - 1) / stride, 0, 0, step, 0, dilation * step / stride};
    for (int64_t tap = 0; tap < kernel; ++tap) {
      const int64_t distance = r + padding - tap * dilation;  // of the part's first element to a window, if a multiple
      if (distance % stride != 0) continue;
      ++residue.taps;
      residue.last = tap;
      residue.padding = -distance / stride;
    }
    residues.push_back(residue);
  }
  return residues;
}

// The geometry of a part of wide, whose source is narrow.
WindowGeometry PartGeometry(const ConvolutionProblem& problem, const std::array<Residue, 2>& part) {
  const StridedLayout& weights = problem.weights.layout;
  WindowGeometry geometry = CommonGeometry(problem, problem.narrow.layout, problem.wide.layout);
  geometry.weight_source = weights.strides[0];
  geometry.weight_result = weights.strides[1];
  for (size_t d = 0; d < 2; ++d) {
    const Residue& residue = part[d];
    geometry.result[d] = residue.count;
    geometry.result_offset += residue.residue * geometry.result_strides.at[d];
    geometry.result_strides.at[d] *= problem.stride[d + 1];
    if (residue.taps == 0) geometry.source_channels = 0;
    geometry.taps[d] = std::max<int64_t>(residue.taps, 1);
    geometry.dilation[d] = residue.dilation;
    geometry.padding[d] = residue.padding;
    geometry.weight_offset += residue.last * weights.strides[d + 3];
    geometry.weight_at[d] = -residue.step * weights.strides[d + 3];
  }
  return geometry;
}

}  // namespace

bool HasWindowGeometry(const ConvolutionProblem& problem) {
  if (problem.dtype != DType::kFloat32 && problem.dtype != DType::kFloat64) return false;
  if (problem.groups != 1 || problem.spatial_dims > 2) return false;
  if (problem.NumTaps() > kMaxTaps || problem.weights.layout.sizes[4] > kMaxRowTaps) return false;
  int64_t reach = 0;
  for (const ConvolutionOperand* operand : {&problem.wide, &problem.weights, &problem.narrow}) {
    if (NumElements(operand->layout.sizes) == 0 || StorageExtent(operand->layout) > kMaxExtent) return false;
    for (size_t d = 0; d < operand->layout.sizes.size(); ++d) {
      reach = std::max(reach, operand->layout.sizes[d] + operand->layout.strides[d]);
    }
  }
  for (size_t d = 0; d < kSpatialDims; ++d) {
    reach = std::max(
        {reach, problem.padding[d], problem.stride[d], problem.dilation[d] * problem.weights.layout.sizes[d + 2]});
  }
  return reach <= kMaxExtent;
}

std::vector<WindowGeometry> WindowGeometries(const ConvolutionProblem& problem) {
  if (problem.product != ConvolutionProduct::kBackwardData) return {ForwardGeometry(problem)};
  std::vector<WindowGeometry> parts;
  for (const Residue& y : ResiduesOf(problem, 1)) {
    for (const Residue& x : ResiduesOf(problem, 2)) parts.push_back(PartGeometry(problem, {y, x}));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const WindowGeometry& a, const WindowGeometry& b) { return a.NumProducts() > b.NumProducts(); });
  // The largest part shares processors with the smallest one, where two blocks fit on each.
  if (parts.size() > 2) std::swap(parts[parts.size() - 2], parts.back());
  return parts;
}

std::string GeometryText(const WindowGeometry& geometry, absl::string_view name) {
  std::string text =
      absl::StrCat("struct ", name, " {\n  using Element = ", ElementName(geometry.dtype), ";\n  using Index = int;\n");
  const auto constant = [&](absl::string_view what, int64_t value) {
    absl::StrAppend(&text, "  static constexpr Index k", what, " = ", value, ";\n");
  };
  const auto both = [&](absl::string_view what, const Extent& values) {
    constant(absl::StrCat(what, "H"), values[0]);
    constant(absl::StrCat(what, "W"), values[1]);
  };
  const auto strides = [&](absl::string_view tensor, const ImageStrides& of) {
    constant(absl::StrCat(tensor, "N"), of.image);
    constant(absl::StrCat(tensor, "C"), of.channel);
    both(absl::StrCat(tensor, "At"), of.at);
  };
  constant("Images", geometry.images);
  both("Result", geometry.result);
  constant("Channels", geometry.channels);
  both("Source", geometry.source);
  constant("SourceChannels", geometry.source_channels);
  both("Taps", geometry.taps);
  both("Stride", geometry.stride);
  both("Dilation", geometry.dilation);
  both("Padding", geometry.padding);
  strides("Source", geometry.source_strides);
  constant("SourceVector", geometry.source_vector);
  strides("Result", geometry.result_strides);
  constant("ResultOffset", geometry.result_offset);
  constant("ResultVector", geometry.result_vector);
  constant("WeightOffset", geometry.weight_offset);
  constant("WeightSource", geometry.weight_source);
  constant("WeightResult", geometry.weight_result);
  both("WeightAt", geometry.weight_at);
  constant("Bias", geometry.bias);
  absl::StrAppend(&text, "  static constexpr bool kSourceInnerWeights = ",
                  geometry.weight_source < geometry.weight_result ? "true" : "false", ";\n};\n");
  return text;
}

}  // namespace cotan::cuda
