// SPDX-License-Identifier: Apache-2.0

// Rows of indexing: each op becomes a gather or scatter_add along one dimension of a view, with
// index arithmetic in expressions. Indexes from the user are checked first, because arithmetic can
// turn an invalid index into a valid one.
#include <algorithm>

#include "aot/lowering/ops/flat_positions.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

// Returns tensor argument `i` as a checked index along dimension `dim` of a tensor of `sizes`.
Tensor IndexInto(Lowering& l, int i, const SymIntVector& sizes, int64_t dim) {
  return l.b.CheckedIndex(l.tensor(i), sizes[static_cast<size_t>(l.b.WrapDim(dim, static_cast<int>(sizes.size())))]);
}

absl::Status LowerEmbedding(Lowering& l) {
  const Tensor table = l.tensor(0);
  return l.Return(l.b.Gather(table, IndexInto(l, 1, table.sizes(), 0), 0));
}

// (grad, indices, num_weights, padding_idx, scale_grad_by_freq)
absl::Status LowerEmbeddingBackward(Lowering& l) {
  const SymIntVector& sizes = l.result().sizes;
  const Tensor index = IndexInto(l, 1, sizes, 0);
  Tensor rows = l.tensor(0);
  if (l.flag(4)) rows = rows * l.b.Unsqueeze(ReciprocalCounts(l, index, sizes[0], rows.dtype()), index.rank());
  return l.Return(l.b.ScatterAdd(rows, index, Tensor(), 0, l.integer(3), sizes));
}

// Returns x, or a vector of its element if it has no dimensions. A literal becomes a vector of `dtype`.
Tensor AtLeastVector(Lowering& l, const Tensor& x, DType dtype) {
  if (x.is_literal()) return l.b.Full(x, dtype, {SymInt(1)});
  return x.rank() == 0 ? l.b.View(x, {SymInt(1)}) : x;
}

// Returns the elements of x at the indices below `sizes`.
Tensor Cropped(Lowering& l, Tensor x, const SymIntVector& sizes) {
  for (int64_t d = 0; d < x.rank(); ++d) x = l.b.Slice(x, d, 0, sizes[static_cast<size_t>(d)], 1);
  return x;
}

absl::Status LowerIndexSelect(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (x.rank() == 0) return l.Return(l.b.View(x, l.result().sizes));
  const Tensor index = AtLeastVector(l, IndexInto(l, 2, x.sizes(), l.integer(1)), DType::kInt64);
  return l.Return(l.b.Gather(x, index, l.integer(1)));
}

// (self, dim, index, source, alpha)
absl::Status LowerIndexAdd(Lowering& l) {
  const Tensor x = l.tensor(0);
  Tensor rows = l.operand(3);
  if (l.num_arguments() > 4) rows = rows * l.literal(4);
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  return l.Return(l.b.ScatterAdd(rows, IndexInto(l, 2, x.sizes(), dim), x, dim, -1, x.sizes()));
}

// (self, dim, index, sparse_grad)
absl::Status LowerGather(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (x.rank() == 0) return l.Return(l.b.View(x, l.result().sizes));
  if (NumElementsOf(l.result().sizes) == SymInt(0)) return l.Return(l.b.Literal(SymInt(0)));  // index of any rank
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const Tensor index = IndexInto(l, 2, x.sizes(), dim);
  if (index.rank() == 0) return l.Return(l.b.Gather(x, index, 0));
  return l.Return(GatherAlong(l, x, index, dim));
}

// Returns whether `index` names one element in each line along `dim` of a tensor of `sizes`.
bool NamesOneOfEachLine(const Tensor& index, SymIntVector sizes, int64_t dim) {
  sizes[static_cast<size_t>(dim)] = SymInt(1);
  return index.sizes() == sizes;
}

// Returns whether each element of a tensor of `sizes` is the one of its line along `dim` that `index` (checked) names.
Tensor IsNamed(Lowering& l, const Tensor& index, const SymIntVector& sizes, int64_t dim) {
  const DType dtype = PositionDType(sizes[static_cast<size_t>(dim)]);
  return l.b.Eq(l.b.Iota(static_cast<int>(dim), dtype, sizes), l.b.Cast(index, dtype));
}

