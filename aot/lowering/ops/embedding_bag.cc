// SPDX-License-Identifier: Apache-2.0

// Rows of embedding_bag: gathers rows of a table and reduces them by bag. Bag b has the positions
// offsets[b] to offsets[b + 1].
#include <limits>

#include "aot/lowering/ops/flat_positions.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

enum class Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

// Returns the bag of each position: the number of bags that begin at it or before, minus one.
// i64[positions].
Tensor BagOf(Lowering& l, const Tensor& indices, const Tensor& offsets) {
  const SymInt positions = indices.sizes()[0];
  const SymInt bags = offsets.sizes()[0];
  const Tensor position = l.b.Iota(0, DType::kInt64, {positions, SymInt(1)});
  const Tensor starts = l.b.View(l.b.Cast(offsets, DType::kInt64), {SymInt(1), bags});
  const Tensor begun = l.b.Cast(l.b.Ge(position, starts), DType::kInt64);
  return l.b.View(l.b.ReduceSum(begun, {1}), {positions}) - l.b.Literal(SymInt(1));
}

// Returns, for each position, true if it is not padding; undefined if there is no padding index.
// bool[positions].
Tensor Counted(Lowering& l, const Tensor& indices, int64_t padding_index) {
  if (padding_index < 0) return Tensor();
  return l.b.Ne(l.b.Cast(indices, DType::kInt64), l.b.Literal(SymInt(padding_index)));
}

// Returns the number of positions of each bag that are not padding. i64[bags].
Tensor BagSizes(Lowering& l, const Tensor& bag, const Tensor& counted, const SymInt& bags) {
  const SymInt positions = bag.sizes()[0];
  const Tensor number = l.b.Iota(1, DType::kInt64, {SymInt(1), bags});
  Tensor member = l.b.Eq(l.b.View(bag, {positions, SymInt(1)}), number);
  if (counted.defined()) member = l.b.And(member, l.b.View(counted, {positions, SymInt(1)}));
  return l.b.View(l.b.ReduceSum(l.b.Cast(member, DType::kInt64), {0}), {bags});
}

Tensor Column(Lowering& l, const Tensor& x) { return l.b.View(x, {x.sizes()[0], SymInt(1)}); }

// Returns the factor of the row of each position; undefined if all are 1.
Tensor WeightOfPosition(Lowering& l, Mode mode, const Tensor& bag, const Tensor& bag_sizes, const Tensor& per_sample,
                        DType dtype) {
  Tensor weight = per_sample;
  if (mode == Mode::kMean) {
    const Tensor size = l.b.Maximum(l.b.Cast(l.b.Gather(bag_sizes, bag, 0), dtype), l.b.Literal(1.0));
    const Tensor part = l.b.Unary(serialization::FN_RECIPROCAL, size);
    weight = weight.defined() ? weight * part : part;
  }
  return weight;
}

// Returns rows of zeros in place of those that do not count, whatever these are.
Tensor WithoutPadding(Lowering& l, const Tensor& rows, const Tensor& counted) {
  return counted.defined() ? l.b.Select(Column(l, counted), rows, l.b.Literal(0.0)) : rows;
}

struct LargestOfBags {
  Tensor values;  // [bags, columns], 0 for a bag without elements
  Tensor rows;    // of the table, where the values are from; 0 for a bag without elements
};

