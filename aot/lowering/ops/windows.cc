// SPDX-License-Identifier: Apache-2.0

// Rows of adaptive pooling, im2col and col2im.
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "aot/lowering/ops/flat_positions.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"
#include "aot/lowering/ops/unbatched.h"

namespace cotan::aot {
namespace {

size_t At(int64_t dim) { return static_cast<size_t>(dim); }

// Adaptive pooling ------------------------------------------------------------------

// Returns the pooling configuration if the windows have equal sizes and do not overlap, so that the
// pooling kernels apply; none otherwise, or if sizes are dynamic.
std::optional<PoolConfig> EqualWindows(const SymIntVector& in, const SymIntVector& out, size_t spatial) {
  PoolConfig config;
  for (size_t k = 0; k < spatial; ++k) {
    const SymInt& from = in[in.size() - spatial + k];
    const SymInt& to = out[out.size() - spatial + k];
    if (!from.is_constant() || !to.is_constant() || to.constant() == 0 || from.constant() % to.constant() != 0) {
      return std::nullopt;
    }
    config.kernel.push_back(from.constant() / to.constant());
  }
  config.stride = config.kernel;
  config.padding.assign(spatial, 0);
  config.dilation.assign(spatial, 1);
  return config;
}

// Window `i` (i64) of `out` along a dimension of size `in`: [start, end).
struct Window {
  Tensor start, end;
};

Window WindowOf(Lowering& l, const Tensor& i, const SymInt& in, const SymInt& out) {
  const auto divide = [&](const Tensor& a) { return l.b.Binary(serialization::FN_FLOOR_DIV, a, l.b.Literal(out)); };
  const Tensor first = i * l.b.Literal(in);
  return {divide(first), divide(first + l.b.Literal(in + out - SymInt(1)))};
}

// Returns a bound of the lengths of windows. The length of the longest window is not a function that symbolic sizes can
// have, so that it could not be found from the sizes of the traces.
SymInt WindowBound(const SymInt& in, const SymInt& out) {
  if (out == SymInt(0)) return 1;
  return SymInt::Binary(SymInt::Kind::kFloorDiv, in + out - SymInt(1), out) + SymInt(1);
}

// Gathers the elements of each of `to` windows along `dim` next to each other, [..., to, window, ...], and adds them.
// Shorter windows repeat their last element, which does not count.
Tensor SumOfGatheredWindows(Lowering& l, const Tensor& x, int64_t dim, const SymInt& to) {
  const SymInt from = x.sizes()[At(dim)];
  const SymIntVector pairs = {to, WindowBound(from, to)};
  const Window window = WindowOf(l, l.b.Iota(0, DType::kInt64, pairs), from, to);
  const Tensor place = window.start + l.b.Iota(1, DType::kInt64, pairs);
  const Tensor inside = l.b.Lt(place, window.end);
  const Tensor index = l.b.Minimum(place, window.end - l.b.Literal(SymInt(1)));
  const Tensor gathered = l.widened(l.b.Gather(x, index, dim));
  SymIntVector along(At(gathered.rank() - dim), SymInt(1));
  along[0] = pairs[0];
  along[1] = pairs[1];
  const Tensor counted = l.b.Select(l.b.View(inside, along), gathered, l.b.Literal(0.0));
  return l.b.Squeeze(l.b.ReduceSum(counted, {dim + 1}), {{dim + 1}});
}

// Returns the sum of the elements of x in each of `to` windows along `dim`. No element outside of a window is read for
// it, so that infinities and NaN reach their own windows only. Halves may be returned in f32.
Tensor SumOfWindows(Lowering& l, const Tensor& x, int64_t dim, const SymInt& to) {
  const SymInt from = x.sizes()[At(dim)];
  if (from == to) return x;
  SymIntVector sizes = x.sizes();
  sizes[At(dim)] = to;
  if (from == SymInt(0) || to == SymInt(0)) return l.b.Full(l.b.Literal(0.0), x.dtype(), sizes);
  if (to == SymInt(1)) return l.b.ReduceSum(l.widened(x), {dim});
  return SumOfGatheredWindows(l, x, dim, to);
}

// Divides each element along `dim` of x by the length of its window of a dimension of size `in`. Halves may be returned
// in f32.
Tensor DividedByLength(Lowering& l, const Tensor& x, int64_t dim, const SymInt& in) {
  const SymInt out = x.sizes()[At(dim)];
  if (in == out) return x;
  const Tensor wide = l.widened(x);
  const Window window = WindowOf(l, l.b.Iota(0, DType::kInt64, {out}), in, out);
  SymIntVector along(At(x.rank() - dim), SymInt(1));
  along[0] = out;
  return wide / l.b.View(l.b.Cast(window.end - window.start, wide.dtype()), along);
}

std::vector<int64_t> SpatialDims(size_t spatial) {
  std::vector<int64_t> dims(spatial);
  std::iota(dims.begin(), dims.end(), -static_cast<int64_t>(spatial));
  return dims;
}

bool IsGlobal(const SymIntVector& out, size_t spatial) {
  for (size_t k = 0; k < spatial; ++k) {
    if (!(out[out.size() - 1 - k] == SymInt(1))) return false;
  }
  return true;
}

template <size_t kSpatial>
absl::Status LowerAdaptiveAvgPool(Lowering& l) {
  const Tensor x = l.operand(0);
  const SymIntVector out = l.result().sizes;
  if (IsGlobal(out, kSpatial)) return l.ReturnCast({l.b.ReduceMean(l.widened(x), SpatialDims(kSpatial))});
  if (const std::optional<PoolConfig> config = EqualWindows(x.sizes(), out, kSpatial); config.has_value()) {
    const bool unbatched = x.rank() == kSpatial + 1;
    return l.Return(l.b.View(l.b.AvgPool(Batched(l, x, unbatched), *config, WithBatch(out, unbatched)), out));
  }
  Tensor y = x;
  for (int64_t d = x.rank() - static_cast<int64_t>(kSpatial); d < x.rank(); ++d) {
    y = DividedByLength(l, SumOfWindows(l, y, d, out[At(d)]), d, x.sizes()[At(d)]);
  }
  return l.ReturnCast({y});
}

// (grad, self)
template <size_t kSpatial>
absl::Status LowerAdaptiveAvgPoolBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const SymIntVector in = l.result().sizes;
  if (IsGlobal(grad.sizes(), kSpatial)) {
    SymInt area = 1;
    for (size_t k = 0; k < kSpatial; ++k) area = area * in[in.size() - 1 - k];
    return l.Return(l.b.Expand(grad / l.b.Literal(area), in));
  }
  if (const std::optional<PoolConfig> config = EqualWindows(in, grad.sizes(), kSpatial); config.has_value()) {
    const bool unbatched = grad.rank() == kSpatial + 1;
    return l.Return(l.b.View(l.b.AvgPoolBackward(Batched(l, grad, unbatched), *config, WithBatch(in, unbatched)), in));
  }
  // Window i contains element j exactly if window j of the reverse direction contains i. The last dimension comes
  // first, so that most elements are copied in whole rows.
  Tensor result = grad;
  for (int64_t d = grad.rank(); d-- > grad.rank() - static_cast<int64_t>(kSpatial);) {
    result = SumOfWindows(l, DividedByLength(l, result, d, in[At(d)]), d, in[At(d)]);
  }
  return l.ReturnCast({result});
}

// Gathers the elements of each window next to each other: [..., out, window, ...]. Shorter windows
// repeat their last element.
absl::Status LowerUnequalMaxPool(Lowering& l, int64_t spatial) {
  Tensor x = l.operand(0);
  const SymIntVector in = x.sizes();
  const SymIntVector& out = l.result().sizes;
  const int64_t first = x.rank() - spatial;
  Tensor flat;  // row-major place in the plane
  for (int64_t s = 0; s < spatial; ++s) {
    const SymInt& size = in[At(first + s)];
    const SymInt& count = out[At(first + s)];
    const SymIntVector pairs = {count, WindowBound(size, count)};
    const Window window = WindowOf(l, l.b.Iota(0, DType::kInt64, pairs), size, count);
    const Tensor index =
        l.b.Minimum(window.start + l.b.Iota(1, DType::kInt64, pairs), window.end - l.b.Literal(SymInt(1)));
    x = l.b.Gather(x, index, first + 2 * s);
    SymIntVector along(At(2 * spatial), SymInt(1));
    along[At(2 * s)] = count;
    along[At(2 * s + 1)] = pairs[1];
    const Tensor place = l.b.View(index, along);
    flat = flat.defined() ? flat * l.b.Literal(size) + place : place;
  }
  std::vector<int64_t> windows;
  SymInt area = 1;
  for (int64_t s = 0; s < spatial; ++s) {
    windows.push_back(first + 2 * s + 1);
    area = area * in[At(first + s)];
  }
  const Tensor extreme = l.b.ReduceMax(x, windows);
  Tensor hit = l.b.Eq(x, extreme);
  if (IsFloatingPoint(x.dtype())) hit = l.b.Or(hit, l.b.Unary(serialization::FN_ISNAN, x));
  const Tensor index = l.b.Reduce(serialization::FN_REDUCE_MIN, l.b.Select(hit, flat, l.b.Literal(area)), windows);
  return l.ReturnAll({l.b.Squeeze(extreme, windows), l.b.Squeeze(index, windows)});
}

template <size_t kSpatial>
absl::Status LowerAdaptiveMaxPool(Lowering& l) {
  const Tensor x = l.operand(0);
  const SymIntVector out = l.result().sizes;
  const std::optional<PoolConfig> config = EqualWindows(x.sizes(), out, kSpatial);
  if (!config.has_value()) return LowerUnequalMaxPool(l, kSpatial);
  const bool unbatched = x.rank() == kSpatial + 1;
  const auto [values, indices] = l.b.MaxPool(Batched(l, x, unbatched), *config, WithBatch(out, unbatched));
  return l.ReturnAll({l.b.View(values, out), l.b.View(indices, out)});
}

// Returns `sizes` with the last `spatial` dimensions merged.
SymIntVector MergePlane(const SymIntVector& sizes, size_t spatial) {
  SymIntVector merged(sizes.begin(), sizes.end() - static_cast<std::ptrdiff_t>(spatial));
  SymInt area = 1;
  for (size_t k = 0; k < spatial; ++k) area = area * sizes[sizes.size() - 1 - k];
  merged.push_back(area);
  return merged;
}

// (grad, self, indices)
template <size_t kSpatial>
absl::Status LowerAdaptiveMaxPoolBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const SymIntVector in = l.result().sizes;
  if (const std::optional<PoolConfig> config = EqualWindows(in, grad.sizes(), kSpatial); config.has_value()) {
    const bool unbatched = grad.rank() == kSpatial + 1;
    const Tensor result = l.b.MaxPoolBackward(Batched(l, grad, unbatched), Batched(l, l.tensor(2), unbatched), *config,
                                              WithBatch(in, unbatched));
    return l.Return(l.b.View(result, in));
  }
  const SymIntVector planes = MergePlane(grad.sizes(), kSpatial);
  const Tensor index = l.b.View(l.tensor(2), planes);
  const Tensor position = FlatPositions(l, index, MergePlane(in, kSpatial), static_cast<int64_t>(planes.size()) - 1);
  const Tensor sum = l.b.ScatterAdd(l.b.View(grad, planes), position, Tensor(), 0, -1, {NumElementsOf(in)});
  return l.Return(l.b.View(sum, in));
}

