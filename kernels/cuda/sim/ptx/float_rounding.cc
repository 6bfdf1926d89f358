// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/float_rounding.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cotan::cuda::ptx {
namespace {

struct Format {
  int precision;     // Bits of the significand with the leading one.
  int min_exponent;  // Of the smallest normal number.
  int max_exponent;
};

// Of a half precision.
Format FormatOf(ScalarType type) {
  if (type.type_class == TypeClass::kBfloat) return {8, -126, 127};
  return {11, -14, 15};
}

// Returns the bits of `value`, no NaN, rounded to f32.
uint32_t RoundToFloat(double value, Rounding rounding) {
  const auto nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if (rounding == Rounding::kNearestEven || nearest == value) return bits;
  // The magnitudes of neighbours differ by 1 as numbers, also those of 0 and infinity.
  const bool too_great = std::fabs(nearest) > std::fabs(value);
  const bool away = rounding != Rounding::kZero && (rounding == Rounding::kDown) == std::signbit(value);
  return away == too_great ? bits : too_great ? bits - 1 : bits + 1;
}

uint64_t CanonicalNan(ScalarType type) { return LowBits(type.bits - 1); }

// Returns whether |value| = integer + fraction is rounded away from zero.
bool RoundsAway(uint64_t integer, double fraction, bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven:
      return fraction > 0.5 || (fraction == 0.5 && (integer & 1) != 0);
    case Rounding::kZero:
      return false;
    case Rounding::kDown:
      return negative && fraction > 0;
    case Rounding::kUp:
      return !negative && fraction > 0;
  }
  return false;
}

}  // namespace

double DecodeFloat(uint64_t bits, ScalarType type) {
  if (type.bits == 64) return std::bit_cast<double>(bits);
  if (type.bits == 32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (type.type_class == TypeClass::kBfloat) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const auto fraction = static_cast<double>(bits & 1023);
  double magnitude;
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits >> 15 & 1) != 0 ? -magnitude : magnitude;
}

uint64_t EncodeFloat(double value, ScalarType type, Rounding rounding) {
  if (type.bits == 64) return std::bit_cast<uint64_t>(value);
  if (std::isnan(value)) return CanonicalNan(type);
  if (type.bits == 32) return RoundToFloat(value, rounding);
  const Format format = FormatOf(type);
  const bool negative = std::signbit(value);
  const uint64_t sign = negative ? uint64_t{1} << (type.bits - 1) : 0;
  const uint64_t infinity = static_cast<uint64_t>(format.max_exponent - format.min_exponent + 2)
                            << (format.precision - 1);
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  const int exponent = std::ilogb(value);
  if (exponent > format.max_exponent) {
    const bool away = RoundsAway(0, 0.75, negative, rounding);
    return sign | (away ? infinity : infinity - 1);
  }
  const int scale = std::max(exponent, format.min_exponent);
  const double scaled = std::ldexp(std::fabs(value), format.precision - 1 - scale);
  auto integer = static_cast<uint64_t>(scaled);
  if (RoundsAway(integer, scaled - static_cast<double>(integer), negative, rounding)) ++integer;
  // The leading one of a normal number adds 1 to the exponent field, as a carry does.
  return sign | ((static_cast<uint64_t>(scale - format.min_exponent) << (format.precision - 1)) + integer);
}

double AdjustToOdd(double value, double error) {
  if (error == 0 || !std::isfinite(value) || (std::bit_cast<uint64_t>(value) & 1) != 0) return value;
  const double infinity = std::numeric_limits<double>::infinity();
  return std::nextafter(value, error > 0 ? infinity : -infinity);
}

double AddToOdd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double b_part = sum - a;
  return AdjustToOdd(sum, (a - (sum - b_part)) + (b - b_part));
}

double FmaToOdd(double a, double b, double c) { return AddToOdd(a * b, c); }

double DivideToOdd(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(quotient) || std::isinf(b) || quotient == 0) return quotient;
  const double remainder = std::fma(-quotient, b, a);
  return AdjustToOdd(quotient, b > 0 ? remainder : -remainder);
}

double SqrtToOdd(double a) {
  const double root = std::sqrt(a);
  if (!std::isfinite(root) || root == 0) return root;
  return AdjustToOdd(root, std::fma(-root, root, a));
}

double IntegerToOdd(uint64_t value, bool is_signed) {
  if (is_signed) {
    const auto exact = static_cast<int64_t>(value);
    const auto rounded = static_cast<double>(exact);
    return AdjustToOdd(rounded, static_cast<double>(static_cast<__int128>(exact) - static_cast<__int128>(rounded)));
  }
  const auto rounded = static_cast<double>(value);
  return AdjustToOdd(rounded, static_cast<double>(static_cast<__int128>(value) - static_cast<__int128>(rounded)));
}

ScopedRounding::ScopedRounding(Rounding rounding) : previous_(std::fegetround()) {
  switch (rounding) {
    case Rounding::kNearestEven:
      std::fesetround(FE_TONEAREST);
      break;
    case Rounding::kZero:
      std::fesetround(FE_TOWARDZERO);
      break;
    case Rounding::kDown:
      std::fesetround(FE_DOWNWARD);
      break;
    case Rounding::kUp:
      std::fesetround(FE_UPWARD);
      break;
  }
}

ScopedRounding::~ScopedRounding() { std::fesetround(previous_); }

}  // namespace cotan::cuda::ptx