// Returns the largest element of each column of each bag, of equal ones the first. As in ATen, no number is larger
// than a NaN at the first position of a bag, and a NaN at another position is not larger than any. Compares each
// position with each bag.
LargestOfBags LargestOf(Lowering& l, const Tensor& rows, const Tensor& indices, const Tensor& bag,
                        const Tensor& counted, const SymInt& bags) {
  const SymInt positions = rows.sizes()[0];
  const SymInt columns = rows.sizes()[1];
  const Tensor none = l.b.Literal(positions);
  Tensor member = l.b.Eq(l.b.View(bag, {SymInt(1), positions}), l.b.Iota(0, DType::kInt64, {bags, SymInt(1)}));
  if (counted.defined()) member = l.b.And(member, l.b.View(counted, {SymInt(1), positions}));
  const Tensor place = l.b.Iota(1, DType::kInt64, {bags, positions});
  const Tensor first = l.b.Reduce(serialization::FN_REDUCE_MIN, l.b.Select(member, place, none), {1});

  const Tensor lowest = l.b.Literal(-std::numeric_limits<double>::infinity());
  const Tensor is_nan = l.b.Unary(serialization::FN_ISNAN, rows);
  const Tensor value = l.b.View(l.b.Select(is_nan, lowest, rows), {SymInt(1), positions, columns});
  const Tensor inside = l.b.View(member, {bags, positions, SymInt(1)});
  const Tensor most = l.b.ReduceMax(l.b.Select(inside, value, lowest), {1});
  const Tensor hit = l.b.And(inside, l.b.Eq(value, most));
  const Tensor place_in_bag = l.b.Iota(1, DType::kInt64, {bags, positions, columns});
  Tensor found = l.b.Reduce(serialization::FN_REDUCE_MIN, l.b.Select(hit, place_in_bag, none), {1});
  found = l.b.View(found, {bags, columns});

  const Tensor last = l.b.Literal(positions - SymInt(1));
  const Tensor is_empty = l.b.Eq(first, none);
  const Tensor begins_with_nan = l.b.Gather(is_nan, l.b.View(l.b.Minimum(first, last), {bags}), 0);
  found = l.b.Minimum(l.b.Select(begins_with_nan, first, found), last);
  const Tensor element = found * l.b.Literal(columns) + l.b.Iota(1, DType::kInt64, {bags, columns});
  const Tensor values = l.b.Gather(l.b.View(rows, {positions * columns}), element, 0);
  const Tensor row = l.b.Gather(l.b.Cast(indices, DType::kInt64), found, 0);
  return {l.b.Select(is_empty, l.b.Literal(0.0), values), l.b.Select(is_empty, l.b.Literal(SymInt(0)), row)};
}

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse,
// per_sample_weights, include_last_offset, padding_idx) -> output, offset2bag,
// bag_size, max_indices
absl::Status LowerEmbeddingBag(Lowering& l) {
  const Tensor table = l.tensor(0);
  const Tensor indices = l.b.CheckedIndex(l.tensor(1), table.sizes()[0]);
  Tensor offsets = l.b.CheckedIndex(l.tensor(2), indices.sizes()[0] + SymInt(1));
  const Mode mode = static_cast<Mode>(l.integer(4));
  if (l.flag(7)) offsets = l.b.Slice(offsets, 0, 0, offsets.sizes()[0] - SymInt(1), 1);
  const SymInt bags = l.result().sizes[0];
  const DType dtype = l.result().dtype;
  const Tensor bag = BagOf(l, indices, offsets);
  const Tensor counted = Counted(l, indices, l.integer(8));
  const Tensor sizes = BagSizes(l, bag, counted, bags);
  const Tensor per_sample = l.optional_tensor(6);
  Tensor rows = l.b.Gather(table, indices, 0);
  const Tensor weight = WeightOfPosition(l, mode, bag, sizes, per_sample, dtype);
  if (weight.defined()) rows = rows * Column(l, weight);
  rows = WithoutPadding(l, rows, counted);
  LargestOfBags largest;
  if (mode == Mode::kMax && !(indices.sizes()[0] == SymInt(0))) {
    largest = LargestOf(l, rows, indices, bag, counted, bags);
  }
  const Tensor output =
      largest.values.defined() ? largest.values : l.b.ScatterAdd(rows, bag, Tensor(), 0, -1, l.result().sizes);

  // Only the backward uses the other results. Without the rows of mode max, it recomputes them from the offsets,
  // because LibTorch leaves some of them empty.
  std::vector<Tensor> results = {output};
  for (int k = 1; k < 4; ++k) {
    if (!l.has_result(k)) {
      results.push_back(Tensor());
    } else if (k == 2 && l.result(2).sizes == SymIntVector{bags}) {
      results.push_back(l.b.Cast(sizes, l.result(2).dtype));
    } else if (k == 3 && largest.rows.defined()) {
      results.push_back(l.b.Cast(largest.rows, l.result(3).dtype));
    } else {
      results.push_back(l.b.Full(l.b.Literal(SymInt(0)), l.result(k).dtype, l.result(k).sizes));
    }
  }
  return l.ReturnAll(results);
}

