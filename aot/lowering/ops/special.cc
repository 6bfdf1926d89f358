// SPDX-License-Identifier: Apache-2.0

// Rows of less common scalar functions.
#include <cmath>
#include <limits>
#include <utility>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor Number(Lowering& l, double value) { return l.b.Literal(value); }
Tensor Zero(Lowering& l) { return l.b.Literal(SymInt(0)); }
Tensor IsNan(Lowering& l, const Tensor& x) { return l.b.Unary(serialization::FN_ISNAN, x); }

// Returns operand i in the result's dtype; a number becomes a 0-d tensor.
Tensor Whole(Lowering& l, int i) {
  const Tensor x = l.tensor(i);
  return x.is_literal() ? l.b.Full(x, l.result().dtype, {}) : l.operand(i);
}

template <serialization::ScalarFn kFn>
absl::Status LowerOfWhole(Lowering& l) {
  return l.Return(l.b.Binary(kFn, Whole(l, 0), Whole(l, 1)));
}

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
  const Tensor x = Whole(l, 0);
  const Tensor y = Whole(l, 1);
  const Tensor product = x * l.b.Unary(serialization::FN_LOG1P, y);
  return l.Return(l.b.Select(IsNan(l, y), y, l.b.Select(l.b.Eq(x, Zero(l)), Number(l, 0), product)));
}

// (grad, self, eps)
absl::Status LowerLogitBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const Tensor x = l.operand(1);
  const bool bounded = !l.is_none(2);
  const Tensor product = x * (Number(l, 1) - x);
  // The slope at -0 is inf, as at 0.
  const Tensor slope = grad / (bounded ? product : l.b.Abs(product));
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

// self * 2^other
absl::Status LowerLdexp(Lowering& l) {
  return l.Return(l.operand(0) * l.b.Unary(serialization::FN_EXP2, l.operand(1)));
}

// Runs Euclid's algorithm, unrolled to the largest number of steps for the dtype.
Tensor GreatestDivisor(Lowering& l, const Tensor& x, const Tensor& y) {
  constexpr double kStepsPerBit = 1.4405;  // worst case: Fibonacci numbers
  const int steps = static_cast<int>(kStepsPerBit * 8 * static_cast<double>(ByteSize(x.dtype()))) + 2;
  Tensor a = l.b.Abs(x), b = l.b.Abs(y);
  const Tensor one = l.b.Full(l.b.Literal(SymInt(1)), x.dtype(), {});
  for (int i = 0; i < steps; ++i) {
    const Tensor done = l.b.Eq(b, Zero(l));
    const Tensor rest = l.b.Binary(serialization::FN_REMAINDER, a, l.b.Select(done, one, b));
    a = l.b.Select(done, a, b);
    b = l.b.Select(done, b, rest);
  }
  return a;
}

absl::Status LowerGcd(Lowering& l) { return l.Return(GreatestDivisor(l, Whole(l, 0), Whole(l, 1))); }

absl::Status LowerLcm(Lowering& l) {
  const Tensor x = Whole(l, 0), y = Whole(l, 1);
  const Tensor divisor = GreatestDivisor(l, x, y);
  const Tensor one = l.b.Full(l.b.Literal(SymInt(1)), x.dtype(), {});
  const Tensor safe = l.b.Select(l.b.Eq(divisor, Zero(l)), one, divisor);
  return l.Return(l.b.Abs(l.b.Binary(serialization::FN_TRUNC_DIV, x, safe) * y));
}

// For real numbers: 0, or pi where they are negative.
absl::Status LowerAngle(Lowering& l) {
  const Tensor x = l.operand(0);
  if (IsComplex(l.tensor(0).dtype())) return l.Unsupported("complex numbers");
  const Tensor pi = l.b.Full(Number(l, M_PI), x.dtype(), {});
  return l.Return(l.b.Select(IsNan(l, x), x, l.b.Select(l.b.Lt(x, Zero(l)), pi, Number(l, 0))));
}

// Returns x rounded to multiples of `scale`, whose reciprocal is `inverse`, with the zero point
// `zero`, and a mask that is true where the quantized value is in [first, last].
std::pair<Tensor, Tensor> Quantized(Lowering& l, const Tensor& x, const Tensor& scale, const Tensor& inverse,
                                    const Tensor& zero, int range) {
  const Tensor first = l.b.Full(l.b.Literal(l.size(range)), x.dtype(), {});
  const Tensor last = l.b.Full(l.b.Literal(l.size(range + 1)), x.dtype(), {});
  const Tensor step = l.b.Unary(serialization::FN_ROUND, x * inverse) + zero;
  const Tensor inside = l.b.And(l.b.Ge(step, first), l.b.Le(step, last));
  const Tensor count = l.b.Minimum(l.b.Maximum(step, first), last) - zero;
  return {l.b.Cast(count, scale.dtype()) * scale, inside};
}