// (self, dim, index, src)
absl::Status LowerScatterAdd(Lowering& l) {
  const DType dtype = l.result().dtype;
  const Tensor x = AtLeastVector(l, l.tensor(0), dtype);
  const Tensor places = AtLeastVector(l, l.tensor(2), DType::kInt64);
  if (NumElementsOf(places.sizes()) == SymInt(0)) return l.Return(l.b.View(x, l.result().sizes));
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const Tensor index = l.b.CheckedIndex(places, x.sizes()[static_cast<size_t>(dim)]);
  const Tensor source = Cropped(l, AtLeastVector(l, l.tensor(3), dtype), index.sizes());
  if (NamesOneOfEachLine(index, x.sizes(), dim)) {
    const Tensor sum = dtype == DType::kBool ? l.b.Or(x, source) : x + source;
    return l.Return(l.b.View(l.b.Select(IsNamed(l, index, x.sizes(), dim), sum, x), l.result().sizes));
  }
  const Tensor position = FlatPositions(l, index, x.sizes(), dim);
  const SymIntVector flat = {NumElementsOf(x.sizes())};
  return l.Return(l.b.View(l.b.ScatterAdd(source, position, l.b.View(x, flat), 0, -1, flat), l.result().sizes));
}

// Overwriting ---------------------------------------------------------------------

// Returns x with its row position[i] along `dim` replaced by row i of `values`, for each i where
// `counts` is true. `position` is 1-d and non-negative; among elements that count, each row occurs
// at most once.
Tensor OverwriteRows(Lowering& l, const Tensor& x, const Tensor& values, const Tensor& position, const Tensor& counts,
                     int64_t dim) {
  if (position.sizes()[0] == SymInt(0)) return x;
  const SymInt size = x.sizes()[static_cast<size_t>(dim)];
  Tensor number = l.b.Iota(0, DType::kInt64, position.sizes()) + l.b.Literal(SymInt(1));
  if (counts.defined()) number = l.b.Select(counts, number, l.b.Literal(SymInt(0)));
  // The row of `values` for each row of x, counted from 1; 0 = none.
  const Tensor source = l.b.ScatterAdd(number, position, Tensor(), 0, -1, {size});
  const Tensor covered = l.b.Gt(source, l.b.Literal(SymInt(0)));
  const Tensor row = l.b.Maximum(source - l.b.Literal(SymInt(1)), l.b.Literal(SymInt(0)));
  const Tensor rows = l.b.Gather(l.b.Cast(values, x.dtype()), row, dim);
  SymIntVector broadcast(static_cast<size_t>(x.rank()), SymInt(1));
  broadcast[static_cast<size_t>(dim)] = size;
  return l.b.Select(l.b.View(covered, broadcast), rows, x);
}

// Longer lines are sorted, because comparing all pairs takes quadratic time.
constexpr int64_t kMaxComparedLine = 64;

// Implements LastOfEqual() by comparing each element of a line with all later ones.
Tensor LastByComparing(Lowering& l, const Tensor& index, int64_t dim) {
  SymIntVector pairs = index.sizes();
  pairs.insert(pairs.begin() + dim, pairs[static_cast<size_t>(dim)]);
  const Tensor equal = l.b.Eq(l.b.Unsqueeze(index, dim), l.b.Unsqueeze(index, dim + 1));
  const Tensor later = l.b.Gt(l.b.Iota(static_cast<int>(dim), DType::kInt32, pairs),
                              l.b.Iota(static_cast<int>(dim) + 1, DType::kInt32, pairs));
  const int64_t dims[] = {dim};
  return l.b.Not(l.b.Squeeze(l.b.Reduce(serialization::FN_REDUCE_MAX, l.b.And(equal, later), dims), dims));
}

// Implements LastOfEqual() by a stable sort.
Tensor LastBySorting(Lowering& l, const Tensor& index, int64_t dim) {
  const SymInt size = index.sizes()[static_cast<size_t>(dim)];
  const auto [sorted, places] = l.b.Sort(index, dim, size, /*descending=*/false);
  const Tensor before = l.b.Slice(sorted, dim, 0, size - SymInt(1), 1);
  const Tensor after = l.b.Slice(sorted, dim, 1, size, 1);
  const Tensor one = l.b.Literal(SymInt(1));
  const Tensor is_last =
      l.b.Select(l.b.Ne(before, after), one, l.b.Full(l.b.Literal(SymInt(0)), DType::kInt64, before.sizes()));
  const Tensor end = l.b.Full(one, DType::kInt64, l.b.Slice(sorted, dim, 0, 1, 1).sizes());
  const SymIntVector flat = {NumElementsOf(index.sizes())};
  const Tensor flags =
      l.b.ScatterAdd(l.b.View(l.b.Concat({is_last, end}, dim), flat),
                     l.b.View(FlatPositions(l, places, index.sizes(), dim), flat), Tensor(), 0, -1, flat);
  return l.b.Gt(l.b.View(flags, index.sizes()), l.b.Literal(SymInt(0)));
}

