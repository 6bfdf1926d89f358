// SPDX-License-Identifier: Apache-2.0

// Rows of views, of ops that move elements without changing them, and of the backward of both.
#include <algorithm>
#include <numeric>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

absl::Status LowerCast(Lowering& l) { return l.Return(l.b.Cast(l.tensor(0), l.result().dtype)); }

absl::Status LowerView(Lowering& l) { return l.Return(l.b.View(l.tensor(0), l.result().sizes)); }

absl::Status LowerPermute(Lowering& l) { return l.Return(l.b.Permute(l.tensor(0), l.integers(1))); }

absl::Status LowerT(Lowering& l) {
  const Tensor x = l.tensor(0);
  return l.Return(x.rank() < 2 ? x : l.b.Transpose(x, 0, 1));
}

absl::Status LowerTranspose(Lowering& l) { return l.Return(l.b.Transpose(l.tensor(0), l.integer(1), l.integer(2))); }

absl::Status LowerExpand(Lowering& l) { return l.Return(l.b.Expand(l.tensor(0), l.result().sizes)); }

// Returns a slice's bound as in ATen: a negative one counts from the end, and all are clamped to
// the size.
SymInt Bound(Lowering& l, int i, const SymInt& size, const SymInt& absent) {
  if (l.is_none(i)) return absent;
  const SymInt bound = l.size(i);
  if (!bound.is_constant()) return bound;
  if (!size.is_constant()) {
    if (bound.constant() > int64_t{1} << 60) return size;
    return bound.constant() < 0 ? size + bound : SymInt::Binary(SymInt::Kind::kMin, bound, size);
  }
  const int64_t value = bound.constant() < 0 ? bound.constant() + size.constant() : bound.constant();
  return std::clamp<int64_t>(value, 0, size.constant());
}

struct Range {
  int64_t dim = 0;
  SymInt start, end, step;
};

// Reads the arguments dim, start, end, step from position `first`.
Range RangeOf(Lowering& l, const SymIntVector& sizes, int first) {
  Range range;
  range.dim = l.b.WrapDim(l.integer(first), static_cast<int>(sizes.size()));
  const SymInt& size = sizes[static_cast<size_t>(range.dim)];
  range.start = Bound(l, first + 1, size, 0);
  range.end = Bound(l, first + 2, size, size);
  range.step = l.size(first + 3);
  if (range.start.is_constant() && range.end.is_constant()) {
    range.end = std::max(range.start.constant(), range.end.constant());
  }
  return range;
}

absl::Status LowerSlice(Lowering& l) {
  const Tensor x = l.tensor(0);
  const Range range = RangeOf(l, x.sizes(), 1);
  return l.Return(l.b.Slice(x, range.dim, range.start, range.end, range.step));
}

SymInt WrapIndex(const SymInt& index, const SymInt& size) {
  return index.is_constant() && index.constant() < 0 ? size + index : index;
}

absl::Status LowerSelect(Lowering& l) {
  const Tensor x = l.tensor(0);
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  return l.Return(l.b.SelectIndex(x, dim, WrapIndex(l.size(2), x.sizes()[static_cast<size_t>(dim)])));
}

// Splits argument 0 along `dim` into pieces of the results' sizes.
absl::Status SplitAlong(Lowering& l, int64_t dim) {
  const Tensor x = l.tensor(0);
  dim = l.b.WrapDim(dim, x.rank());
  std::vector<Tensor> pieces;
  SymInt start = 0;
  for (size_t k = 0; k < l.node().outputs.size(); ++k) {
    if (!l.has_result(static_cast<int>(k))) return l.Unsupported("an absent piece");
    const SymInt end = start + l.result(static_cast<int>(k)).sizes[static_cast<size_t>(dim)];
    pieces.push_back(l.b.Slice(x, dim, start, end, 1));
    start = end;
  }
  return l.ReturnAll(pieces);
}

absl::Status LowerUnbind(Lowering& l) {
  const Tensor x = l.tensor(0);
  const int64_t dim = l.integer(1);
  std::vector<Tensor> pieces;
  for (size_t k = 0; k < l.node().outputs.size(); ++k)
    pieces.push_back(l.b.SelectIndex(x, dim, static_cast<int64_t>(k)));
  return l.ReturnAll(pieces);
}

