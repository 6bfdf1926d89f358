// SPDX-License-Identifier: Apache-2.0

// Rows of ops whose results have a size that the caller gives, in place of one that depends on data, and of the op that
// cuts them to the number that the data has.
#include "aot/ir/leading_rows.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

using serialization::Scan;

Tensor RunningSum(Lowering& l, const Tensor& x) {
  return l.b.Scan(Scan::SUM, l.b.Cast(x, DType::kInt64), /*dim=*/0).first;
}

// (self, size, fill_value) -> i64[size, rank of self]: each set element writes its number to its own row.
absl::Status LowerNonzeroStatic(Lowering& l) {
  Tensor x = l.tensor(0);
  const SymIntVector sizes = x.sizes();
  const SymInt rows = l.size(1);
  const Tensor zero = l.b.Literal(SymInt(0)), one = l.b.Literal(SymInt(1)), fill = l.b.Literal(l.size(2));
  if (sizes.empty()) return l.Return(l.b.Full(zero, DType::kInt64, l.result().sizes));
  x = l.b.View(x, {NumElementsOf(sizes)});
  const Tensor is_set = l.b.Ne(x, l.b.Literal(SymInt(0)));
  const Tensor before = RunningSum(l, is_set) - one;
  // Elements that are not written go to a further row, which is dropped.
  const Tensor row = l.b.Select(l.b.And(is_set, l.b.Lt(before, l.b.Literal(rows))), before, l.b.Literal(rows));
  const Tensor numbers = l.b.Iota(0, DType::kInt64, x.sizes()) + one;
  const Tensor written = l.b.ScatterAdd(numbers, row, Tensor(), 0, -1, {rows + SymInt(1)});
  const Tensor number = l.b.Slice(written, 0, 0, rows, 1);
  const Tensor is_filled = l.b.Eq(number, zero);
  Tensor rest = l.b.Maximum(number - one, zero);
  std::vector<Tensor> columns(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    const Tensor size = l.b.Literal(sizes[d]);
    const Tensor index = l.b.Binary(serialization::FN_REMAINDER, rest, size);
    columns[d] = l.b.Unsqueeze(l.b.Select(is_filled, fill, index), 1);
    rest = l.b.Binary(serialization::FN_FLOOR_DIV, rest, size);
  }
  return l.Return(l.b.Concat(columns, 1));
}

// (repeats, output_size) -> i64[output_size]: each element starts where the ones before it end.
// A call fails unless the repeats are not negative and their sum is the given size.
absl::Status LowerRepeatInterleave(Lowering& l) {
  if (l.is_none(1)) return l.Unsupported("a call without output_size");
  const SymInt size = l.size(1);
  const Tensor repeats = l.b.CheckedIndex(l.tensor(0), size + SymInt(1));
  const Tensor one = l.b.Literal(SymInt(1));
  // Ends beyond the size, with which the call fails, add to a further element, which is dropped.
  const Tensor ends = l.b.Minimum(RunningSum(l, repeats), l.b.Literal(size));
  const Tensor excess = l.b.CheckedIndex(l.b.ReduceSum(l.b.Cast(repeats, DType::kInt64), {0}) - l.b.Literal(size), 1);
  const Tensor marks =
      l.b.ScatterAdd(l.b.Full(one, DType::kInt64, ends.sizes()), ends, Tensor(), 0, -1, {size + SymInt(1)});
  return l.Return(RunningSum(l, l.b.Slice(marks, 0, 0, size, 1)) + excess);
}

// (buffer, count, size, name)
absl::Status LowerLeadingRows(Lowering& l) {
  Graph& graph = l.b.graph();
  const Node& node = graph.InsertNode(graph.nodes().end(), std::string(kLeadingRowsOp),
                                      {Use{l.tensor(0).id()}, Use{l.tensor(1).id()}, l.size(2), l.text(3)},
                                      {l.result()}, l.node().source);
  return l.Return(l.b.Value(node.outputs[0]));
}

constexpr OpRow kRows[] = {
    {"aten.nonzero_static.default", OpFamily::kKernel, LowerNonzeroStatic},
    {"aten.repeat_interleave.Tensor", OpFamily::kKernel, LowerRepeatInterleave},
    {"cotan.leading_rows.default", OpFamily::kKernel, LowerLeadingRows},
};

}  // namespace

absl::Span<const OpRow> BoundedSizeRows() { return kRows; }

}  // namespace cotan::aot