// Unfold and fold -------------------------------------------------------------------

// Sliding windows over two dimensions.
struct Blocks {
  std::vector<int64_t> kernel, dilation, padding, stride;
};

// Reads the arguments kernel, dilation, padding, stride from position `first`.
Blocks BlocksOf(Lowering& l, int first) {
  Blocks blocks{l.integers(first), l.integers(first + 1), l.integers(first + 2), l.integers(first + 3)};
  for (std::vector<int64_t>* list : {&blocks.kernel, &blocks.dilation, &blocks.padding, &blocks.stride}) {
    list->resize(2, list->empty() ? 1 : list->front());
  }
  return blocks;
}

// Returns the number of windows along a dimension of size `padded`.
SymInt CountOf(const Blocks& blocks, size_t i, const SymInt& padded) {
  const SymInt room = padded - SymInt(blocks.dilation[i] * (blocks.kernel[i] - 1) + 1);
  return SymInt::Binary(SymInt::Kind::kFloorDiv, room, SymInt(blocks.stride[i])) + SymInt(1);
}

Tensor Padded(Lowering& l, const Tensor& x, int64_t dim, int64_t padding) {
  if (padding == 0) return x;
  SymIntVector border = x.sizes();
  border[At(dim)] = SymInt(padding);
  const Tensor zeros = l.b.Full(l.b.Literal(SymInt(0)), x.dtype(), border);
  return l.b.Concat({zeros, x, zeros}, dim);
}