absl::Status LowerAsStrided(Lowering& l) {
  const SymInt offset = l.num_arguments() > 3 && !l.is_none(3) ? l.size(3) : SymInt(0);
  return l.Return(l.b.AsStrided(l.tensor(0), l.sizes(1), l.sizes(2), offset));
}

// Placing ---------------------------------------------------------------------

Tensor Zeros(Lowering& l, DType dtype, SymIntVector sizes) {
  return l.b.Full(l.b.Literal(SymInt(0)), dtype, std::move(sizes));
}

// Returns x with zeros before and after it along `dim`.
Tensor PadAlong(Lowering& l, const Tensor& x, int64_t dim, const SymInt& before, const SymInt& after,
                const Tensor& value) {
  std::vector<Tensor> parts;
  SymIntVector sizes = x.sizes();
  if (!(before == SymInt(0))) {
    sizes[static_cast<size_t>(dim)] = before;
    parts.push_back(l.b.Full(value, x.dtype(), sizes));
  }
  parts.push_back(x);
  if (!(after == SymInt(0))) {
    sizes[static_cast<size_t>(dim)] = after;
    parts.push_back(l.b.Full(value, x.dtype(), sizes));
  }
  return l.b.Concat(parts, dim);
}

// Returns zeros of size `size` along the range's dimension, with `rows` at the positions of
// `range`.
Tensor Place(Lowering& l, Tensor rows, const Range& range, const SymInt& size) {
  const size_t d = static_cast<size_t>(range.dim);
  const Tensor zero = l.b.Literal(SymInt(0));
  if (!(range.step == SymInt(1))) {
    // Each row followed by step - 1 rows of zeros.
    SymIntVector merged = rows.sizes();
    merged[d] = merged[d] * range.step;
    rows = PadAlong(l, l.b.Unsqueeze(rows, range.dim + 1), range.dim + 1, 0, range.step - SymInt(1), zero);
    rows = l.b.View(rows, merged);
  }
  const SymInt room = size - range.start;
  const SymInt length = rows.sizes()[d];
  if (room.is_constant() && length.is_constant() && length.constant() > room.constant()) {
    rows = l.b.Slice(rows, range.dim, 0, room, 1);
  }
  return PadAlong(l, rows, range.dim, range.start, room - rows.sizes()[d], zero);
}

// (grad, input_sizes, dim, start, end, step)
absl::Status LowerSliceBackward(Lowering& l) {
  const SymIntVector sizes = l.sizes(1);
  if (l.tensor(0).sizes().size() != sizes.size()) return l.Unsupported("a gradient of another rank than the input");
  const Range range = RangeOf(l, sizes, 2);
  return l.Return(Place(l, l.tensor(0), range, sizes[static_cast<size_t>(range.dim)]));
}

// (self, src, dim, start, end, step)
absl::Status LowerSliceScatter(Lowering& l) {
  const Tensor x = l.tensor(0);
  const Tensor part = l.b.Cast(l.tensor(1), x.dtype());
  const Range range = RangeOf(l, x.sizes(), 2);
  const SymInt size = x.sizes()[static_cast<size_t>(range.dim)];
  if (range.start == SymInt(0) && range.end == size && range.step == SymInt(1)) return l.Return(part);
  if (range.step == SymInt(1)) {
    std::vector<Tensor> parts;
    if (!(range.start == SymInt(0))) parts.push_back(l.b.Slice(x, range.dim, 0, range.start, 1));
    parts.push_back(part);
    if (!(range.end == size)) parts.push_back(l.b.Slice(x, range.dim, range.end, size, 1));
    return l.Return(l.b.Concat(parts, range.dim));
  }
  const Tensor placed = Place(l, part, range, size);
  const Tensor position = l.b.Iota(static_cast<int>(range.dim), DType::kInt64, x.sizes());
  const Tensor distance = position - l.b.Literal(range.start);
  const Tensor on_step =
      l.b.Eq(l.b.Binary(serialization::FN_REMAINDER, distance, l.b.Literal(range.step)), l.b.Literal(SymInt(0)));
  const Tensor inside = l.b.And(l.b.Ge(distance, l.b.Literal(SymInt(0))), l.b.Lt(position, l.b.Literal(range.end)));
  return l.Return(l.b.Select(l.b.And(on_step, inside), placed, x));
}

