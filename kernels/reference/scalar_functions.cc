// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/scalar_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/api/special_functions.h"

namespace cotan::reference {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

double FloatUnary(ScalarFn fn, double x) {
  switch (fn) {
    case FN_NEG:
      return -x;
    case FN_ABS:
      return std::abs(x);
    case FN_SIGN:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case FN_CEIL:
      return std::ceil(x);
    case FN_FLOOR:
      return std::floor(x);
    case FN_ROUND:
      return std::nearbyint(x);
    case FN_TRUNC:
      return std::trunc(x);
    case FN_SQRT:
      return std::sqrt(x);
    case FN_RSQRT:
      return 1 / std::sqrt(x);
    case FN_RECIPROCAL:
      return 1 / x;
    case FN_EXP:
      return std::exp(x);
    case FN_EXP2:
      return std::exp2(x);
    case FN_EXPM1:
      return std::expm1(x);
    case FN_LOG:
      return std::log(x);
    case FN_LOG2:
      return std::log2(x);
    case FN_LOG10:
      return std::log10(x);
    case FN_LOG1P:
      return std::log1p(x);
    case FN_SIN:
      return std::sin(x);
    case FN_COS:
      return std::cos(x);
    case FN_TAN:
      return std::tan(x);
    case FN_ASIN:
      return std::asin(x);
    case FN_ACOS:
      return std::acos(x);
    case FN_ATAN:
      return std::atan(x);
    case FN_SINH:
      return std::sinh(x);
    case FN_COSH:
      return std::cosh(x);
    case FN_TANH:
      return std::tanh(x);
    case FN_ASINH:
      return std::asinh(x);
    case FN_ACOSH:
      return std::acosh(x);
    case FN_ATANH:
      return std::atanh(x);
    case FN_ERF:
      return std::erf(x);
    case FN_ERFC:
      return std::erfc(x);
    case FN_ERFINV:
      return ErfInv(x);
    case FN_LGAMMA:
      return std::lgamma(x);
    case FN_DIGAMMA:
      return Digamma(x);
    case FN_LOGISTIC:
      return 1 / (1 + std::exp(-x));
    case FN_RELU:
      return x < 0 ? 0 : x;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

// Rounds the quotient down, as Python's // on floats.
double FloorDivide(double a, double b) {
  if (b == 0) return a / b;
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double FloatBinary(ScalarFn fn, double a, double b) {
  switch (fn) {
    case FN_ADD:
      return a + b;
    case FN_SUB:
      return a - b;
    case FN_MUL:
      return a * b;
    case FN_DIV:
      return a / b;
    case FN_FLOOR_DIV:
      return FloorDivide(a, b);
    case FN_TRUNC_DIV:
      return std::trunc(a / b);
    case FN_REMAINDER: {
      const double remainder = std::fmod(a, b);
      return remainder != 0 && (b < 0) != (remainder < 0) ? remainder + b : remainder;
    }
    case FN_FMOD:
      return std::fmod(a, b);
    case FN_POW:
      return std::pow(a, b);
    case FN_MAXIMUM:
      return std::isnan(a) || a > b ? a : b;
    case FN_MINIMUM:
      return std::isnan(a) || a < b ? a : b;
    case FN_FMAX:
      return std::fmax(a, b);
    case FN_FMIN:
      return std::fmin(a, b);
    case FN_ATAN2:
      return std::atan2(a, b);
    case FN_HYPOT:
      return std::hypot(a, b);
    case FN_COPYSIGN:
      return std::copysign(a, b);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

int64_t IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  auto square = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= square;
    square *= square;
  }
  return static_cast<int64_t>(result);
}

// Quotient rounded toward zero; division by zero gives 0, and -1 does not trap.
int64_t TruncDivide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}

int64_t Modulo(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

int64_t Bits(DType dtype) { return static_cast<int64_t>(ByteSize(dtype)) * 8; }

int64_t IntegerUnary(ScalarFn fn, int64_t x) {
  switch (fn) {
    case FN_NEG:
      return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    case FN_ABS:
      return x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x;
    case FN_SIGN:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case FN_BITWISE_NOT:
      return ~x;
    case FN_RELU:
      return std::max<int64_t>(x, 0);
    default:
      return 0;
  }
}

int64_t IntegerBinary(ScalarFn fn, DType dtype, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a);
  const auto ub = static_cast<uint64_t>(b);
  switch (fn) {
    case FN_ADD:
      return static_cast<int64_t>(ua + ub);
    case FN_SUB:
      return static_cast<int64_t>(ua - ub);
    case FN_MUL:
      return static_cast<int64_t>(ua * ub);
    case FN_TRUNC_DIV:
      return TruncDivide(a, b);
    case FN_FLOOR_DIV:
      return TruncDivide(a, b) - (Modulo(a, b) != 0 && (a < 0) != (b < 0) ? 1 : 0);
    case FN_FMOD:
      return Modulo(a, b);
    case FN_REMAINDER:
      return Modulo(a, b) + (Modulo(a, b) != 0 && (a < 0) != (b < 0) ? b : 0);
    case FN_POW:
      return IntegerPower(a, b);
    case FN_MAXIMUM:
    case FN_FMAX:
      return std::max(a, b);
    case FN_MINIMUM:
    case FN_FMIN:
      return std::min(a, b);
    case FN_AND:
      return a & b;
    case FN_OR:
      return a | b;
    case FN_XOR:
      return a ^ b;
    case FN_SHIFT_LEFT:
      return b < 0 || b >= Bits(dtype) ? 0 : static_cast<int64_t>(ua << ub);
    case FN_SHIFT_RIGHT:
      return b < 0 || b >= Bits(dtype) ? (a < 0 ? -1 : 0) : a >> b;
    default:
      return 0;
  }
}

template <typename T>
bool Compare(ScalarFn fn, T a, T b) {
  switch (fn) {
    case FN_EQ:
      return a == b;
    case FN_NE:
      return a != b;
    case FN_LT:
      return a < b;
    case FN_LE:
      return a <= b;
    case FN_GT:
      return a > b;
    default:
      return a >= b;
  }
}

double Lowest(DType dtype) { return IsFloatingPoint(dtype) ? -std::numeric_limits<double>::infinity() : 0; }

int64_t LowestInteger(DType dtype) {
  if (dtype == DType::kBool || dtype == DType::kUInt8) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - Bits(dtype));
}

int64_t HighestInteger(DType dtype) {
  if (dtype == DType::kBool) return 1;
  if (dtype == DType::kUInt8) return 255;
  return std::numeric_limits<int64_t>::max() >> (64 - Bits(dtype));
}

}  // namespace

Scalar Apply(ScalarFn fn, DType dtype, Scalar a, Scalar b, Scalar c) {
  switch (fn) {
    case FN_SELECT:
      return a.i != 0 ? b : c;
    case FN_EQ:
    case FN_NE:
    case FN_LT:
    case FN_LE:
    case FN_GT:
    case FN_GE:
      return {0, IsFloatingPoint(dtype) ? Compare(fn, a.f, b.f) : Compare(fn, a.i, b.i)};
    case FN_LOGICAL_NOT:
      return {0, a.i == 0};
    case FN_ISNAN:
      return {0, std::isnan(a.f)};
    case FN_ISINF:
      return {0, std::isinf(a.f)};
    default:
      break;
  }
  if (fn == FN_BITWISE_NOT && dtype == DType::kBool) return {0, a.i == 0};
  const bool unary = fn < FN_ADD;
  Scalar result;
  if (IsFloatingPoint(dtype)) {
    result.f = unary ? FloatUnary(fn, a.f) : FloatBinary(fn, a.f, b.f);
  } else {
    result.i = unary ? IntegerUnary(fn, a.i) : IntegerBinary(fn, dtype, a.i, b.i);
  }
  return RoundTo(dtype, result);
}

Scalar Cast(DType from, DType to, Scalar value) {
  if (to == DType::kBool) return {0, IsFloatingPoint(from) ? value.f != 0 : value.i != 0};
  if (IsFloatingPoint(from) == IsFloatingPoint(to)) return RoundTo(to, value);
  if (IsFloatingPoint(to)) return RoundTo(to, {static_cast<double>(value.i), 0});
  // Outside the range of int64, x86 conversions return its lowest value.
  const bool fits = value.f >= -0x1p63 && value.f < 0x1p63;
  return RoundTo(to, {0, fits ? static_cast<int64_t>(value.f) : std::numeric_limits<int64_t>::min()});
}

Scalar ReduceStart(ScalarFn fn, DType dtype) {
  switch (fn) {
    case FN_REDUCE_PROD:
      return {1, 1};
    case FN_REDUCE_MAX:
      return {Lowest(dtype), LowestInteger(dtype)};
    case FN_REDUCE_MIN:
      return {-Lowest(dtype), HighestInteger(dtype)};
    default:
      return {0, 0};
  }
}

Scalar ReduceStep(ScalarFn fn, DType dtype, Scalar total, Scalar value) {
  const bool is_float = IsFloatingPoint(dtype);
  switch (fn) {
    case FN_REDUCE_PROD:
      return {total.f * value.f, IntegerBinary(FN_MUL, dtype, total.i, value.i)};
    case FN_REDUCE_MAX:
      return is_float ? Scalar{FloatBinary(FN_MAXIMUM, total.f, value.f), 0} : Scalar{0, std::max(total.i, value.i)};
    case FN_REDUCE_MIN:
      return is_float ? Scalar{FloatBinary(FN_MINIMUM, total.f, value.f), 0} : Scalar{0, std::min(total.i, value.i)};
    default:
      return {total.f + value.f, IntegerBinary(FN_ADD, dtype, total.i, value.i)};
  }
}

}  // namespace cotan::reference