// Returns true for each element of `index` that has no equal element after it along `dim`.
Tensor LastOfEqual(Lowering& l, const Tensor& index, int64_t dim) {
  const SymInt size = index.sizes()[static_cast<size_t>(dim)];
  const bool is_short = size.is_constant() && size.constant() <= kMaxComparedLine;
  return is_short ? LastByComparing(l, index, dim) : LastBySorting(l, index, dim);
}

Tensor Flat(Lowering& l, const Tensor& x) { return l.b.View(x, {NumElementsOf(x.sizes())}); }

// (self, dim, index, src)
absl::Status LowerScatter(Lowering& l) {
  const Tensor x = AtLeastVector(l, l.tensor(0), l.result().dtype);
  const Tensor places = AtLeastVector(l, l.tensor(2), DType::kInt64);
  Tensor source = l.tensor(3);
  if (NumElementsOf(places.sizes()) == SymInt(0)) return l.Return(l.b.View(x, l.result().sizes));
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const Tensor index = l.b.CheckedIndex(places, x.sizes()[static_cast<size_t>(dim)]);
  source = source.is_literal() ? l.b.Full(source, x.dtype(), index.sizes())
                               : Cropped(l, AtLeastVector(l, source, x.dtype()), index.sizes());
  if (NamesOneOfEachLine(index, x.sizes(), dim)) {
    return l.Return(l.b.View(l.b.Select(IsNamed(l, index, x.sizes(), dim), source, x), l.result().sizes));
  }
  const Tensor position = FlatPositions(l, index, x.sizes(), dim);
  const Tensor counts = LastOfEqual(l, position, dim);
  const Tensor result = OverwriteRows(l, Flat(l, x), Flat(l, source), Flat(l, position), Flat(l, counts), 0);
  return l.Return(l.b.View(result, l.result().sizes));
}

// (self, src, size, stride, storage_offset). The elements of the view must not overlap.
absl::Status LowerAsStridedScatter(Lowering& l) {
  const Tensor x = Flat(l, l.tensor(0));
  const Tensor source = l.operand(1);
  const SymIntVector strides = l.sizes(3);
  const SymInt offset = l.num_arguments() > 4 && !l.is_none(4) ? l.size(4) : SymInt(0);
  const SymInt count = NumElementsOf(source.sizes());
  SymInt dense = 1;
  bool is_dense = true;
  for (size_t d = strides.size(); d-- > 0;) {
    const SymInt& size = source.sizes()[d];
    is_dense = is_dense && (size == SymInt(1) || strides[d] == dense);
    dense = dense * size;
  }
  const SymIntVector& sizes = l.result().sizes;
  if (is_dense) {
    std::vector<Tensor> parts;
    const SymInt end = offset + count;
    if (!(offset == SymInt(0))) parts.push_back(l.b.Slice(x, 0, 0, offset, 1));
    parts.push_back(Flat(l, source));
    if (!(end == x.sizes()[0])) parts.push_back(l.b.Slice(x, 0, end, x.sizes()[0], 1));
    return l.Return(l.b.View(parts.size() == 1 ? parts[0] : l.b.Concat(parts, 0), sizes));
  }
  Tensor position = l.b.Full(l.b.Literal(offset), DType::kInt64, source.sizes());
  for (size_t d = 0; d < strides.size(); ++d) {
    position = position + l.b.Iota(static_cast<int>(d), DType::kInt64, source.sizes()) * l.b.Literal(strides[d]);
  }
  return l.Return(l.b.View(OverwriteRows(l, x, Flat(l, source), Flat(l, position), Tensor(), 0), sizes));
}