// Returns `row` (without dimension `dim`) at `index` along `dim`, and x elsewhere.
Tensor PlaceRow(Lowering& l, const Tensor& row, const Tensor& x, const SymIntVector& sizes, int64_t dim,
                const SymInt& index) {
  const Tensor position = l.b.Iota(static_cast<int>(dim), DType::kInt32, sizes);
  const Tensor here = l.b.Eq(position, l.b.Literal(WrapIndex(index, sizes[static_cast<size_t>(dim)])));
  return l.b.Select(here, l.b.Unsqueeze(row, dim), x);
}

// (grad, input_sizes, dim, index)
absl::Status LowerSelectBackward(Lowering& l) {
  const SymIntVector sizes = l.sizes(1);
  const int64_t dim = l.b.WrapDim(l.integer(2), static_cast<int>(sizes.size()));
  return l.Return(PlaceRow(l, l.tensor(0), l.b.Literal(SymInt(0)), sizes, dim, l.size(3)));
}

// (self, src, dim, index)
absl::Status LowerSelectScatter(Lowering& l) {
  const Tensor x = l.tensor(0);
  const int64_t dim = l.b.WrapDim(l.integer(2), x.rank());
  return l.Return(PlaceRow(l, l.b.Cast(l.tensor(1), x.dtype()), x, x.sizes(), dim, l.size(3)));
}

// Returns `diagonal` [..., L] on the diagonal of dim1 and dim2 of a tensor of `sizes`, and x
// elsewhere.
Tensor PlaceDiagonal(Lowering& l, const Tensor& diagonal, const Tensor& x, const SymIntVector& sizes, int64_t offset,
                     int64_t dim1, int64_t dim2) {
  const int rank = static_cast<int>(sizes.size());
  dim1 = l.b.WrapDim(dim1, rank);
  dim2 = l.b.WrapDim(dim2, rank);
  // Element i is at (i, i + offset) or (i - offset, i): index it by its row if offset >= 0, else by
  // its column.
  const int64_t along = offset >= 0 ? dim1 : dim2;
  const int64_t across = offset >= 0 ? dim2 : dim1;
  const SymInt missing = sizes[static_cast<size_t>(along)] - diagonal.sizes().back();
  Tensor line = PadAlong(l, diagonal, diagonal.rank() - 1, 0, missing, l.b.Literal(SymInt(0)));
  std::vector<int64_t> order;  // the last dimension goes to the place of `along`
  for (int64_t i = 0, next = 0; i < rank; ++i) {
    if (i == across) continue;
    order.push_back(i == along ? diagonal.rank() - 1 : next++);
  }
  line = l.b.Unsqueeze(l.b.Permute(line, order), across);
  const Tensor row = l.b.Iota(static_cast<int>(dim1), DType::kInt64, sizes);
  const Tensor column = l.b.Iota(static_cast<int>(dim2), DType::kInt64, sizes);
  return l.b.Select(l.b.Eq(row + l.b.Literal(SymInt(offset)), column), line, x);
}

// (grad, input_sizes, offset, dim1, dim2)
absl::Status LowerDiagonalBackward(Lowering& l) {
  return l.Return(
      PlaceDiagonal(l, l.tensor(0), l.b.Literal(SymInt(0)), l.sizes(1), l.integer(2), l.integer(3), l.integer(4)));
}

// (self, src, offset, dim1, dim2)
absl::Status LowerDiagonalScatter(Lowering& l) {
  const Tensor x = l.tensor(0);
  const Tensor diagonal = l.b.Cast(l.tensor(1), x.dtype());
  return l.Return(PlaceDiagonal(l, diagonal, x, x.sizes(), l.integer(2), l.integer(3), l.integer(4)));
}

// (self, offset, dim1, dim2)
absl::Status LowerDiagEmbed(Lowering& l) {
  return l.Return(PlaceDiagonal(l, l.tensor(0), l.b.Literal(SymInt(0)), l.result().sizes, l.integer(1), l.integer(2),
                                l.integer(3)));
}

// Joining -----------------------------------------------------------------------