// (self, kernel, dilation, padding, stride): [N, C, H, W] -> [N, C kh kw, windows]
absl::Status LowerIm2Col(Lowering& l) {
  Tensor x = l.tensor(0);
  const bool unbatched = x.rank() == 3;
  x = Batched(l, x, unbatched);
  const Blocks blocks = BlocksOf(l, 1);
  for (size_t i = 0; i < 2; ++i) {
    const auto dim = static_cast<int64_t>(2 + i);
    x = Padded(l, x, dim, blocks.padding[i]);
    x = l.b.Unfold(x, dim, blocks.dilation[i] * (blocks.kernel[i] - 1) + 1, blocks.stride[i]);
    x = l.b.Slice(x, x.rank() - 1, 0, x.sizes().back(), blocks.dilation[i]);
  }
  return l.Return(l.b.View(l.b.Permute(x, {0, 1, 4, 5, 2, 3}), l.result().sizes));
}

// (self, output_size, kernel, dilation, padding, stride): the transpose of im2col.
absl::Status LowerCol2Im(Lowering& l) {
  Tensor x = l.tensor(0);
  const bool unbatched = x.rank() == 2;
  x = Batched(l, x, unbatched);
  const Blocks blocks = BlocksOf(l, 2);
  const SymIntVector out = WithBatch(l.result().sizes, unbatched);
  SymIntVector padded = out, windows;
  for (size_t i = 0; i < 2; ++i) {
    padded[2 + i] = out[2 + i] + SymInt(2 * blocks.padding[i]);
    windows.push_back(CountOf(blocks, i, padded[2 + i]));
  }
  x = l.b.View(x, {out[0], out[1], blocks.kernel[0], blocks.kernel[1], windows[0], windows[1]});
  x = l.b.Permute(x, {0, 1, 2, 4, 3, 5});  // [N, C, kh, h, kw, w]
  for (size_t i = 2; i-- > 0;) {
    const SymIntVector pairs = {SymInt(blocks.kernel[i]), windows[i]};
    const Tensor index = l.b.Iota(0, DType::kInt64, pairs) * l.b.Literal(SymInt(blocks.dilation[i])) +
                         l.b.Iota(1, DType::kInt64, pairs) * l.b.Literal(SymInt(blocks.stride[i]));
    const auto dim = static_cast<int64_t>(2 + 2 * i);
    SymIntVector sizes(x.sizes().begin(), x.sizes().begin() + dim);
    sizes.push_back(padded[2 + i]);
    sizes.insert(sizes.end(), x.sizes().begin() + dim + 2, x.sizes().end());
    x = l.b.ScatterAdd(x, index, Tensor(), dim, -1, sizes);
  }
  for (size_t i = 0; i < 2; ++i) {
    const SymInt start(blocks.padding[i]);
    x = l.b.Slice(x, static_cast<int64_t>(2 + i), start, start + out[2 + i], 1);
  }
  return l.Return(l.b.View(x, l.result().sizes));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._adaptive_avg_pool2d.default", LowerAdaptiveAvgPool<2>),
    Row("aten._adaptive_avg_pool2d_backward.default", LowerAdaptiveAvgPoolBackward<2>),
    Row("aten._adaptive_avg_pool3d.default", LowerAdaptiveAvgPool<3>),
    Row("aten._adaptive_avg_pool3d_backward.default", LowerAdaptiveAvgPoolBackward<3>),
    Row("aten.adaptive_max_pool2d.default", LowerAdaptiveMaxPool<2>),
    Row("aten.adaptive_max_pool2d_backward.default", LowerAdaptiveMaxPoolBackward<2>),
    Row("aten.adaptive_max_pool3d.default", LowerAdaptiveMaxPool<3>),
    Row("aten.adaptive_max_pool3d_backward.default", LowerAdaptiveMaxPoolBackward<3>),
    Row("aten.col2im.default", LowerCol2Im),
    Row("aten.im2col.default", LowerIm2Col),
};

}  // namespace

absl::Span<const OpRow> WindowRows() { return kRows; }

}  // namespace cotan::aot