// Adds the gradient of each element of a bag with positions to the row it is from.
absl::Status ReturnGradientOfLargest(Lowering& l) {
  const Tensor grad = l.tensor(0);
  const SymIntVector& sizes = l.result().sizes;
  const Tensor is_empty = l.b.Eq(Column(l, l.tensor(4)), l.b.Literal(SymInt(0)));
  const Tensor kept = l.b.Select(is_empty, l.b.Literal(0.0), grad);
  const Tensor position = FlatPositions(l, l.tensor(5), sizes, 0);
  const SymIntVector flat = {NumElementsOf(sizes)};
  return l.Return(l.b.View(l.b.ScatterAdd(kept, position, Tensor(), 0, -1, flat), sizes));
}

// (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights,
// scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx)
absl::Status LowerEmbeddingBagBackward(Lowering& l) {
  const Tensor grad = l.tensor(0);
  const Tensor indices = l.b.CheckedIndex(l.tensor(1), l.result().sizes[0]);
  const Mode mode = static_cast<Mode>(l.integer(8));
  if (l.flag(9)) return l.Unsupported("sparse gradients");
  if (mode == Mode::kMax) return ReturnGradientOfLargest(l);
  const SymInt bags = grad.sizes()[0];
  const Tensor offsets = l.b.Slice(l.tensor(2), 0, 0, bags, 1);
  const Tensor bag = BagOf(l, indices, offsets);
  const Tensor counted = Counted(l, indices, l.integer(11));
  const Tensor sizes = BagSizes(l, bag, counted, bags);
  Tensor rows = l.b.Gather(grad, bag, 0);
  const Tensor weight = WeightOfPosition(l, mode, bag, sizes, l.optional_tensor(10), grad.dtype());
  if (weight.defined()) rows = rows * Column(l, weight);
  rows = WithoutPadding(l, rows, counted);
  if (l.flag(7)) rows = rows * Column(l, ReciprocalCounts(l, indices, l.result().sizes[0], grad.dtype()));
  return l.Return(l.b.ScatterAdd(rows, indices, Tensor(), 0, -1, l.result().sizes));
}

// (grad, weight, indices, offsets, offset2bag, mode, padding_idx)
absl::Status LowerPerSampleWeightsBackward(Lowering& l) {
  const Tensor grad = l.tensor(0);
  const Tensor indices = l.tensor(2);
  const Tensor offsets = l.b.Slice(l.tensor(3), 0, 0, grad.sizes()[0], 1);
  const Tensor rows = l.b.Gather(l.tensor(1), indices, 0);
  const Tensor product = rows * l.b.Gather(grad, BagOf(l, indices, offsets), 0);
  const Tensor sum = l.b.View(l.b.ReduceSum(product, {1}), {indices.sizes()[0]});
  const Tensor counted = Counted(l, indices, l.integer(6));
  return l.Return(counted.defined() ? l.b.Select(counted, sum, l.b.Literal(0.0)) : sum);
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._embedding_bag.default", LowerEmbeddingBag),
    Row("aten._embedding_bag_backward.default", LowerEmbeddingBagBackward),
    Row("aten._embedding_bag_forward_only.default", LowerEmbeddingBag),
    Row("aten._embedding_bag_per_sample_weights_backward.default", LowerPerSampleWeightsBackward),
};

}  // namespace

absl::Span<const OpRow> EmbeddingBagRows() { return kRows; }

}  // namespace cotan::aot