absl::Status LowerCat(Lowering& l) {
  std::vector<Tensor> parts;
  for (const Tensor& part : l.tensors(0)) {
    const bool legacy_empty = part.rank() == 1 && part.sizes()[0] == SymInt(0);
    if (!legacy_empty || l.result().sizes.size() == 1) parts.push_back(l.b.Cast(part, l.result().dtype));
  }
  if (parts.empty()) return l.Return(Zeros(l, l.result().dtype, l.result().sizes));
  return l.Return(l.b.Concat(parts, l.integer(1)));
}

absl::Status LowerStack(Lowering& l) {
  const int64_t dim = l.b.WrapDim(l.integer(1), static_cast<int>(l.result().sizes.size()));
  std::vector<Tensor> parts;
  for (const Tensor& part : l.tensors(0)) parts.push_back(l.b.Unsqueeze(l.b.Cast(part, l.result().dtype), dim));
  return l.Return(l.b.Concat(parts, dim));
}

// (self, pad, value): pairs from the last dimension on; negative ones crop.
absl::Status LowerConstantPad(Lowering& l) {
  Tensor x = l.tensor(0);
  const std::vector<int64_t> pad = l.integers(1);
  for (size_t k = 0; 2 * k + 1 < pad.size(); ++k) {
    const int64_t dim = x.rank() - 1 - static_cast<int64_t>(k);
    const SymInt size = x.sizes()[static_cast<size_t>(dim)];
    x = l.b.Slice(x, dim, std::max<int64_t>(-pad[2 * k], 0), size - SymInt(std::max<int64_t>(-pad[2 * k + 1], 0)), 1);
    x = PadAlong(l, x, dim, std::max<int64_t>(pad[2 * k], 0), std::max<int64_t>(pad[2 * k + 1], 0), l.literal(2));
  }
  return l.Return(x);
}

// (self, repeats)
absl::Status LowerRepeat(Lowering& l) {
  const Tensor x = l.tensor(0);
  const SymIntVector repeats = l.sizes(1);
  SymIntVector spread, expanded;
  const size_t lead = repeats.size() - x.sizes().size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    const SymInt size = i < lead ? SymInt(1) : x.sizes()[i - lead];
    spread.insert(spread.end(), {SymInt(1), size});
    expanded.insert(expanded.end(), {repeats[i], size});
  }
  return l.Return(l.b.View(l.b.Expand(l.b.View(x, spread), expanded), l.result().sizes));
}

// (self, shifts, dims)
absl::Status LowerRoll(Lowering& l) {
  Tensor x = l.tensor(0);
  const SymIntVector sizes = x.sizes();
  const std::vector<int64_t> shifts = l.integers(1);
  std::vector<int64_t> dims = l.integers(2);
  if (dims.empty()) {
    x = l.b.View(x, {NumElementsOf(sizes)});
    dims = {0};
  }
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t dim = l.b.WrapDim(dims[k], x.rank());
    const SymInt size = x.sizes()[static_cast<size_t>(dim)];
    if (!size.is_constant()) return l.Unsupported("a dynamic dimension");
    if (size.constant() == 0) continue;
    const int64_t shift = ((shifts[k] % size.constant()) + size.constant()) % size.constant();
    if (shift == 0) continue;
    const SymInt cut = size - SymInt(shift);
    x = l.b.Concat({l.b.Slice(x, dim, cut, size, 1), l.b.Slice(x, dim, 0, cut, 1)}, dim);
  }
  return l.Return(l.b.View(x, sizes));
}

absl::Status LowerCopy(Lowering& l) {
  return l.Return(l.b.Expand(l.b.Cast(l.tensor(1), l.result().dtype), l.result().sizes));
}

constexpr OpRow View(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kView, lower}; }
constexpr OpRow Kernel(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }
constexpr OpRow Pointwise(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kPointwise, lower}; }

absl::Status LowerSplit(Lowering& l) { return SplitAlong(l, l.integer(2)); }
absl::Status LowerUnfold(Lowering& l) {
  const Tensor x = l.tensor(0);
  // A tensor without dimensions has one window, of one element or of none.
  if (x.rank() == 0) return l.Return(l.b.Slice(l.b.View(x, {SymInt(1)}), 0, 0, l.size(2), 1));
  return l.Return(l.b.Unfold(x, l.integer(1), l.integer(2), l.integer(3)));
}
absl::Status LowerViewDType(Lowering& l) {
  return l.Return(l.b.ViewDType(l.tensor(0), l.result().dtype, l.result().sizes));
}