// Advanced indexing: x[index...] with some dimensions indexed by tensors.
struct Indexing {
  std::vector<int64_t> order;  // x permuted so that the indexed dimensions are adjacent
  int64_t first = 0;           // the first indexed dimension of the permuted x
  SymIntVector merged;         // sizes of the permuted x with the indexed dimensions merged
  Tensor position;             // row-major position in the merged dimension
  SymIntVector permuted;       // sizes of the permuted x
};

absl::StatusOr<Indexing> IndexingOf(Lowering& l, const Tensor& x, const std::vector<Tensor>& indices) {
  std::vector<int64_t> indexed, others;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool has_index = d < static_cast<int64_t>(indices.size()) && indices[static_cast<size_t>(d)].defined();
    (has_index ? indexed : others).push_back(d);
  }
  if (indexed.empty()) return l.Unsupported("no index");
  const bool adjacent = indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  Indexing result;
  result.first = adjacent ? indexed.front() : 0;
  result.order = others;
  result.order.insert(result.order.begin() + result.first, indexed.begin(), indexed.end());
  SymInt stride = 1;
  for (auto it = indexed.rbegin(); it != indexed.rend(); ++it) {
    const Tensor& index = indices[static_cast<size_t>(*it)];
    if (index.dtype() == DType::kBool || index.dtype() == DType::kUInt8) {
      return l.Unsupported("a mask as index: the result's size would depend on data");
    }
    const SymInt& size = x.sizes()[static_cast<size_t>(*it)];
    Tensor along = l.b.Cast(l.b.CheckedIndex(index, size, /*from_end=*/true), DType::kInt64);
    if (indexed.size() > 1) along = along * l.b.Literal(stride);
    result.position = result.position.defined() ? result.position + along : along;
    stride = stride * size;
  }
  for (const int64_t d : result.order) result.permuted.push_back(x.sizes()[static_cast<size_t>(d)]);
  result.merged = result.permuted;
  result.merged.erase(result.merged.begin() + result.first,
                      result.merged.begin() + result.first + static_cast<int64_t>(indexed.size()));
  result.merged.insert(result.merged.begin() + result.first, stride);
  return result;
}

// (self, indices)
absl::Status LowerIndex(Lowering& l) {
  const Tensor x = l.tensor(0);
  absl::StatusOr<Indexing> indexing = IndexingOf(l, x, l.optional_tensors(1));
  if (!indexing.ok()) return indexing.status();
  const Tensor merged = l.b.View(l.b.Permute(x, indexing->order), indexing->merged);
  return l.Return(l.b.Gather(merged, indexing->position, indexing->first));
}

// Returns x[:, mask] = values for values that broadcast over the dimensions of the mask, so that no
// size depends on the mask. Undefined for other values.
Tensor PutByMask(Lowering& l, const Tensor& x, const std::vector<Tensor>& indices, Tensor values, bool accumulate) {
  const auto is_given = [](const Tensor& index) { return index.defined(); };
  const auto given = std::find_if(indices.begin(), indices.end(), is_given);
  if (std::count_if(indices.begin(), indices.end(), is_given) != 1 || given->dtype() != DType::kBool) return Tensor();
  const int64_t before = given - indices.begin();
  const int64_t after = x.rank() - before - given->rank();
  if (values.is_literal()) values = l.b.Full(values, x.dtype(), {});
  SymIntVector value_sizes(values.sizes().begin(), values.sizes().end());
  if (const int64_t place = values.rank() - 1 - after; place >= 0) {
    // One value per true element of the mask, unless the size is 1.
    if (!(value_sizes[static_cast<size_t>(place)] == SymInt(1))) return Tensor();
    const auto at = value_sizes.erase(value_sizes.begin() + place);
    value_sizes.insert(at, static_cast<size_t>(given->rank()), SymInt(1));
  }
  SymIntVector mask_sizes(given->sizes().begin(), given->sizes().end());
  mask_sizes.insert(mask_sizes.end(), static_cast<size_t>(after), SymInt(1));
  values = l.b.Expand(l.b.View(values, value_sizes), x.sizes());
  return l.b.Select(l.b.View(*given, mask_sizes), accumulate ? x + values : values, x);
}

