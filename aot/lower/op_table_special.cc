// Rows of rarer scalar functions.
#include <cmath>
#include <limits>

#include "aot/lower/lowering.h"
#include "aot/lower/op_table_rows.h"

namespace cotan::aot {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor Number(Lowering& l, double value) { return l.b.Literal(value); }
Tensor Zero(Lowering& l) { return l.b.Literal(SymInt(0)); }
Tensor IsNan(Lowering& l, const Tensor& x) { return l.b.Unary(serialization::FN_ISNAN, x); }

// log2(2^x + 2^y)
absl::Status LowerLogAddExp2(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor y = l.operand(1);
  const Tensor high = l.b.Maximum(x, y);
  const Tensor power = l.b.Unary(serialization::FN_EXP2, l.b.Minimum(x, y) - high);
  const Tensor sum = high + l.b.Unary(serialization::FN_LOG1P, power) * Number(l, M_LOG2E);
  return l.Return(l.b.Select(l.b.And(l.b.Eq(x, y), l.b.Unary(serialization::FN_ISINF, x)), x, sum));
}

absl::Status LowerHeaviside(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor step = l.b.Cast(l.b.Gt(x, Zero(l)), x.dtype());
  return l.Return(l.b.Select(l.b.Eq(x, Zero(l)), l.operand(1), step));
}

absl::Status LowerSignBit(Lowering& l) {
  const Tensor x = l.tensor(0);
  if (!IsFloatingPoint(x.dtype())) return l.Return(l.b.Lt(x, Zero(l)));
  const Tensor sign = l.b.Binary(serialization::FN_COPYSIGN, l.b.Full(Number(l, 1), x.dtype(), {}), x);
  return l.Return(l.b.Lt(sign, Zero(l)));
}

absl::Status LowerIsInfinity(Lowering& l, double infinity) {
  const Tensor x = l.tensor(0);
  if (!IsFloatingPoint(x.dtype())) return l.Return(l.b.Ne(x, x));
  return l.Return(l.b.Eq(x, Number(l, infinity)));
}

// sin(pi x) / (pi x)
absl::Status LowerSinc(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor angle = x * Number(l, M_PI);
  return l.Return(l.b.Select(l.b.Eq(x, Zero(l)), Number(l, 1), l.b.Unary(serialization::FN_SIN, angle) / angle));
}

// -x log x
absl::Status LowerEntropy(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor inside = l.b.Select(l.b.Eq(x, Zero(l)), Number(l, 0), -(x * l.b.Log(x)));
  const Tensor result = l.b.Select(l.b.Lt(x, Zero(l)), Number(l, -kInfinity), inside);
  return l.Return(l.b.Select(IsNan(l, x), x, result));
}

// x log(1 + y)
absl::Status LowerXLog1PY(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor y = l.operand(1);
  if (x.is_literal() || y.is_literal()) return l.Unsupported("a number instead of a tensor");
  const Tensor product = x * l.b.Unary(serialization::FN_LOG1P, y);
  return l.Return(l.b.Select(IsNan(l, y), y, l.b.Select(l.b.Eq(x, Zero(l)), Number(l, 0), product)));
}

// (grad, self, eps)
absl::Status LowerLogitBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const Tensor x = l.operand(1);
  const Tensor slope = grad / (x * (Number(l, 1) - x));
  const bool bounded = !l.is_none(2);
  const Tensor low = Number(l, bounded ? l.number(2) : 0), high = Number(l, bounded ? 1 - l.number(2) : 1);
  const Tensor outside = l.b.Or(l.b.Lt(x, low), l.b.Gt(x, high));
  return l.Return(l.b.Select(outside, Number(l, bounded ? 0 : std::numeric_limits<double>::quiet_NaN()), slope));
}

// (self, decimals)
absl::Status LowerRoundDecimals(Lowering& l) {
  const Tensor x = l.operand(0);
  if (!IsFloatingPoint(x.dtype())) return l.Return(x);
  const int64_t decimals = l.integer(1);
  const Tensor scale = Number(l, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  const auto round = [&](const Tensor& t) { return l.b.Unary(serialization::FN_ROUND, t); };
  return l.Return(decimals < 0 ? round(x / scale) * scale : round(x * scale) / scale);
}

// (self, alpha)
absl::Status LowerCelu(Lowering& l) {
  const Tensor x = l.operand(0);
  const double alpha = l.number(1);
  const Tensor negative = l.b.Unary(serialization::FN_EXPM1, x * Number(l, 1 / alpha)) * Number(l, alpha);
  return l.Return(l.b.Select(l.b.Gt(x, Zero(l)), x, negative));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kPointwise, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.celu.default", LowerCelu),
    Row("aten.heaviside.default", LowerHeaviside),
    Row("aten.isneginf.default", [](Lowering& l) { return LowerIsInfinity(l, -kInfinity); }),
    Row("aten.isposinf.default", [](Lowering& l) { return LowerIsInfinity(l, kInfinity); }),
    Row("aten.logaddexp2.default", LowerLogAddExp2),
    Row("aten.logit_backward.default", LowerLogitBackward),
    Row("aten.round.decimals", LowerRoundDecimals),
    Row("aten.signbit.default", LowerSignBit),
    Row("aten.sinc.default", LowerSinc),
    Row("aten.special_entr.default", LowerEntropy),
    Row("aten.special_xlog1py.default", LowerXLog1PY),
};

}  // namespace

absl::Span<const OpRow> SpecialRows() { return kRows; }

}  // namespace cotan::aot