absl::Status LowerViewAsReal(Lowering& l) { return l.Return(l.b.ViewAsReal(l.tensor(0))); }
absl::Status LowerViewAsComplex(Lowering& l) { return l.Return(l.b.ViewAsComplex(l.tensor(0))); }
absl::Status LowerDiagonal(Lowering& l) {
  return l.Return(l.b.Diagonal(l.tensor(0), l.integer(1), l.integer(2), l.integer(3)));
}

constexpr OpRow kRows[] = {
    View("aten._reshape_alias.default", LowerView),
    View("aten._reshape_copy.default", LowerView),
    Pointwise("aten._to_copy.default", LowerCast),
    View("aten._unsafe_view.default", LowerView),
    View("aten.alias.default", LowerCast),
    View("aten.alias_copy.default", LowerCast),
    View("aten.as_strided.default", LowerAsStrided),
    View("aten.as_strided_copy.default", LowerAsStrided),
    Kernel("aten.cat.default", LowerCat),
    View("aten.clone.default", LowerCast),
    Kernel("aten.constant_pad_nd.default", LowerConstantPad),
    View("aten.contiguous.default", LowerCast),
    Pointwise("aten.copy.default", LowerCopy),
    View("aten.detach.default", LowerCast),
    View("aten.detach_copy.default", LowerCast),
    Pointwise("aten.diag_embed.default", LowerDiagEmbed),
    View("aten.diagonal.default", LowerDiagonal),
    Pointwise("aten.diagonal_backward.default", LowerDiagonalBackward),
    View("aten.diagonal_copy.default", LowerDiagonal),
    Pointwise("aten.diagonal_scatter.default", LowerDiagonalScatter),
    View("aten.expand.default", LowerExpand),
    View("aten.expand_copy.default", LowerExpand),
    View("aten.lift.default", LowerCast),
    View("aten.lift_fresh.default", LowerCast),
    View("aten.lift_fresh_copy.default", LowerCast),
    View("aten.permute.default", LowerPermute),
    View("aten.permute_copy.default", LowerPermute),
    Kernel("aten.repeat.default", LowerRepeat),
    View("aten.reshape.default", LowerView),
    Kernel("aten.roll.default", LowerRoll),
    View("aten.select.int", LowerSelect),
    Pointwise("aten.select_backward.default", LowerSelectBackward),
    View("aten.select_copy.int", LowerSelect),
    Pointwise("aten.select_scatter.default", LowerSelectScatter),
    View("aten.slice.Tensor", LowerSlice),
    Kernel("aten.slice_backward.default", LowerSliceBackward),
    View("aten.slice_copy.Tensor", LowerSlice),
    Kernel("aten.slice_scatter.default", LowerSliceScatter),
    View("aten.split.Tensor", LowerSplit),
    View("aten.split_copy.Tensor", LowerSplit),
    View("aten.split_with_sizes.default", LowerSplit),
    View("aten.split_with_sizes_copy.default", LowerSplit),
    View("aten.squeeze.default", LowerView),
    View("aten.squeeze.dim", LowerView),
    View("aten.squeeze.dims", LowerView),
    View("aten.squeeze_copy.default", LowerView),
    View("aten.squeeze_copy.dim", LowerView),
    View("aten.squeeze_copy.dims", LowerView),
    Kernel("aten.stack.default", LowerStack),
    View("aten.t.default", LowerT),
    View("aten.t_copy.default", LowerT),
    View("aten.transpose.int", LowerTranspose),
    View("aten.transpose_copy.int", LowerTranspose),
    View("aten.unbind.int", LowerUnbind),
    View("aten.unbind_copy.int", LowerUnbind),
    View("aten.unfold.default", LowerUnfold),
    View("aten.unfold_copy.default", LowerUnfold),
    View("aten.unsqueeze.default", LowerView),
    View("aten.unsqueeze_copy.default", LowerView),
    View("aten.view.default", LowerView),
    View("aten.view.dtype", LowerViewDType),
    View("aten.view_as_complex.default", LowerViewAsComplex),
    View("aten.view_as_real.default", LowerViewAsReal),
    View("aten.view_copy.default", LowerView),
    View("aten.view_copy.dtype", LowerViewDType),
};

}  // namespace

absl::Span<const OpRow> ViewRows() { return kRows; }

}  // namespace cotan::aot
