// SPDX-License-Identifier: Apache-2.0

// Rows of pointwise ops: each is a scalar function over broadcast operands.
#include <cmath>
#include <limits>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

using serialization::ScalarFn;

template <ScalarFn kFn>
absl::Status LowerUnary(Lowering& l) {
  return l.Return(l.b.Unary(kFn, l.operand(0)));
}

// Functions that are the identity on integers.
template <ScalarFn kFn>
absl::Status LowerRounding(Lowering& l) {
  const Tensor x = l.operand(0);
  return l.Return(IsFloatingPoint(x.dtype()) ? l.b.Unary(kFn, x) : x);
}

template <ScalarFn kFn>
absl::Status LowerBinary(Lowering& l) {
  return l.Return(l.b.Binary(kFn, l.operand(0), l.operand(1)));
}

template <ScalarFn kFn>
absl::Status LowerComparison(Lowering& l) {
  const auto [x, y] = l.promoted(0, 1);
  return l.Return(l.b.Binary(kFn, x, y));
}

template <ScalarFn kFn>
absl::Status LowerLogical(Lowering& l) {
  const Tensor x = l.tensor(0);
  const Tensor y = l.tensor(1);
  return l.Return(l.b.Binary(kFn, l.b.Ne(x, l.b.Literal(SymInt(0))), l.b.Ne(y, l.b.Literal(SymInt(0)))));
}

absl::Status LowerAdd(Lowering& l) {
  if (l.result().dtype == DType::kBool) {
    const bool counts = l.num_arguments() < 3 || l.number(2) != 0;
    return l.Return(counts ? l.b.Or(l.operand(0), l.operand(1)) : l.operand(0));
  }
  if (l.num_arguments() < 3) return l.Return(l.b.Binary(serialization::FN_ADD, l.operand(0), l.operand(1)));
  const Tensor y = l.operand(1);
  return l.Return(l.b.Binary(serialization::FN_ADD, l.operand(0), l.b.Binary(serialization::FN_MUL, y, l.literal(2))));
}

absl::Status LowerSub(Lowering& l) {
  return l.Return(
      l.b.Binary(serialization::FN_SUB, l.operand(0), l.b.Binary(serialization::FN_MUL, l.operand(1), l.literal(2))));
}

absl::Status LowerRsub(Lowering& l) {
  return l.Return(
      l.b.Binary(serialization::FN_SUB, l.operand(1), l.b.Binary(serialization::FN_MUL, l.operand(0), l.literal(2))));
}

absl::Status LowerMul(Lowering& l) {
  if (l.result().dtype == DType::kBool) return l.Return(l.b.And(l.operand(0), l.operand(1)));
  return LowerBinary<serialization::FN_MUL>(l);
}

absl::Status LowerDivMode(Lowering& l) {
  const std::string mode = l.text(2);
  if (mode == "floor") return LowerBinary<serialization::FN_FLOOR_DIV>(l);
  if (mode == "trunc") return LowerBinary<serialization::FN_TRUNC_DIV>(l);
  return LowerBinary<serialization::FN_DIV>(l);
}

absl::Status LowerPowScalar(Lowering& l) {
  const Tensor x = l.operand(0);
  const double exponent = l.number(1);
  const bool is_float = IsFloatingPoint(x.dtype());
  if (exponent == 1) return l.Return(x);
  if (exponent == 2) return l.Return(x * x);
  if (exponent == 3) return l.Return(x * x * x);
  if (is_float && exponent == 0.5) return l.Return(l.b.Sqrt(x));
  if (is_float && exponent == -0.5) return l.Return(l.b.Rsqrt(x));
  if (is_float && exponent == -1) return l.Return(l.b.Unary(serialization::FN_RECIPROCAL, x));
  return l.Return(l.b.Pow(x, l.literal(1)));
}

absl::Status LowerClamp(Lowering& l) {
  Tensor x = l.operand(0);
  const bool has_max = l.num_arguments() > 2 && !l.is_none(2);
  if (!l.is_none(1)) x = l.b.Maximum(x, l.operand(1));
  if (has_max) x = l.b.Minimum(x, l.operand(2));
  return l.Return(x);
}

