// Rows of running reductions along a dimension: element i of the result reduces
// elements 0 to i. Each is a masked reduction over one dimension more, inside
// one expression: no memory is needed for it, but time grows with the square of
// the dimension.
#include <limits>

#include "aot/lower/lowering.h"
#include "aot/lower/op_table_rows.h"

namespace cotan::aot {
namespace {

using serialization::ScalarFn;

// A tensor along `dim`, seen by each element of the result.
struct Scan {
  Tensor x;         // [..., 1, n, ...]
  Tensor taken;     // whether element j (second of the two) counts for element i
  Tensor position;  // j, i64
  int64_t dim = 0;  // that of i; j's follows it
};

Scan ScanOf(Lowering& l, const Tensor& x, int64_t dim) {
  Scan scan;
  scan.dim = l.b.WrapDim(dim, x.rank());
  const auto i = static_cast<size_t>(scan.dim);
  scan.x = l.b.Unsqueeze(x, scan.dim);
  SymIntVector sizes(scan.x.sizes().size(), SymInt(1));
  sizes[i] = x.sizes()[i];
  sizes[i + 1] = x.sizes()[i];
  scan.position = l.b.Iota(static_cast<int>(scan.dim) + 1, DType::kInt64, sizes);
  scan.taken = l.b.Ge(l.b.Iota(static_cast<int>(scan.dim), DType::kInt64, sizes), scan.position);
  return scan;
}

// Reduces what is taken of `values`, which broadcasts to the scan's sizes; the
// rest counts as `identity`.
Tensor Reduced(Lowering& l, const Scan& scan, ScalarFn fn, const Tensor& values, const Tensor& identity) {
  const Tensor masked = l.b.Select(scan.taken, values, identity);
  return l.b.Squeeze(l.b.Reduce(fn, masked, {scan.dim + 1}), {scan.dim + 1});
}

// (self, dim, dtype)
absl::Status LowerScan(Lowering& l, ScalarFn fn, int identity) {
  const Tensor x = l.operand(0);
  if (x.rank() == 0) return l.Return(x);
  return l.Return(Reduced(l, ScanOf(l, x, l.integer(1)), fn, l.b.Unsqueeze(x, l.b.WrapDim(l.integer(1), x.rank())),
                          l.b.Literal(SymInt(identity))));
}

// Relative to the running maximum, so that nothing overflows.
absl::Status LowerLogCumSumExp(Lowering& l) {
  const Tensor x = l.operand(0);
  if (x.rank() == 0) return l.Return(x);
  const Tensor minus_infinity = l.b.Literal(-std::numeric_limits<double>::infinity());
  const Scan scan = ScanOf(l, x, l.integer(1));
  const Tensor max = Reduced(l, scan, serialization::FN_REDUCE_MAX, scan.x, minus_infinity);
  // Where all is -inf so far, any finite shift will do.
  const Tensor shift = l.b.Select(l.b.Eq(max, minus_infinity), l.b.Literal(0.0), max);
  const Tensor exp = l.b.Exp(scan.x - l.b.Unsqueeze(shift, scan.dim + 1));
  const Tensor sum = Reduced(l, scan, serialization::FN_REDUCE_SUM, exp, l.b.Literal(0.0));
  return l.Return(l.b.Log(sum) + shift);
}

// (self, dim) -> values, indices; of equal elements the last one counts.
absl::Status LowerExtremes(Lowering& l, ScalarFn fn) {
  const Tensor x = l.tensor(0);
  if (x.rank() == 0) return l.ReturnAll({x, l.b.Full(l.b.Literal(SymInt(0)), DType::kInt64, {})});
  if (!IsFloatingPoint(x.dtype())) return l.Unsupported("integers");
  const double worst = fn == serialization::FN_REDUCE_MAX ? -std::numeric_limits<double>::infinity()
                                                          : std::numeric_limits<double>::infinity();
  const Scan scan = ScanOf(l, x, l.integer(1));
  const Tensor values = Reduced(l, scan, fn, scan.x, l.b.Literal(worst));
  if (!l.has_result(1)) return l.ReturnAll({values, Tensor()});
  const Tensor extreme = l.b.Eq(scan.x, l.b.Unsqueeze(values, scan.dim + 1));
  const Tensor candidates = l.b.Select(extreme, scan.position, l.b.Literal(SymInt(-1)));
  return l.ReturnAll({values, Reduced(l, scan, serialization::FN_REDUCE_MAX, candidates, l.b.Literal(SymInt(-1)))});
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kReduction, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.cummax.default", [](Lowering& l) { return LowerExtremes(l, serialization::FN_REDUCE_MAX); }),
    Row("aten.cummin.default", [](Lowering& l) { return LowerExtremes(l, serialization::FN_REDUCE_MIN); }),
    Row("aten.cumprod.default", [](Lowering& l) { return LowerScan(l, serialization::FN_REDUCE_PROD, 1); }),
    Row("aten.cumsum.default", [](Lowering& l) { return LowerScan(l, serialization::FN_REDUCE_SUM, 0); }),
    Row("aten.logcumsumexp.default", LowerLogCumSumExp),
};

}  // namespace

absl::Span<const OpRow> ScanRows() { return kRows; }

}  // namespace cotan::aot
