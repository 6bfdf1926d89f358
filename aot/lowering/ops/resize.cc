// SPDX-License-Identifier: Apache-2.0

// Rows of interpolation. One dimension at a time, each element of the result is a weighted sum of a
// few gathered rows of the input; the backward scatters them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

enum class Mode : uint8_t { kNearest, kNearestExact, kLinear, kCubic };

// One input row of the weighted sum.
struct Tap {
  Tensor index;   // i64[out]
  Tensor weight;  // [out]; undefined: 1
};

// The resize of one dimension.
struct Resize {
  Mode mode = Mode::kNearest;
  SymInt in;
  SymInt out;
  bool align_corners = false;
  double factor = 0;              // scale factor of the user; 0: the quotient of the sizes
  DType dtype = DType::kFloat32;  // of the arithmetic
};

Tensor SizeAsNumber(Lowering& l, const SymInt& size, DType dtype) {
  return l.b.Full(l.b.Literal(size), dtype, {SymInt(1)});
}

// Returns the number of input elements per output element.
Tensor Scale(Lowering& l, const Resize& r) {
  if (r.align_corners) {
    const Tensor steps = SizeAsNumber(l, r.out - SymInt(1), r.dtype);
    const Tensor scale = SizeAsNumber(l, r.in - SymInt(1), r.dtype) / l.b.Maximum(steps, l.b.Literal(1.0));
    return l.b.Select(l.b.Gt(steps, l.b.Literal(0.0)), scale, l.b.Literal(0.0));
  }
  if (r.factor > 0) return l.b.Full(l.b.Literal(1 / r.factor), r.dtype, {SymInt(1)});
  return SizeAsNumber(l, r.in, r.dtype) / SizeAsNumber(l, r.out, r.dtype);
}

// Returns the position in the input of each element of the result.
Tensor Source(Lowering& l, const Resize& r) {
  const Tensor i = l.b.Iota(0, r.dtype, {r.out});
  const Tensor half = l.b.Literal(0.5);
  switch (r.mode) {
    case Mode::kNearest:
      return i * Scale(l, r);
    case Mode::kNearestExact:
      return (i + half) * Scale(l, r);
    case Mode::kLinear:
    case Mode::kCubic:
      break;
  }
  if (r.align_corners) return i * Scale(l, r);
  const Tensor source = Scale(l, r) * (i + half) - half;
  return r.mode == Mode::kLinear ? l.b.Maximum(source, l.b.Literal(0.0)) : source;
}

// Clamps `index` to the input.
Tensor Clamped(Lowering& l, const Tensor& index, const SymInt& in) {
  return l.b.Minimum(l.b.Maximum(index, l.b.Literal(SymInt(0))), l.b.Literal(in - SymInt(1)));
}

// Returns the cubic convolution kernel with a = -0.75 at distance `x` in [0, 1].
Tensor CubicNear(Lowering& l, const Tensor& x) {
  constexpr double a = -0.75;
  return ((l.b.Literal(a + 2) * x - l.b.Literal(a + 3)) * x) * x + l.b.Literal(1.0);
}
// Returns the cubic convolution kernel with a = -0.75 at distance `x` in [1, 2].
Tensor CubicFar(Lowering& l, const Tensor& x) {
  constexpr double a = -0.75;
  return ((l.b.Literal(a) * x - l.b.Literal(5 * a)) * x + l.b.Literal(8 * a)) * x - l.b.Literal(4 * a);
}

std::vector<Tap> TapsOf(Lowering& l, const Resize& r) {
  const Tensor source = Source(l, r);
  const Tensor floor = l.b.Unary(serialization::FN_FLOOR, source);
  const Tensor base = l.b.Cast(floor, DType::kInt64);
  const auto at = [&](int64_t offset) { return Clamped(l, base + l.b.Literal(SymInt(offset)), r.in); };
  const Tensor one = l.b.Literal(1.0);
  switch (r.mode) {
    case Mode::kNearest:
    case Mode::kNearestExact:
      return {{at(0), Tensor()}};
    case Mode::kLinear: {
      const Tensor t = source - floor;
      return {{at(0), one - t}, {at(1), t}};
    }
    case Mode::kCubic:
      break;
  }
  const Tensor t = source - floor;
  return {{at(-1), CubicFar(l, t + one)},
          {at(0), CubicNear(l, t)},
          {at(1), CubicNear(l, one - t)},
          {at(2), CubicFar(l, l.b.Literal(2.0) - t)}};
}

