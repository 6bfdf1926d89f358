// SPDX-License-Identifier: Apache-2.0

// Rows of running reductions along a dimension: element i of the result reduces
// elements 0 to i.
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

using serialization::Scan;

// Casts f16 and bf16 to f32, and bool to an integer.
Tensor Scannable(Lowering& l, const Tensor& x) {
  return x.dtype() == DType::kBool ? l.b.Cast(x, DType::kUInt8) : l.widened(x);
}

// (self, dim, dtype), and (self, dim)
absl::Status LowerScan(Lowering& l, Scan::Function function) {
  const Tensor x = l.operand(0);
  if (x.rank() == 0) return l.Return(x);
  return l.ReturnCast({l.b.Scan(function, Scannable(l, x), l.integer(1)).first});
}

// (self, dim) -> values, indices; the index is that of the last of equal elements.
absl::Status LowerExtremes(Lowering& l, Scan::Function function) {
  const Tensor x = l.tensor(0);
  if (x.rank() == 0) return l.ReturnAll({x, l.b.Full(l.b.Literal(SymInt(0)), DType::kInt64, {})});
  const auto [values, indices] = l.b.Scan(function, Scannable(l, x), l.integer(1));
  return l.ReturnCast({values, indices});
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.cummax.default", [](Lowering& l) { return LowerExtremes(l, Scan::MAX); }),
    Row("aten.cummin.default", [](Lowering& l) { return LowerExtremes(l, Scan::MIN); }),
    Row("aten.cumprod.default", [](Lowering& l) { return LowerScan(l, Scan::PROD); }),
    Row("aten.cumsum.default", [](Lowering& l) { return LowerScan(l, Scan::SUM); }),
    Row("aten.logcumsumexp.default", [](Lowering& l) { return LowerScan(l, Scan::LOGSUMEXP); }),
};

}  // namespace

absl::Span<const OpRow> ScanRows() { return kRows; }

}  // namespace cotan::aot