// (self, indices, values, accumulate)
absl::Status LowerIndexPut(Lowering& l) {
  const Tensor x = l.tensor(0);
  const Tensor masked = PutByMask(l, x, l.optional_tensors(1), l.operand(2), l.flag(3));
  if (masked.defined()) return l.Return(masked);
  absl::StatusOr<Indexing> indexing = IndexingOf(l, x, l.optional_tensors(1));
  if (!indexing.ok()) return indexing.status();
  const size_t first = static_cast<size_t>(indexing->first);
  const Tensor merged = l.b.View(l.b.Permute(x, indexing->order), indexing->merged);
  const SymIntVector index_sizes = indexing->position.sizes();
  SymIntVector rows = indexing->merged;
  rows.erase(rows.begin() + indexing->first);
  rows.insert(rows.begin() + indexing->first, index_sizes.begin(), index_sizes.end());
  const Tensor values = l.b.Expand(l.operand(2), rows);
  Tensor result;
  if (l.flag(3)) {
    result = l.b.ScatterAdd(values, indexing->position, merged, indexing->first, -1, indexing->merged);
  } else {
    const Tensor position = Flat(l, indexing->position);
    const Tensor counts = LastOfEqual(l, position, 0);
    SymIntVector flat_rows = indexing->merged;
    flat_rows[first] = NumElementsOf(index_sizes);
    result = OverwriteRows(l, merged, l.b.View(values, flat_rows), position, counts, indexing->first);
  }
  std::vector<int64_t> inverse(indexing->order.size());
  for (size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<size_t>(indexing->order[i])] = static_cast<int64_t>(i);
  return l.Return(l.b.Permute(l.b.View(result, indexing->permuted), inverse));
}

// (self, index): index into the row-major order of self
absl::Status LowerTake(Lowering& l) {
  const Tensor x = l.tensor(0);
  return l.Return(
      l.b.Gather(Flat(l, x), l.b.CheckedIndex(l.tensor(1), NumElementsOf(x.sizes()), /*from_end=*/true), 0));
}

// (self, index, source, accumulate)
absl::Status LowerPut(Lowering& l) {
  const Tensor x = l.tensor(0);
  const SymInt count = NumElementsOf(x.sizes());
  const Tensor position = Flat(l, l.b.CheckedIndex(l.tensor(1), count, /*from_end=*/true));
  const Tensor source = Flat(l, l.operand(2));
  if (l.flag(3)) {
    return l.Return(l.b.View(l.b.ScatterAdd(source, position, Flat(l, x), 0, -1, {count}), x.sizes()));
  }
  const Tensor counts = LastOfEqual(l, position, 0);
  return l.Return(l.b.View(OverwriteRows(l, Flat(l, x), source, position, counts, 0), x.sizes()));
}

// (self, dim, index, source)
absl::Status LowerIndexCopy(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (x.rank() == 0) return l.Return(l.b.View(l.operand(3), {}));
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const Tensor position = Flat(l, IndexInto(l, 2, x.sizes(), dim));
  const Tensor counts = LastOfEqual(l, position, 0);
  return l.Return(OverwriteRows(l, x, l.operand(3), position, counts, dim));
}

// (self, dim, index, value)
absl::Status LowerIndexFill(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (x.rank() == 0) return l.Return(l.operand(3));
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const SymInt size = x.sizes()[static_cast<size_t>(dim)];
  const Tensor position = Flat(l, l.b.CheckedIndex(l.tensor(2), size, /*from_end=*/true));
  const Tensor ones = l.b.Full(l.b.Literal(SymInt(1)), DType::kInt64, position.sizes());
  const Tensor hits = l.b.ScatterAdd(ones, position, Tensor(), 0, -1, {size});
  SymIntVector along(static_cast<size_t>(x.rank()), SymInt(1));
  along[static_cast<size_t>(dim)] = size;
  return l.Return(l.b.Select(l.b.View(l.b.Gt(hits, l.b.Literal(SymInt(0))), along), l.operand(3), x));
}

// Returns x with the elements along `dim` in reverse order.
Tensor Flipped(Lowering& l, const Tensor& x, int64_t dim) {
  if (x.rank() == 0) return x;
  dim = l.b.WrapDim(dim, x.rank());
  const SymInt size = x.sizes()[static_cast<size_t>(dim)];
  return l.b.Gather(x, l.b.Literal(size - SymInt(1)) - l.b.Iota(0, DType::kInt64, {size}), dim);
}

