// SPDX-License-Identifier: Apache-2.0

// Rows of sorting and order statistics, all computed with prim.sort.
#include <limits>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

Tensor IsNan(Lowering& l, const Tensor& x) { return l.b.Ne(x, x); }

struct Sorted {
  Tensor values;
  Tensor indexes;
};

SymInt SizeAlong(Lowering& l, const Tensor& x, int64_t dim) {
  return x.rank() == 0 ? SymInt(1) : x.sizes()[static_cast<size_t>(l.b.WrapDim(dim, x.rank()))];
}

// Returns the first `count` elements along `dim` in sorted order, and their indexes.
absl::StatusOr<Sorted> FirstInOrder(Lowering& l, const Tensor& x, int64_t dim, const SymInt& count, bool descending) {
  if (IsComplex(x.dtype())) return l.Unsupported("a complex dtype: sorting is not defined for it");
  if (x.rank() == 0) return Sorted{x, l.b.Full(l.b.Literal(SymInt(0)), DType::kInt64, {})};
  const auto [values, indexes] = l.b.Sort(x, dim, count, descending);
  return Sorted{values, indexes};
}

absl::Status ReturnSorted(Lowering& l, const absl::StatusOr<Sorted>& sorted) {
  if (!sorted.ok()) return sorted.status();
  return l.ReturnAll({sorted->values, sorted->indexes});
}

absl::Status Sort(Lowering& l, int dim_argument) {
  const int64_t dim = l.integer(dim_argument);
  const Tensor x = l.tensor(0);
  return ReturnSorted(l, FirstInOrder(l, x, dim, SizeAlong(l, x, dim), l.flag(dim_argument + 1)));
}

// (self, dim, descending) and (self, stable, dim, descending)
absl::Status LowerSort(Lowering& l) { return Sort(l, 1); }
absl::Status LowerStableSort(Lowering& l) { return Sort(l, 2); }

// (self, k, dim, largest, sorted)
absl::Status LowerTopK(Lowering& l) {
  return ReturnSorted(l, FirstInOrder(l, l.tensor(0), l.integer(2), l.size(1), l.flag(3)));
}

// Returns the element of rank `k` (from 1) along `dim`, which is kept with size 1.
absl::StatusOr<Sorted> ElementOfRank(Lowering& l, const Tensor& x, int64_t dim, const SymInt& k) {
  absl::StatusOr<Sorted> sorted = FirstInOrder(l, x, dim, k, /*descending=*/false);
  if (!sorted.ok() || x.rank() == 0) return sorted;
  dim = l.b.WrapDim(dim, x.rank());
  return Sorted{l.b.Slice(sorted->values, dim, k - SymInt(1), k, 1),
                l.b.Slice(sorted->indexes, dim, k - SymInt(1), k, 1)};
}

absl::Status ReturnOne(Lowering& l, const Sorted& element) {
  return l.ReturnAll({l.b.View(element.values, l.result().sizes), l.b.View(element.indexes, l.result().sizes)});
}

// (self, k, dim, keepdim)
absl::Status LowerKthValue(Lowering& l) {
  absl::StatusOr<Sorted> element = ElementOfRank(l, l.tensor(0), l.integer(2), l.size(1));
  return element.ok() ? ReturnOne(l, *element) : element.status();
}

// Returns the median, the lower one of two middle elements. If there is a NaN, returns NaN and the
// index of the first one.
absl::StatusOr<Sorted> MedianOf(Lowering& l, const Tensor& x, int64_t dim) {
  const SymInt size = SizeAlong(l, x, dim);
  const SymInt k = SymInt::Binary(SymInt::Kind::kFloorDiv, size + SymInt(1), SymInt(2));
  absl::StatusOr<Sorted> element = ElementOfRank(l, x, dim, k);
  if (!element.ok() || x.rank() == 0 || !IsFloatingPoint(x.dtype())) return element;
  const auto d = l.b.WrapDim(dim, x.rank());
  const Tensor nan = IsNan(l, x);
  const Tensor place = l.b.Iota(static_cast<int>(d), DType::kInt64, x.sizes());
  const Tensor first = l.b.Reduce(serialization::FN_REDUCE_MIN, l.b.Select(nan, place, l.b.Literal(size)), {d});
  const Tensor any = l.b.Lt(first, l.b.Literal(size));
  return Sorted{l.b.Select(any, l.b.Literal(std::numeric_limits<double>::quiet_NaN()), element->values),
                l.b.Select(any, first, element->indexes)};
}

// Returns whether `x` has no elements. The median of none is NaN.
bool IsEmpty(const Tensor& x) { return NumElementsOf(x.sizes()) == SymInt(0); }

absl::Status ReturnMedianOfNone(Lowering& l) {
  if (!IsFloatingPoint(l.result().dtype)) return l.Unsupported("the median of no integers is not defined");
  return l.Return(l.b.Literal(std::numeric_limits<double>::quiet_NaN()));
}

absl::Status LowerMedian(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (IsEmpty(x)) return ReturnMedianOfNone(l);
  absl::StatusOr<Sorted> median = MedianOf(l, l.b.View(x, {NumElementsOf(x.sizes())}), 0);
  return median.ok() ? l.Return(l.b.View(median->values, {})) : median.status();
}