absl::Status LowerWhere(Lowering& l) {
  const Tensor condition = l.b.Cast(l.tensor(0), DType::kBool);
  Tensor x = l.operand(1);
  const Tensor y = l.operand(2);
  if (x.is_literal() && y.is_literal()) x = l.b.Full(x, l.result().dtype, {});
  return l.Return(l.b.Select(condition, x, y));
}

absl::Status LowerMaskedFill(Lowering& l) { return l.Return(l.b.Select(l.tensor(1), l.operand(2), l.operand(0))); }

// Returns the largest finite number of a floating point dtype.
double LargestOf(DType dtype) {
  if (dtype == DType::kFloat16) return 65504.0;
  if (dtype == DType::kBFloat16) return std::ldexp(255.0, 120);  // 8 ones, of 128 powers of two
  return dtype == DType::kFloat64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

absl::Status LowerNanToNum(Lowering& l) {
  const Tensor x = l.wide(0);
  const DType dtype = l.result().dtype;
  if (!IsFloatingPoint(dtype)) return l.Return(l.operand(0));
  const double largest = LargestOf(dtype);
  const Tensor nan = l.b.Literal(l.is_none(1) ? 0.0 : l.number(1));
  const Tensor high = l.b.Literal(l.is_none(2) ? largest : l.number(2));
  const Tensor low = l.b.Literal(l.is_none(3) ? -largest : l.number(3));
  const Tensor infinity = l.b.Literal(std::numeric_limits<double>::infinity());
  Tensor y = l.b.Select(l.b.Unary(serialization::FN_ISNAN, x), nan, x);
  y = l.b.Select(l.b.Eq(x, infinity), high, y);
  return l.ReturnCast({l.b.Select(l.b.Eq(x, -infinity), low, y)});
}

absl::Status LowerNanTest(Lowering& l, ScalarFn fn) {
  const Tensor x = l.tensor(0);
  return l.Return(l.b.Unary(fn, IsFloatingPoint(x.dtype()) ? x : l.b.Cast(x, DType::kFloat32)));
}

absl::Status LowerIsFinite(Lowering& l) {
  Tensor x = l.tensor(0);
  if (!IsFloatingPoint(x.dtype())) x = l.b.Cast(x, DType::kFloat32);
  return l.Return(l.b.Not(l.b.Or(l.b.Unary(serialization::FN_ISNAN, x), l.b.Unary(serialization::FN_ISINF, x))));
}

absl::Status LowerIdentity(Lowering& l) { return l.Return(l.operand(0)); }

// As in ATen, halves are rounded once.
absl::Status LowerAddc(Lowering& l, ScalarFn fn) {
  const Tensor product = l.b.Binary(fn, l.wide_operand(1), l.wide_operand(2));
  return l.ReturnCast({l.wide_operand(0) + l.b.Binary(serialization::FN_MUL, product, l.literal(3))});
}

// As in ATen, interpolates from the nearer end, and rounds halves once.
absl::Status LowerLerp(Lowering& l) {
  const Tensor start = l.wide_operand(0);
  const Tensor end = l.wide_operand(1);
  const Tensor weight = l.wide_operand(2);
  if (weight.is_literal()) {
    const double w = l.number(2);
    if (std::abs(w) < 0.5) return l.ReturnCast({start + weight * (end - start)});
    return l.ReturnCast({end - (end - start) * l.b.Literal(1 - w)});
  }
  const Tensor small = l.b.Lt(l.b.Abs(weight), l.b.Literal(0.5));
  return l.ReturnCast(
      {l.b.Select(small, start + weight * (end - start), end - (end - start) * (l.b.Literal(1.0) - weight))});
}

absl::Status LowerXlogy(Lowering& l) {
  const Tensor number = l.operand(0);
  const Tensor x = number.is_literal() ? l.b.Full(number, l.result().dtype, {}) : number;
  const Tensor y = l.operand(1);
  if (y.is_literal() && std::isnan(l.number(1))) return l.Return(y);
  Tensor log = y.is_literal() ? l.b.Literal(std::log(l.number(1))) : l.b.Log(y);
  const Tensor product = x * log;
  const Tensor zero = l.b.Literal(0.0);
  const Tensor safe = l.b.Select(l.b.Eq(x, zero), zero, product);
  return l.Return(y.is_literal() ? safe : l.b.Select(l.b.Unary(serialization::FN_ISNAN, y), y, safe));
}

absl::Status LowerLogAddExp(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor y = l.operand(1);
  const Tensor high = l.b.Maximum(x, y);
  const Tensor low = l.b.Minimum(x, y);
  const Tensor sum = high + l.b.Unary(serialization::FN_LOG1P, l.b.Exp(low - high));
  return l.Return(l.b.Select(l.b.And(l.b.Eq(x, y), l.b.Unary(serialization::FN_ISINF, x)), x, sum));
}

absl::Status LowerLogit(Lowering& l) {
  Tensor x = l.operand(0);
  if (!l.is_none(1)) x = l.b.Minimum(l.b.Maximum(x, l.b.Literal(l.number(1))), l.b.Literal(1 - l.number(1)));
  return l.Return(l.b.Log(x / (l.b.Literal(1.0) - x)));
}

absl::Status LowerScaled(Lowering& l, double factor) { return l.Return(l.operand(0) * l.b.Literal(factor)); }

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kPointwise, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._neg_view.default", LowerUnary<serialization::FN_NEG>),
    Row("aten.abs.default", LowerUnary<serialization::FN_ABS>),
    Row("aten.acos.default", LowerUnary<serialization::FN_ACOS>),
    Row("aten.acosh.default", LowerUnary<serialization::FN_ACOSH>),
    Row("aten.add.Scalar", LowerAdd),
    Row("aten.add.Tensor", LowerAdd),
    Row("aten.addcdiv.default", [](Lowering& l) { return LowerAddc(l, serialization::FN_DIV); }),
    Row("aten.addcmul.default", [](Lowering& l) { return LowerAddc(l, serialization::FN_MUL); }),
    Row("aten.asin.default", LowerUnary<serialization::FN_ASIN>),
    Row("aten.asinh.default", LowerUnary<serialization::FN_ASINH>),
    Row("aten.atan.default", LowerUnary<serialization::FN_ATAN>),
    Row("aten.atan2.default", LowerBinary<serialization::FN_ATAN2>),
    Row("aten.atanh.default", LowerUnary<serialization::FN_ATANH>),
    Row("aten.bitwise_and.Scalar", LowerBinary<serialization::FN_AND>),
    Row("aten.bitwise_and.Tensor", LowerBinary<serialization::FN_AND>),
    Row("aten.bitwise_left_shift.Tensor", LowerBinary<serialization::FN_SHIFT_LEFT>),
    Row("aten.bitwise_left_shift.Tensor_Scalar", LowerBinary<serialization::FN_SHIFT_LEFT>),
    Row("aten.bitwise_not.default", LowerUnary<serialization::FN_BITWISE_NOT>),
    Row("aten.bitwise_or.Scalar", LowerBinary<serialization::FN_OR>),
    Row("aten.bitwise_or.Tensor", LowerBinary<serialization::FN_OR>),
    Row("aten.bitwise_right_shift.Tensor", LowerBinary<serialization::FN_SHIFT_RIGHT>),
    Row("aten.bitwise_right_shift.Tensor_Scalar", LowerBinary<serialization::FN_SHIFT_RIGHT>),
    Row("aten.bitwise_xor.Scalar", LowerBinary<serialization::FN_XOR>),
    Row("aten.bitwise_xor.Tensor", LowerBinary<serialization::FN_XOR>),
    Row("aten.ceil.default", LowerRounding<serialization::FN_CEIL>),
    Row("aten.clamp.default", LowerClamp),
    Row("aten.clamp.Tensor", LowerClamp),
    Row("aten.clamp_max.default", [](Lowering& l) { return l.Return(l.b.Minimum(l.operand(0), l.operand(1))); }),
    Row("aten.clamp_max.Tensor", [](Lowering& l) { return l.Return(l.b.Minimum(l.operand(0), l.operand(1))); }),
    Row("aten.clamp_min.default", LowerClamp),
    Row("aten.clamp_min.Tensor", LowerClamp),
    Row("aten.copysign.Scalar", LowerBinary<serialization::FN_COPYSIGN>),
    Row("aten.copysign.Tensor", LowerBinary<serialization::FN_COPYSIGN>),
    Row("aten.cos.default", LowerUnary<serialization::FN_COS>),
    Row("aten.cosh.default", LowerUnary<serialization::FN_COSH>),
    Row("aten.deg2rad.default", [](Lowering& l) { return LowerScaled(l, M_PI / 180); }),
    Row("aten.digamma.default", LowerUnary<serialization::FN_DIGAMMA>),
    Row("aten.div.Scalar", LowerBinary<serialization::FN_DIV>),
    Row("aten.div.Scalar_mode", LowerDivMode),
    Row("aten.div.Tensor", LowerBinary<serialization::FN_DIV>),
    Row("aten.div.Tensor_mode", LowerDivMode),
    Row("aten.eq.Scalar", LowerComparison<serialization::FN_EQ>),
    Row("aten.eq.Tensor", LowerComparison<serialization::FN_EQ>),
    Row("aten.erf.default", LowerUnary<serialization::FN_ERF>),
    Row("aten.erfc.default", LowerUnary<serialization::FN_ERFC>),
    Row("aten.erfinv.default", LowerUnary<serialization::FN_ERFINV>),
    Row("aten.exp.default", LowerUnary<serialization::FN_EXP>),
    Row("aten.exp2.default", LowerUnary<serialization::FN_EXP2>),
    Row("aten.expm1.default", LowerUnary<serialization::FN_EXPM1>),
    Row("aten.floor.default", LowerRounding<serialization::FN_FLOOR>),
    Row("aten.floor_divide.default", LowerBinary<serialization::FN_FLOOR_DIV>),
    Row("aten.floor_divide.Scalar", LowerBinary<serialization::FN_FLOOR_DIV>),
    Row("aten.fmax.default", LowerBinary<serialization::FN_FMAX>),
    Row("aten.fmin.default", LowerBinary<serialization::FN_FMIN>),
    Row("aten.fmod.Scalar", LowerBinary<serialization::FN_FMOD>),
    Row("aten.fmod.Tensor", LowerBinary<serialization::FN_FMOD>),
    Row("aten.frac.default",
        [](Lowering& l) {
          const Tensor x = l.operand(0);
          return l.Return(x - l.b.Unary(serialization::FN_TRUNC, x));
        }),
    Row("aten.ge.Scalar", LowerComparison<serialization::FN_GE>),
    Row("aten.ge.Tensor", LowerComparison<serialization::FN_GE>),
    Row("aten.gt.Scalar", LowerComparison<serialization::FN_GT>),
    Row("aten.gt.Tensor", LowerComparison<serialization::FN_GT>),
    Row("aten.hypot.default", LowerBinary<serialization::FN_HYPOT>),
    Row("aten.isfinite.default", LowerIsFinite),
    Row("aten.isinf.default", [](Lowering& l) { return LowerNanTest(l, serialization::FN_ISINF); }),
    Row("aten.isnan.default", [](Lowering& l) { return LowerNanTest(l, serialization::FN_ISNAN); }),
    Row("aten.le.Scalar", LowerComparison<serialization::FN_LE>),
    Row("aten.le.Tensor", LowerComparison<serialization::FN_LE>),
    Row("aten.lerp.Scalar", LowerLerp),
    Row("aten.lerp.Tensor", LowerLerp),
    Row("aten.lgamma.default", LowerUnary<serialization::FN_LGAMMA>),
    Row("aten.log.default", LowerUnary<serialization::FN_LOG>),
    Row("aten.log10.default", LowerUnary<serialization::FN_LOG10>),
    Row("aten.log1p.default", LowerUnary<serialization::FN_LOG1P>),
    Row("aten.log2.default", LowerUnary<serialization::FN_LOG2>),
    Row("aten.logaddexp.default", LowerLogAddExp),
    Row("aten.logical_and.default", LowerLogical<serialization::FN_AND>),
    Row("aten.logical_not.default", [](Lowering& l) { return l.Return(l.b.Eq(l.tensor(0), l.b.Literal(SymInt(0)))); }),
    Row("aten.logical_or.default", LowerLogical<serialization::FN_OR>),
    Row("aten.logical_xor.default", LowerLogical<serialization::FN_XOR>),
    Row("aten.logit.default", LowerLogit),
    Row("aten.lt.Scalar", LowerComparison<serialization::FN_LT>),
    Row("aten.lt.Tensor", LowerComparison<serialization::FN_LT>),
    Row("aten.masked_fill.Scalar", LowerMaskedFill),
    Row("aten.masked_fill.Tensor", LowerMaskedFill),
    Row("aten.maximum.default", LowerBinary<serialization::FN_MAXIMUM>),
    Row("aten.minimum.default", LowerBinary<serialization::FN_MINIMUM>),
    Row("aten.mul.Scalar", LowerMul),
    Row("aten.mul.Tensor", LowerMul),
    Row("aten.nan_to_num.default", LowerNanToNum),
    Row("aten.ne.Scalar", LowerComparison<serialization::FN_NE>),
    Row("aten.ne.Tensor", LowerComparison<serialization::FN_NE>),
    Row("aten.neg.default", LowerUnary<serialization::FN_NEG>),
    Row("aten.positive.default", LowerIdentity),
    Row("aten.pow.Scalar", [](Lowering& l) { return l.Return(l.b.Pow(l.literal(0), l.operand(1))); }),
    Row("aten.pow.Tensor_Scalar", LowerPowScalar),
    Row("aten.pow.Tensor_Tensor", LowerBinary<serialization::FN_POW>),
    Row("aten.rad2deg.default", [](Lowering& l) { return LowerScaled(l, 180 / M_PI); }),
    Row("aten.reciprocal.default", LowerUnary<serialization::FN_RECIPROCAL>),
    Row("aten.remainder.Scalar", LowerBinary<serialization::FN_REMAINDER>),
    Row("aten.remainder.Scalar_Tensor", LowerBinary<serialization::FN_REMAINDER>),
    Row("aten.remainder.Tensor", LowerBinary<serialization::FN_REMAINDER>),
    Row("aten.round.default", LowerRounding<serialization::FN_ROUND>),
    Row("aten.rsqrt.default", LowerUnary<serialization::FN_RSQRT>),
    Row("aten.rsub.Scalar", LowerRsub),
    Row("aten.rsub.Tensor", LowerRsub),
    Row("aten.sgn.default", LowerUnary<serialization::FN_SIGN>),
    Row("aten.sigmoid.default", LowerUnary<serialization::FN_LOGISTIC>),
    Row("aten.sign.default", LowerUnary<serialization::FN_SIGN>),
    Row("aten.sin.default", LowerUnary<serialization::FN_SIN>),
    Row("aten.sinh.default", LowerUnary<serialization::FN_SINH>),
    Row("aten.sqrt.default", LowerUnary<serialization::FN_SQRT>),
    Row("aten.sub.Scalar", LowerSub),
    Row("aten.sub.Tensor", LowerSub),
    Row("aten.tan.default", LowerUnary<serialization::FN_TAN>),
    Row("aten.tanh.default", LowerUnary<serialization::FN_TANH>),
    Row("aten.trunc.default", LowerRounding<serialization::FN_TRUNC>),
    Row("aten.where.Scalar", LowerWhere),
    Row("aten.where.ScalarOther", LowerWhere),
    Row("aten.where.ScalarSelf", LowerWhere),
    Row("aten.where.self", LowerWhere),
    Row("aten.xlogy.Scalar_Other", LowerXlogy),
    Row("aten.xlogy.Scalar_Self", LowerXlogy),
    Row("aten.xlogy.Tensor", LowerXlogy),
};

}  // namespace

absl::Span<const OpRow> PointwiseRows() { return kRows; }

}  // namespace cotan::aot
