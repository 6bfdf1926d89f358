// Rows of indexing: everything becomes a gather or scatter_add along one
// dimension of a view; index arithmetic is expressions.
#include <algorithm>

#include "aot/lower/lowering.h"
#include "aot/lower/op_table_rows.h"

namespace cotan::aot {
namespace {

absl::Status LowerEmbedding(Lowering& l) { return l.Return(l.b.Gather(l.tensor(0), l.tensor(1), 0)); }

// (grad, indices, num_weights, padding_idx, scale_grad_by_freq)
absl::Status LowerEmbeddingBackward(Lowering& l) {
  if (l.flag(4)) return l.Unsupported("scale_grad_by_freq");
  return l.Return(l.b.ScatterAdd(l.tensor(0), l.tensor(1), Tensor(), 0, l.integer(3), l.result().sizes));
}

absl::Status LowerIndexSelect(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (x.rank() == 0) return l.Return(l.b.View(x, l.result().sizes));
  Tensor index = l.tensor(2);
  if (index.rank() == 0) index = l.b.View(index, {SymInt(1)});
  return l.Return(l.b.Gather(x, index, l.integer(1)));
}

// (self, dim, index, source, alpha)
absl::Status LowerIndexAdd(Lowering& l) {
  const Tensor x = l.tensor(0);
  Tensor rows = l.operand(3);
  if (l.num_arguments() > 4) rows = rows * l.literal(4);
  return l.Return(l.b.ScatterAdd(rows, l.tensor(2), x, l.b.WrapDim(l.integer(1), x.rank()), -1, x.sizes()));
}

// For each element of `index`, the row-major position in a tensor of `sizes`
// of the element that has index[...] along `dim` and the element's own place
// along the others.
Tensor FlatPositions(Lowering& l, const Tensor& index, const SymIntVector& sizes, int64_t dim) {
  SymInt stride = 1;
  Tensor position;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    const SymInt& size = sizes[static_cast<size_t>(d)];
    Tensor along;
    if (d == dim) {
      const Tensor wide = l.b.Cast(index, DType::kInt64);
      along = l.b.Select(l.b.Lt(wide, l.b.Literal(SymInt(0))), wide + l.b.Literal(size), wide);
    } else {
      along = l.b.Iota(static_cast<int>(d), DType::kInt64, index.sizes());
    }
    along = along * l.b.Literal(stride);
    position = position.defined() ? position + along : along;
    stride = stride * size;
  }
  return position;
}

// (self, dim, index, sparse_grad)
absl::Status LowerGather(Lowering& l) {
  const Tensor x = l.tensor(0);
  const Tensor index = l.tensor(2);
  if (x.rank() == 0) return l.Return(l.b.View(x, l.result().sizes));
  if (index.rank() == 0) return l.Return(l.b.Gather(x, index, 0));
  const Tensor position = FlatPositions(l, index, x.sizes(), l.b.WrapDim(l.integer(1), x.rank()));
  return l.Return(l.b.Gather(l.b.View(x, {NumElementsOf(x.sizes())}), position, 0));
}

// (self, dim, index, src)
absl::Status LowerScatterAdd(Lowering& l) {
  const Tensor x = l.tensor(0);
  const Tensor index = l.tensor(2);
  if (x.rank() == 0 || index.rank() == 0) return l.Unsupported("a tensor without dimensions");
  Tensor source = l.tensor(3);
  for (int64_t d = 0; d < source.rank(); ++d)
    source = l.b.Slice(source, d, 0, index.sizes()[static_cast<size_t>(d)], 1);
  const Tensor position = FlatPositions(l, index, x.sizes(), l.b.WrapDim(l.integer(1), x.rank()));
  const SymIntVector flat = {NumElementsOf(x.sizes())};
  return l.Return(l.b.View(l.b.ScatterAdd(source, position, l.b.View(x, flat), 0, -1, flat), x.sizes()));
}

// Advanced indexing: x[index...] with some dimensions indexed by tensors.
struct Indexing {
  std::vector<int64_t> order;  // x permuted so that the indexed dimensions are adjacent
  int64_t first = 0;           // where they begin in the permuted x
  SymIntVector merged;         // sizes of the permuted x with them merged
  Tensor position;             // row-major place in the merged dimension
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
    Tensor along = l.b.Cast(index, DType::kInt64);
    if (indexed.size() > 1) {
      along = l.b.Select(l.b.Lt(along, l.b.Literal(SymInt(0))), along + l.b.Literal(size), along) * l.b.Literal(stride);
    }
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

// (self, indices, values, accumulate)
absl::Status LowerIndexPut(Lowering& l) {
  if (!l.flag(3)) return l.Unsupported("overwriting: only accumulate=True is supported");
  const Tensor x = l.tensor(0);
  absl::StatusOr<Indexing> indexing = IndexingOf(l, x, l.optional_tensors(1));
  if (!indexing.ok()) return indexing.status();
  const Tensor merged = l.b.View(l.b.Permute(x, indexing->order), indexing->merged);
  SymIntVector rows = indexing->merged;
  rows.erase(rows.begin() + indexing->first);
  const SymIntVector& index_sizes = indexing->position.sizes();
  rows.insert(rows.begin() + indexing->first, index_sizes.begin(), index_sizes.end());
  const Tensor values = l.b.Expand(l.operand(2), rows);
  const Tensor sum = l.b.ScatterAdd(values, indexing->position, merged, indexing->first, -1, indexing->merged);
  std::vector<int64_t> inverse(indexing->order.size());
  for (size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<size_t>(indexing->order[i])] = static_cast<int64_t>(i);
  return l.Return(l.b.Permute(l.b.View(sum, indexing->permuted), inverse));
}

// (self, dims)
absl::Status LowerFlip(Lowering& l) {
  Tensor x = l.tensor(0);
  for (const int64_t d : l.integers(1)) {
    const int64_t dim = l.b.WrapDim(d, x.rank());
    const SymInt size = x.rank() == 0 ? SymInt(1) : x.sizes()[static_cast<size_t>(dim)];
    if (x.rank() == 0) continue;
    x = l.b.Gather(x, l.b.Literal(size - SymInt(1)) - l.b.Iota(0, DType::kInt64, {size}), dim);
  }
  return l.Return(x);
}

// (grad, input_sizes, dim, size, step): overlapping windows add up.
absl::Status LowerUnfoldBackward(Lowering& l) {
  const Tensor grad = l.tensor(0);
  const SymIntVector sizes = l.sizes(1);
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
    Row("aten.embedding.default", LowerEmbedding),
    Row("aten.embedding_dense_backward.default", LowerEmbeddingBackward),
    Row("aten.flip.default", LowerFlip),
    Row("aten.gather.default", LowerGather),
    Row("aten.index.Tensor", LowerIndex),
    Row("aten.index_add.default", LowerIndexAdd),
    Row("aten.index_put.default", LowerIndexPut),
    Row("aten.index_select.default", LowerIndexSelect),
    Row("aten.scatter_add.default", LowerScatterAdd),
    Row("aten.unfold_backward.default", LowerUnfoldBackward),
};

}  // namespace

absl::Span<const OpRow> IndexingRows() { return kRows; }

}  // namespace cotan::aot