// (self, dim, keepdim)
absl::Status LowerMedianAlong(Lowering& l) {
  absl::StatusOr<Sorted> median = MedianOf(l, l.tensor(0), l.integer(1));
  return median.ok() ? ReturnOne(l, *median) : median.status();
}

// Returns the element of each line of `sorted` at `position`, which has size 1 along `dim`.
Sorted ElementAt(Lowering& l, const Sorted& sorted, const Tensor& position, int64_t dim) {
  const Tensor place = l.b.Iota(static_cast<int>(dim), DType::kInt64, sorted.values.sizes());
  const Tensor here = l.b.Eq(place, position);
  const auto take = [&](const Tensor& x) {
    return l.b.ReduceSum(l.b.Select(here, x, l.b.Full(l.b.Literal(SymInt(0)), x.dtype(), {})), {dim});
  };
  const DType dtype = sorted.values.dtype();
  if (dtype != DType::kBool) return {take(sorted.values), take(sorted.indexes)};
  return {l.b.Cast(take(l.b.Cast(sorted.values, DType::kUInt8)), dtype), take(sorted.indexes)};
}

// Returns the median of the elements that are not NaN, the lower one of two middle elements.
absl::StatusOr<Sorted> NanMedianOf(Lowering& l, const Tensor& x, int64_t dim) {
  if (x.rank() == 0 || !IsFloatingPoint(x.dtype())) return MedianOf(l, x, dim);
  dim = l.b.WrapDim(dim, x.rank());
  COTAN_ASSIGN_OR_RETURN(const Sorted sorted, FirstInOrder(l, x, dim, SizeAlong(l, x, dim), /*descending=*/false));
  const Tensor numbers = l.b.ReduceSum(l.b.Cast(l.b.Not(IsNan(l, x)), DType::kInt64), {dim});
  const Tensor one = l.b.Literal(SymInt(1));
  const Tensor last = l.b.Maximum(numbers - one, l.b.Full(l.b.Literal(SymInt(0)), DType::kInt64, {}));
  return ElementAt(l, sorted, l.b.Binary(serialization::FN_FLOOR_DIV, last, l.b.Literal(SymInt(2))), dim);
}

absl::Status LowerNanMedian(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (IsEmpty(x)) return ReturnMedianOfNone(l);
  absl::StatusOr<Sorted> median = NanMedianOf(l, l.b.View(x, {NumElementsOf(x.sizes())}), 0);
  return median.ok() ? l.Return(l.b.View(median->values, {})) : median.status();
}

// (self, dim, keepdim)
absl::Status LowerNanMedianAlong(Lowering& l) {
  absl::StatusOr<Sorted> median = NanMedianOf(l, l.tensor(0), l.integer(1));
  return median.ok() ? ReturnOne(l, *median) : median.status();
}

// (self, dim, keepdim): the smallest of the most frequent elements, and the index of its last
// occurrence.
absl::Status LowerMode(Lowering& l) {
  const Tensor x = l.tensor(0);
  const SymInt size = SizeAlong(l, x, l.integer(1));
  COTAN_ASSIGN_OR_RETURN(const Sorted sorted, FirstInOrder(l, x, l.integer(1), size, /*descending=*/false));
  if (x.rank() == 0) return ReturnOne(l, sorted);
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const Tensor place = l.b.Iota(static_cast<int>(dim), DType::kInt64, x.sizes());
  const Tensor before = l.b.Slice(sorted.values, dim, 0, size - SymInt(1), 1);
  const Tensor after = l.b.Slice(sorted.values, dim, 1, size, 1);
  const Tensor zero = l.b.Literal(SymInt(0));
  const Tensor later = l.b.Select(l.b.Ne(before, after), l.b.Slice(place, dim, 1, size, 1), zero);
  const Tensor first = l.b.Full(zero, DType::kInt64, l.b.Slice(place, dim, 0, 1, 1).sizes());
  const Tensor begin = l.b.Scan(serialization::Scan::MAX, l.b.Concat({first, later}, dim), dim).first;
  const Tensor count = place - begin;
  const Tensor most = l.b.ReduceMax(count, {dim});
  const Tensor candidates = l.b.Select(l.b.Eq(count, most), place, l.b.Literal(size));
  return ReturnOne(l, ElementAt(l, sorted, l.b.Reduce(serialization::FN_REDUCE_MIN, candidates, {dim}), dim));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.kthvalue.default", LowerKthValue),   Row("aten.median.default", LowerMedian),
    Row("aten.median.dim", LowerMedianAlong),      Row("aten.mode.default", LowerMode),
    Row("aten.nanmedian.default", LowerNanMedian), Row("aten.nanmedian.dim", LowerNanMedianAlong),
    Row("aten.sort.default", LowerSort),           Row("aten.sort.stable", LowerStableSort),
    Row("aten.topk.default", LowerTopK),
};

}  // namespace

absl::Span<const OpRow> SortingRows() { return kRows; }

}  // namespace cotan::aot
