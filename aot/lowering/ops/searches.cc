// SPDX-License-Identifier: Apache-2.0

// Rows of searches: each value is compared with all elements that it may equal or come after.
#include "aot/lowering/ops/flat_positions.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

// Returns the number of elements of `sorted` [..., n] that come before each of `values` [..., m]
// (or any sizes, if `sorted` is 1-d).
absl::Status CountBefore(Lowering& l, Tensor sorted, Tensor values, bool right) {
  if (values.is_literal()) values = l.b.Full(values, sorted.dtype(), {});
  const DType dtype = PromoteTypes(sorted.dtype(), values.dtype());
  sorted = l.b.Cast(sorted, dtype);
  values = l.b.Cast(values, dtype);
  const int64_t n = values.rank();
  const Tensor left = sorted.rank() == 1 ? sorted : l.b.Unsqueeze(sorted, sorted.rank() - 1);
  const Tensor value = l.b.Unsqueeze(values, n);
  const Tensor before = right ? l.b.Le(left, value) : l.b.Lt(left, value);
  Tensor count = l.b.ReduceSum(l.b.Cast(before, l.result().dtype), {n});
  if (IsFloatingPoint(dtype)) {  // NaN comes after all
    const Tensor is_nan = l.b.Unary(serialization::FN_ISNAN, value);
    count = l.b.Select(is_nan, l.b.Literal(sorted.sizes().back()), count);
  }
  return l.Return(l.b.Squeeze(count, {{n}}));
}

// (self, boundaries, out_int32, right)
absl::Status LowerBucketize(Lowering& l) { return CountBefore(l, l.tensor(1), l.tensor(0), l.flag(3)); }

// (sorted_sequence, self, out_int32, right, side, sorter)
absl::Status LowerSearchSorted(Lowering& l) {
  Tensor sorted = l.tensor(0);
  const int64_t last = sorted.rank() - 1;
  if (l.optional_tensor(5).defined()) {
    const Tensor sorter = l.b.CheckedIndex(l.tensor(5), sorted.sizes()[static_cast<size_t>(last)]);
    sorted = GatherAlong(l, sorted, sorter, last);
  }
  return CountBefore(l, sorted, l.tensor(1), l.flag(3) || l.text(4) == "right");
}

// (elements, test_elements, assume_unique, invert)
absl::Status LowerIsIn(Lowering& l) {
  auto [x, tests] = l.promoted(0, 1);
  if (x.is_literal()) x = l.b.Full(x, tests.dtype(), {});
  if (tests.is_literal()) tests = l.b.Full(tests, x.dtype(), {});
  const int64_t n = x.rank();
  const Tensor equal = l.b.Eq(l.b.Unsqueeze(x, n), l.b.View(tests, {NumElementsOf(tests.sizes())}));
  const Tensor found = l.b.Squeeze(l.b.ReduceMax(equal, {n}), {{n}});
  return l.Return(l.flag(3) ? l.b.Not(found) : found);
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.bucketize.Scalar", LowerBucketize),       Row("aten.bucketize.Tensor", LowerBucketize),
    Row("aten.isin.Scalar_Tensor", LowerIsIn),          Row("aten.isin.Tensor_Scalar", LowerIsIn),
    Row("aten.isin.Tensor_Tensor", LowerIsIn),          Row("aten.searchsorted.Scalar", LowerSearchSorted),
    Row("aten.searchsorted.Tensor", LowerSearchSorted),
};

}  // namespace

absl::Span<const OpRow> SearchRows() { return kRows; }

}  // namespace cotan::aot
