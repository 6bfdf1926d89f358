// Rows of ops that put elements in order. An element's place is the number of
// elements that go before it, so the work grows with the square of the sorted
// dimension; nothing of that size is stored.
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "aot/lower/lowering.h"
#include "aot/lower/op_table_rows.h"

namespace cotan::aot {
namespace {

constexpr int64_t kMaxSorted = 16384;

// x with `dim` as the last dimension, and the order that undoes it.
struct Turned {
  Tensor x;
  std::vector<int64_t> back;
};

Turned TurnLast(Lowering& l, const Tensor& x, int64_t dim) {
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + dim);
  order.push_back(dim);
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return {l.b.Permute(x, order), back};
}

Tensor IsNan(Lowering& l, const Tensor& x) { return l.b.Ne(x, x); }

// Along the last dimension, for each element the number of those that go before
// it: i32. NaN counts as the greatest; of equal elements the first goes first.
Tensor Ranks(Lowering& l, const Tensor& x, bool descending) {
  const int64_t n = x.rank();
  const Tensor self = l.b.Unsqueeze(x, n), other = l.b.Unsqueeze(x, n - 1);
  SymIntVector pairs = x.sizes();
  pairs.push_back(pairs.back());
  const Tensor earlier = l.b.Lt(l.b.Iota(static_cast<int>(n), DType::kInt32, pairs),
                                l.b.Iota(static_cast<int>(n) - 1, DType::kInt32, pairs));
  Tensor before = descending ? l.b.Gt(other, self) : l.b.Lt(other, self);
  Tensor equal = l.b.Eq(other, self);
  if (IsFloatingPoint(x.dtype())) {
    const Tensor self_nan = IsNan(l, self), other_nan = IsNan(l, other);
    const Tensor first = descending ? other_nan : self_nan;
    const Tensor second = descending ? self_nan : other_nan;
    before = l.b.Or(before, l.b.And(first, l.b.Not(second)));
    equal = l.b.Or(equal, l.b.And(self_nan, other_nan));
  }
  before = l.b.Or(before, l.b.And(equal, earlier));
  return l.b.Squeeze(l.b.ReduceSum(l.b.Cast(before, DType::kInt32), {n}), {{n}});
}

struct Sorted {
  Tensor values;
  Tensor indexes;
};

// The `count` first elements of `dim` in order, and their indexes.
absl::StatusOr<Sorted> FirstInOrder(Lowering& l, const Tensor& x, int64_t dim, const SymInt& count, bool descending) {
  if (x.rank() == 0) return Sorted{x, l.b.Full(l.b.Literal(SymInt(0)), DType::kInt64, {})};
  dim = l.b.WrapDim(dim, x.rank());
  const SymInt size = x.sizes()[static_cast<size_t>(dim)];
  if (!size.is_constant()) return l.Unsupported("a dynamic dimension");
  if (size.constant() > kMaxSorted) {
    return l.Unsupported(
        absl::StrCat("a dimension of ", size.constant(), " elements; at most ", kMaxSorted, " are put in order"));
  }
  const Turned turned = TurnLast(l, x, dim);
  const int64_t n = x.rank();
  const Tensor ranks = l.b.Unsqueeze(Ranks(l, turned.x, descending), n - 1);
  SymIntVector pairs = turned.x.sizes();
  pairs.back() = count;
  pairs.push_back(size);
  const Tensor here = l.b.Eq(ranks, l.b.Iota(static_cast<int>(n) - 1, DType::kInt32, pairs));
  const Tensor element = l.b.Iota(static_cast<int>(n), DType::kInt64, pairs);
  const Tensor chosen = l.b.Select(here, element, l.b.Literal(SymInt(0)));
  const Tensor index = l.b.Squeeze(l.b.ReduceSum(chosen, {n}), {{n}});
  // Row-major place of each chosen element in the turned x.
  Tensor position = index;
  SymInt stride = size;
  for (int64_t d = n - 2; d >= 0; --d) {
    position = position + l.b.Iota(static_cast<int>(d), DType::kInt64, index.sizes()) * l.b.Literal(stride);
    stride = stride * turned.x.sizes()[static_cast<size_t>(d)];
  }
  const Tensor values = l.b.Gather(l.b.View(turned.x, {NumElementsOf(x.sizes())}), position, 0);
  return Sorted{l.b.Permute(values, turned.back), l.b.Permute(index, turned.back)};
}

absl::Status ReturnSorted(Lowering& l, const absl::StatusOr<Sorted>& sorted) {
  if (!sorted.ok()) return sorted.status();
  return l.ReturnAll({sorted->values, sorted->indexes});
}

absl::Status Sort(Lowering& l, int dim_argument) {
  const int64_t dim = l.integer(dim_argument);
  const Tensor x = l.tensor(0);
  const SymInt count = x.rank() == 0 ? SymInt(1) : x.sizes()[static_cast<size_t>(l.b.WrapDim(dim, x.rank()))];
  return ReturnSorted(l, FirstInOrder(l, x, dim, count, l.flag(dim_argument + 1)));
}

// (self, dim, descending) and (self, stable, dim, descending)
absl::Status LowerSort(Lowering& l) { return Sort(l, 1); }
absl::Status LowerStableSort(Lowering& l) { return Sort(l, 2); }

// (self, k, dim, largest, sorted)
absl::Status LowerTopK(Lowering& l) {
  return ReturnSorted(l, FirstInOrder(l, l.tensor(0), l.integer(2), l.size(1), l.flag(3)));
}

// The element of rank `k`, counted from 1, along `dim`, of size 1 then.
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

// The lower one of two middle elements; NaN, where the first is, if there is any.
absl::StatusOr<Sorted> MedianOf(Lowering& l, const Tensor& x, int64_t dim) {
  const SymInt size = x.rank() == 0 ? SymInt(1) : x.sizes()[static_cast<size_t>(l.b.WrapDim(dim, x.rank()))];
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

absl::Status LowerMedian(Lowering& l) {
  const Tensor x = l.tensor(0);
  absl::StatusOr<Sorted> median = MedianOf(l, l.b.View(x, {NumElementsOf(x.sizes())}), 0);
  return median.ok() ? l.Return(l.b.View(median->values, {})) : median.status();
}

// (self, dim, keepdim)
absl::Status LowerMedianAlong(Lowering& l) {
  absl::StatusOr<Sorted> median = MedianOf(l, l.tensor(0), l.integer(1));
  return median.ok() ? ReturnOne(l, *median) : median.status();
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.kthvalue.default", LowerKthValue), Row("aten.median.default", LowerMedian),
    Row("aten.median.dim", LowerMedianAlong),    Row("aten.sort.default", LowerSort),
    Row("aten.sort.stable", LowerStableSort),    Row("aten.topk.default", LowerTopK),
};

}  // namespace

absl::Span<const OpRow> SortingRows() { return kRows; }

}  // namespace cotan::aot