// Views [out] along dimension `dim` of a tensor of rank `rank`.
Tensor AlongDim(Lowering& l, const Tensor& weight, int64_t dim, int64_t rank) {
  SymIntVector sizes = {weight.sizes()[0]};
  for (int64_t d = dim + 1; d < rank; ++d) sizes.push_back(SymInt(1));
  return l.b.View(weight, sizes);
}

Tensor Interpolate(Lowering& l, const Tensor& x, int64_t dim, const Resize& r) {
  Tensor sum;
  for (const Tap& tap : TapsOf(l, r)) {
    Tensor rows = l.b.Gather(x, tap.index, dim);
    if (tap.weight.defined()) rows = rows * AlongDim(l, tap.weight, dim, x.rank());
    sum = sum.defined() ? sum + rows : rows;
  }
  return sum;
}

Tensor InterpolateBackward(Lowering& l, const Tensor& grad, int64_t dim, const Resize& r) {
  SymIntVector sizes = grad.sizes();
  sizes[static_cast<size_t>(dim)] = r.in;
  Tensor sum;
  for (const Tap& tap : TapsOf(l, r)) {
    const Tensor rows = tap.weight.defined() ? grad * AlongDim(l, tap.weight, dim, grad.rank()) : grad;
    sum = l.b.ScatterAdd(rows, tap.index, sum, dim, -1, sizes);
  }
  return sum;
}

// Returns the resize of one spatial dimension; `scale` is the index of the argument with the user's
// factor.
Resize ResizeOf(Lowering& l, Mode mode, bool align_corners, const SymInt& in, const SymInt& out, int scale) {
  const DType dtype = l.result().dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const double factor = l.is_none(scale) || align_corners ? 0 : l.number(scale);
  return {mode, in, out, align_corners, factor, dtype};
}

bool HasAlignCorners(Mode mode) { return mode == Mode::kLinear || mode == Mode::kCubic; }

// Returns whether ATen copies along a dimension that keeps its size, whatever the user's factor is.
bool CopiesEqualSizes(Mode mode) { return mode == Mode::kLinear; }

// Returns the resize without the user's factor where a result of nearest neighbours has the size of the input or twice
// that: so do ATen's backward and its kernel for channels that are adjacent in memory.
Resize InWholeSteps(Resize r) {
  if (r.mode == Mode::kNearest && (r.out == r.in || r.out == r.in * SymInt(2))) r.factor = 0;
  return r;
}

// Returns how many elements of the result copy each element of the input, if that is 1, 2, 4, 8 or 16, for which the
// positions of the sources are exact. Returns 0 otherwise.
int64_t Repetitions(const Resize& r) {
  if (r.mode != Mode::kNearest && r.mode != Mode::kNearestExact) return 0;
  for (const int64_t count : {1, 2, 4, 8, 16}) {
    const bool is_factor = r.factor == 0 || r.factor == static_cast<double>(count);
    if (r.out == r.in * SymInt(count) && is_factor) return count;
  }
  return 0;
}

// Returns the sums of windows of `sizes`, which do not overlap.
Tensor SumWindows(Lowering& l, const Tensor& x, const std::vector<int64_t>& sizes, SymIntVector output_sizes) {
  PoolConfig config;
  config.kernel = config.stride = sizes;
  config.padding.assign(sizes.size(), 0);
  config.dilation.assign(sizes.size(), 1);
  config.divisor_override = 1;
  return l.b.AvgPool(x, config, std::move(output_sizes));
}

// Returns whether all spatial dimensions keep their sizes.
bool KeepsSizes(const SymIntVector& in, const SymIntVector& out) {
  return std::equal(in.begin() + 2, in.end(), out.begin() + 2, out.end());
}