absl::Status ReturnQuantized(Lowering& l, const Tensor& x, const Tensor& scale, const Tensor& inverse,
                             const Tensor& zero, int range) {
  const auto [rounded, inside] = Quantized(l, x, scale, inverse, zero, range);
  return l.ReturnCast({rounded, inside});
}

// (self, scale, zero_point, quant_min, quant_max); the scale counts as f32.
absl::Status LowerFakeQuantize(Lowering& l) {
  const Tensor x = l.wide(0);
  const auto scale = static_cast<float>(l.number(1));
  const Tensor zero = l.b.Full(l.literal(2), x.dtype(), {});
  return ReturnQuantized(l, x, l.b.Full(Number(l, scale), DType::kFloat32, {}), Number(l, 1 / scale), zero, 3);
}

// (self, scale, zero_point, fake_quant_enabled, quant_min, quant_max), the second to the fourth of one element.
absl::Status LowerFakeQuantizeByTensors(Lowering& l) {
  const Tensor x = l.wide(0);
  const auto element = [&](int i, DType dtype) {
    const Tensor given = l.tensor(i);
    return given.is_literal() ? l.b.Full(given, dtype, {}) : l.b.Cast(l.b.View(given, {}), dtype);
  };
  const Tensor scale = element(1, DType::kFloat32);
  const Tensor zero = element(2, x.dtype());
  const Tensor enabled = element(3, DType::kBool);
  const Tensor inverse = l.b.Cast(l.b.Unary(serialization::FN_RECIPROCAL, scale), x.dtype());
  const auto [rounded, inside] = Quantized(l, x, scale, inverse, zero, 4);
  const Tensor all = l.b.Full(l.b.Literal(SymInt(1)), DType::kBool, {});
  return l.ReturnCast({l.b.Select(enabled, l.b.Cast(rounded, x.dtype()), x), l.b.Select(enabled, inside, all)});
}

// (self, scale, zero_point, axis, quant_min, quant_max)
absl::Status LowerFakeQuantizePerChannel(Lowering& l) {
  const Tensor x = l.wide(0);
  if (!IsInteger(l.tensor(2).dtype())) return l.Unsupported("zero points that are not integers");
  const int64_t axis = l.b.WrapDim(l.integer(3), x.rank());
  const auto along = [&](const Tensor& channels) {
    SymIntVector sizes(static_cast<size_t>(x.rank()), 1);
    sizes[static_cast<size_t>(axis)] = x.sizes()[static_cast<size_t>(axis)];
    return l.b.Cast(l.b.View(channels, sizes), x.dtype());
  };
  const Tensor scale = l.tensor(1);
  const Tensor inverse = l.b.Unary(serialization::FN_RECIPROCAL, scale);
  return ReturnQuantized(l, x, along(scale), along(inverse), along(l.tensor(2)), 4);
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kPointwise, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.__lshift__.Scalar", LowerOfWhole<serialization::FN_SHIFT_LEFT>),
    Row("aten.__lshift__.Tensor", LowerOfWhole<serialization::FN_SHIFT_LEFT>),
    Row("aten.__rshift__.Scalar", LowerOfWhole<serialization::FN_SHIFT_RIGHT>),
    Row("aten.__rshift__.Tensor", LowerOfWhole<serialization::FN_SHIFT_RIGHT>),
    Row("aten.angle.default", LowerAngle),
    Row("aten.bitwise_and.Scalar_Tensor", LowerOfWhole<serialization::FN_AND>),
    Row("aten.bitwise_left_shift.Scalar_Tensor", LowerOfWhole<serialization::FN_SHIFT_LEFT>),
    Row("aten.bitwise_or.Scalar_Tensor", LowerOfWhole<serialization::FN_OR>),
    Row("aten.bitwise_right_shift.Scalar_Tensor", LowerOfWhole<serialization::FN_SHIFT_RIGHT>),
    Row("aten.bitwise_xor.Scalar_Tensor", LowerOfWhole<serialization::FN_XOR>),
    Row("aten.conj_physical.default", [](Lowering& l) { return l.Return(l.operand(0)); }),
    OpRow{"aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default", OpFamily::kComposite,
          LowerFakeQuantizeByTensors},
    OpRow{"aten.fake_quantize_per_channel_affine_cachemask.default", OpFamily::kComposite, LowerFakeQuantizePerChannel},
    OpRow{"aten.fake_quantize_per_tensor_affine_cachemask.default", OpFamily::kComposite, LowerFakeQuantize},
    Row("aten.gcd.default", LowerGcd),
    Row("aten.lcm.default", LowerLcm),
    Row("aten.ldexp.Tensor", LowerLdexp),
    Row("aten.special_xlog1py.other_scalar", LowerXLog1PY),
    Row("aten.special_xlog1py.self_scalar", LowerXLog1PY),
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
