// SPDX-License-Identifier: Apache-2.0

// Rows of reflection, replication and circular padding, and of pixel and channel shuffles.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

enum class Border : uint8_t { kReflect, kReplicate };

// Returns the source index of each of the `out` elements of a padded dimension. i64[out].
Tensor SourceOf(Lowering& l, Border border, const SymInt& in, const SymInt& out, const SymInt& before) {
  const Tensor i = l.b.Iota(0, DType::kInt64, {out}) - l.b.Literal(before);
  const Tensor zero = l.b.Literal(SymInt(0));
  const Tensor last = l.b.Literal(in - SymInt(1));
  if (border == Border::kReplicate) return l.b.Minimum(l.b.Maximum(i, zero), last);
  const Tensor left = l.b.Abs(i);  // mirrored at the first element
  return l.b.Minimum(left, l.b.Literal((in - SymInt(1)) * SymInt(2)) - left);
}

// Returns the padding before and after dimension `d`; the list begins with the last dimension.
std::pair<SymInt, SymInt> PaddingOf(const SymIntVector& padding, int64_t d, int64_t rank) {
  const auto first = static_cast<size_t>(2 * (rank - 1 - d));
  return {padding[first], padding[first + 1]};
}

// (self, padding)
template <Border kBorder>
absl::Status LowerPad(Lowering& l) {
  Tensor x = l.tensor(0);
  const SymIntVector padding = l.sizes(1);
  const int64_t rank = x.rank();
  for (int64_t d = rank - static_cast<int64_t>(padding.size()) / 2; d < rank; ++d) {
    const auto [before, after] = PaddingOf(padding, d, rank);
    if (before == SymInt(0) && after == SymInt(0)) continue;
    const SymInt& out = l.result().sizes[static_cast<size_t>(d)];
    x = l.b.Gather(x, SourceOf(l, kBorder, x.sizes()[static_cast<size_t>(d)], out, before), d);
  }
  return l.Return(x);
}

// (grad, self, padding): sums the gradients of elements with the same source.
template <Border kBorder>
absl::Status LowerPadBackward(Lowering& l) {
  Tensor grad = l.tensor(0);
  const SymIntVector padding = l.sizes(2);
  const int64_t rank = grad.rank();
  for (int64_t d = rank - 1; d >= rank - static_cast<int64_t>(padding.size()) / 2; --d) {
    const auto [before, after] = PaddingOf(padding, d, rank);
    if (before == SymInt(0) && after == SymInt(0)) continue;
    const auto i = static_cast<size_t>(d);
    SymIntVector sizes = grad.sizes();
    const SymInt out = sizes[i];
    sizes[i] = l.result().sizes[i];
    grad = l.b.ScatterAdd(grad, SourceOf(l, kBorder, sizes[i], out, before), Tensor(), d, -1, sizes);
  }
  return l.Return(grad);
}

// Splits the last three dimensions of x into five of sizes `split`, permutes these by `moved`, and
// reshapes to the result's sizes.
absl::Status RearrangePlanes(Lowering& l, const Tensor& x, absl::Span<const SymInt> split,
                             absl::Span<const int64_t> moved) {
  const int64_t leading = x.rank() - 3;
  SymIntVector sizes(x.sizes().begin(), x.sizes().begin() + leading);
  sizes.insert(sizes.end(), split.begin(), split.end());
  std::vector<int64_t> order(static_cast<size_t>(leading));
  std::iota(order.begin(), order.end(), 0);
  for (const int64_t d : moved) order.push_back(leading + d);
  return l.Return(l.b.View(l.b.Permute(l.b.View(x, sizes), order), l.result().sizes));
}

// [..., C r r, H, W] -> [..., C, H r, W r]
absl::Status LowerPixelShuffle(Lowering& l) {
  const Tensor x = l.tensor(0);
  const SymInt r = l.size(1);
  const absl::Span<const SymInt> in = absl::MakeConstSpan(x.sizes()).last(3);
  const absl::Span<const SymInt> out = absl::MakeConstSpan(l.result().sizes).last(3);
  return RearrangePlanes(l, x, {out[0], r, r, in[1], in[2]}, {0, 3, 1, 4, 2});
}

// [..., C, H r, W r] -> [..., C r r, H, W]
absl::Status LowerPixelUnshuffle(Lowering& l) {
  const Tensor x = l.tensor(0);
  const SymInt r = l.size(1);
  const absl::Span<const SymInt> in = absl::MakeConstSpan(x.sizes()).last(3);
  const absl::Span<const SymInt> out = absl::MakeConstSpan(l.result().sizes).last(3);
  return RearrangePlanes(l, x, {in[0], out[1], r, out[2], r}, {0, 2, 4, 1, 3});
}

// [N, g C, ...] -> the same with the groups' channels interleaved.
absl::Status LowerChannelShuffle(Lowering& l) {
  const Tensor x = l.tensor(0);
  const SymInt groups = l.size(1);
  SymIntVector split = x.sizes();
  split[1] = SymInt::Binary(SymInt::Kind::kFloorDiv, split[1], groups);
  split.insert(split.begin() + 1, groups);
  return l.Return(l.b.View(l.b.Transpose(l.b.View(x, split), 1, 2), l.result().sizes));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.channel_shuffle.default", LowerChannelShuffle),
    Row("aten.native_channel_shuffle.default", LowerChannelShuffle),
    Row("aten.pixel_shuffle.default", LowerPixelShuffle),
    Row("aten.pixel_unshuffle.default", LowerPixelUnshuffle),
    Row("aten.reflection_pad1d.default", LowerPad<Border::kReflect>),
    Row("aten.reflection_pad1d_backward.default", LowerPadBackward<Border::kReflect>),
    Row("aten.reflection_pad2d.default", LowerPad<Border::kReflect>),
    Row("aten.reflection_pad2d_backward.default", LowerPadBackward<Border::kReflect>),
    Row("aten.reflection_pad3d.default", LowerPad<Border::kReflect>),
    Row("aten.reflection_pad3d_backward.default", LowerPadBackward<Border::kReflect>),
    Row("aten.replication_pad1d.default", LowerPad<Border::kReplicate>),
    Row("aten.replication_pad1d_backward.default", LowerPadBackward<Border::kReplicate>),
    Row("aten.replication_pad2d.default", LowerPad<Border::kReplicate>),
    Row("aten.replication_pad2d_backward.default", LowerPadBackward<Border::kReplicate>),
    Row("aten.replication_pad3d.default", LowerPad<Border::kReplicate>),
    Row("aten.replication_pad3d_backward.default", LowerPadBackward<Border::kReplicate>),
};

}  // namespace

absl::Span<const OpRow> PaddingRows() { return kRows; }

}  // namespace cotan::aot