// (self, dims)
absl::Status LowerFlip(Lowering& l) {
  Tensor x = l.tensor(0);
  for (const int64_t dim : l.integers(1)) x = Flipped(l, x, dim);
  return l.Return(x);
}

// (self, k, dims): k quarter turns from the first of the dimensions to the second.
absl::Status LowerRot90(Lowering& l) {
  const Tensor x = l.tensor(0);
  const std::vector<int64_t> dims = l.integers(2);
  const int64_t turns = (l.integer(1) % 4 + 4) % 4;
  if (turns == 0) return l.Return(x);
  if (turns == 2) return l.Return(Flipped(l, Flipped(l, x, dims[0]), dims[1]));
  return l.Return(l.b.Transpose(Flipped(l, x, turns == 1 ? dims[1] : dims[0]), dims[0], dims[1]));
}

// (self, size, memory_format): added elements are unspecified in LibTorch, and zero here.
absl::Status LowerResize(Lowering& l) {
  const Tensor x = Flat(l, l.tensor(0));
  const SymInt& before = x.sizes()[0];
  const SymInt after = NumElementsOf(l.result().sizes);
  if (!before.is_constant() || !after.is_constant()) return l.Unsupported("a dynamic dimension");
  Tensor flat = x;
  if (after.constant() > before.constant()) {
    const Tensor more = l.b.Full(l.b.Literal(SymInt(0)), x.dtype(), {after - before});
    flat = l.b.Concat({x, more}, 0);
  } else {
    flat = l.b.Slice(x, 0, 0, after, 1);
  }
  return l.Return(l.b.View(flat, l.result().sizes));
}

// (grad, input_sizes, dim, size, step): overlapping windows add up.
absl::Status LowerUnfoldBackward(Lowering& l) {
  const Tensor grad = l.tensor(0);
  const SymIntVector sizes = l.sizes(1);
  if (sizes.empty() && grad.sizes() == SymIntVector{SymInt(1)}) return l.Return(l.b.View(grad, {}));
  if (sizes.empty() || grad.sizes().size() != sizes.size() + 1) return l.Unsupported("a gradient of another rank");
  const int64_t dim = l.b.WrapDim(l.integer(2), static_cast<int>(sizes.size()));
  const SymIntVector window = {grad.sizes()[static_cast<size_t>(dim)], grad.sizes().back()};
  const Tensor index = l.b.Iota(0, DType::kInt64, window) * l.b.Literal(l.size(4)) + l.b.Iota(1, DType::kInt64, window);
  std::vector<int64_t> order;  // the window's dimension follows `dim`
  for (int64_t d = 0; d + 1 < grad.rank(); ++d) {
    order.push_back(d);
    if (d == dim) order.push_back(grad.rank() - 1);
  }
  return l.Return(l.b.ScatterAdd(l.b.Permute(grad, order), index, Tensor(), dim, -1, sizes));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._unsafe_index.Tensor", LowerIndex),
    Row("aten._unsafe_index_put.default", LowerIndexPut),
    Row("aten.as_strided_scatter.default", LowerAsStridedScatter),
    Row("aten.embedding.default", LowerEmbedding),
    Row("aten.embedding_dense_backward.default", LowerEmbeddingBackward),
    Row("aten.flip.default", LowerFlip),
    Row("aten.gather.default", LowerGather),
    Row("aten.index.Tensor", LowerIndex),
    Row("aten.index_add.default", LowerIndexAdd),
    Row("aten.index_copy.default", LowerIndexCopy),
    Row("aten.index_fill.int_Scalar", LowerIndexFill),
    Row("aten.index_fill.int_Tensor", LowerIndexFill),
    Row("aten.index_put.default", LowerIndexPut),
    Row("aten.index_select.default", LowerIndexSelect),
    Row("aten.put.default", LowerPut),
    Row("aten.resize.default", LowerResize),
    Row("aten.rot90.default", LowerRot90),
    Row("aten.scatter.src", LowerScatter),
    Row("aten.scatter.value", LowerScatter),
    Row("aten.scatter_add.default", LowerScatterAdd),
    Row("aten.take.default", LowerTake),
    Row("aten.unfold_backward.default", LowerUnfoldBackward),
};

}  // namespace

absl::Span<const OpRow> IndexingRows() { return kRows; }

}  // namespace cotan::aot