// (self, output_size, [align_corners], scale of each dimension)
template <Mode kMode>
absl::Status LowerResize(Lowering& l) {
  const DType dtype = l.result().dtype;
  if (!IsFloatingPoint(dtype) && kMode != Mode::kNearest && kMode != Mode::kNearestExact) {
    return l.Unsupported("integers");
  }
  Tensor x = l.wide(0);
  const bool align_corners = HasAlignCorners(kMode) && l.flag(2);
  const int scales = HasAlignCorners(kMode) ? 3 : 2;
  const SymIntVector out = l.result().sizes;
  const bool has_one_channel = out.size() > 3 && out[1] == SymInt(1);  // adjacent in memory
  for (int64_t d = 2; d < static_cast<int64_t>(out.size()); ++d) {
    const auto i = static_cast<size_t>(d);
    if (CopiesEqualSizes(kMode) && x.sizes()[i] == out[i]) continue;
    const Resize r = ResizeOf(l, kMode, align_corners, x.sizes()[i], out[i], scales + static_cast<int>(d) - 2);
    x = Interpolate(l, x, d, has_one_channel ? InWholeSteps(r) : r);
  }
  return l.Return(l.b.Cast(x, dtype));
}

// (grad, output_size, input_size, [align_corners], scale of each dimension)
template <Mode kMode>
absl::Status LowerResizeBackward(Lowering& l) {
  const DType dtype = l.result().dtype;
  Tensor grad = l.wide(0);
  const bool align_corners = HasAlignCorners(kMode) && l.flag(3);
  const int scales = HasAlignCorners(kMode) ? 4 : 3;
  const SymIntVector in = l.result().sizes;
  // As in ATen, also where the forward does not copy.
  if (kMode == Mode::kCubic && KeepsSizes(in, grad.sizes())) return l.Return(l.b.Cast(grad, dtype));
  std::vector<Resize> resizes;
  std::vector<int64_t> repetitions;
  for (size_t d = 2; d < in.size(); ++d) {
    const Resize r = ResizeOf(l, kMode, align_corners, in[d], grad.sizes()[d], scales + static_cast<int>(d) - 2);
    resizes.push_back(InWholeSteps(r));
    repetitions.push_back(Repetitions(resizes.back()));
  }
  if (std::find(repetitions.begin(), repetitions.end(), 0) == repetitions.end()) {
    return l.Return(l.b.Cast(SumWindows(l, grad, repetitions, in), dtype));
  }
  for (size_t d = in.size() - 1; d >= 2; --d) {
    if (CopiesEqualSizes(kMode) && in[d] == grad.sizes()[d]) continue;
    grad = InterpolateBackward(l, grad, static_cast<int64_t>(d), resizes[d - 2]);
  }
  return l.Return(l.b.Cast(grad, dtype));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._upsample_nearest_exact1d.default", LowerResize<Mode::kNearestExact>),
    Row("aten._upsample_nearest_exact1d_backward.default", LowerResizeBackward<Mode::kNearestExact>),
    Row("aten._upsample_nearest_exact2d.default", LowerResize<Mode::kNearestExact>),
    Row("aten._upsample_nearest_exact2d_backward.default", LowerResizeBackward<Mode::kNearestExact>),
    Row("aten._upsample_nearest_exact3d.default", LowerResize<Mode::kNearestExact>),
    Row("aten._upsample_nearest_exact3d_backward.default", LowerResizeBackward<Mode::kNearestExact>),
    Row("aten.upsample_bicubic2d.default", LowerResize<Mode::kCubic>),
    Row("aten.upsample_bicubic2d_backward.default", LowerResizeBackward<Mode::kCubic>),
    Row("aten.upsample_bilinear2d.default", LowerResize<Mode::kLinear>),
    Row("aten.upsample_bilinear2d_backward.default", LowerResizeBackward<Mode::kLinear>),
    Row("aten.upsample_linear1d.default", LowerResize<Mode::kLinear>),
    Row("aten.upsample_linear1d_backward.default", LowerResizeBackward<Mode::kLinear>),
    Row("aten.upsample_nearest1d.default", LowerResize<Mode::kNearest>),
    Row("aten.upsample_nearest1d_backward.default", LowerResizeBackward<Mode::kNearest>),
    Row("aten.upsample_nearest2d.default", LowerResize<Mode::kNearest>),
    Row("aten.upsample_nearest2d_backward.default", LowerResizeBackward<Mode::kNearest>),
    Row("aten.upsample_nearest3d.default", LowerResize<Mode::kNearest>),
    Row("aten.upsample_nearest3d_backward.default", LowerResizeBackward<Mode::kNearest>),
    Row("aten.upsample_trilinear3d.default", LowerResize<Mode::kLinear>),
    Row("aten.upsample_trilinear3d_backward.default", LowerResizeBackward<Mode::kLinear>),
};

}  // namespace

absl::Span<const OpRow> ResizeRows() { return kRows; }

}  // namespace cotan::aot
