// SPDX-License-Identifier: Apache-2.0

// The scalar functions of floats that few expressions use.
#pragma once

#include "cotan/math.cuh"

namespace cotan {

__device__ inline float Exp2(float x) { return exp2f(x); }
__device__ inline double Exp2(double x) { return exp2(x); }
__device__ inline float Log2(float x) { return log2f(x); }
__device__ inline double Log2(double x) { return log2(x); }
__device__ inline float Log10(float x) { return log10f(x); }
__device__ inline double Log10(double x) { return log10(x); }
__device__ inline float Asin(float x) { return asinf(x); }
__device__ inline double Asin(double x) { return asin(x); }
__device__ inline float Acos(float x) { return acosf(x); }
__device__ inline double Acos(double x) { return acos(x); }
__device__ inline float Atan(float x) { return atanf(x); }
__device__ inline double Atan(double x) { return atan(x); }
__device__ inline float Sinh(float x) { return sinhf(x); }
__device__ inline double Sinh(double x) { return sinh(x); }
__device__ inline float Cosh(float x) { return coshf(x); }
__device__ inline double Cosh(double x) { return cosh(x); }
__device__ inline float Asinh(float x) { return asinhf(x); }
__device__ inline double Asinh(double x) { return asinh(x); }
__device__ inline float Acosh(float x) { return acoshf(x); }
__device__ inline double Acosh(double x) { return acosh(x); }
__device__ inline float Atanh(float x) { return atanhf(x); }
__device__ inline double Atanh(double x) { return atanh(x); }
__device__ inline float Erfc(float x) { return erfcf(x); }
__device__ inline double Erfc(double x) { return erfc(x); }
__device__ inline float ErfInv(float x) { return erfinvf(x); }
__device__ inline double ErfInv(double x) { return erfinv(x); }
__device__ inline float Lgamma(float x) { return lgammaf(x); }
__device__ inline double Lgamma(double x) { return lgamma(x); }
__device__ inline float Pow(float a, float b) { return powf(a, b); }
__device__ inline double Pow(double a, double b) { return pow(a, b); }
__device__ inline float Atan2(float a, float b) { return atan2f(a, b); }
__device__ inline double Atan2(double a, double b) { return atan2(a, b); }
__device__ inline float Hypot(float a, float b) { return hypotf(a, b); }
__device__ inline double Hypot(double a, double b) { return hypot(a, b); }

// Recurrence up to 10, then the asymptotic series; reflection for negative arguments. As kernels/api/
// special_functions.cc, in double for float too.
__device__ inline double Digamma(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (x == 0) return copysign(__longlong_as_double(0x7ff0000000000000ll), -x);
  double result = 0;
  if (x < 0) {
    if (x == trunc(x)) return __longlong_as_double(0x7ff8000000000000ll);
    const double fraction = x - trunc(x);
    result = -kPi / (sinpi(fraction) / cospi(fraction));
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760))))));
  return result + log(x) - 0.5 / x - series;
}
__device__ inline float Digamma(float x) { return static_cast<float>(Digamma(static_cast<double>(x))); }

// --- Trigonometry ------------------------------------------------------------
// Of float, without the array in local memory that the toolkit's functions have for large arguments.

__device__ inline double Sin(double x) { return sin(x); }
__device__ inline double Cos(double x) { return cos(x); }
__device__ inline double Tan(double x) { return tan(x); }

struct QuarterTurns {
  uint32 quarter;  // modulo 4
  float rest;      // radians, in [-pi / 4, pi / 4]
};

// Words 32 n to 32 n + 31 of the binary digits of 2 / pi behind the point, after one word of zeros.
__device__ inline uint32 TwoOverPi(uint32 n) {
  return n == 0   ? 0u
         : n == 1 ? 0xA2F9836Eu
         : n == 2 ? 0x4E441529u
         : n == 3 ? 0xFC2757D1u
         : n == 4 ? 0xF534DDC0u
         : n == 5 ? 0xDB629599u
         : n == 6 ? 0x3C439041u
                  : 0xFE5163ABu;
}

// Reduces a finite |x| >= 2^16: multiplies by the 96 digits of 1 / (2 pi) that matter modulo 1.
__device__ inline QuarterTurns ReduceLarge(float x) {
  const uint32 bits = __float_as_uint(x);
  const uint32 exponent = (bits >> 23 & 255u) - 150u;  // x = +-mantissa * 2^exponent
  const uint32 mantissa = (bits & 0x7fffffu) | 0x800000u;
  const uint32 first = exponent + 30u;  // digit, counted from the word of zeros
  const uint32 word = first / 32u;
  const uint32 shift = first % 32u;
  const uint32 w0 = TwoOverPi(word), w1 = TwoOverPi(word + 1), w2 = TwoOverPi(word + 2), w3 = TwoOverPi(word + 3);
  const uint32 high = __funnelshift_l(w1, w0, shift);
  const uint32 middle = __funnelshift_l(w2, w1, shift);
  const uint32 low = __funnelshift_l(w3, w2, shift);
  uint64 turns = (static_cast<uint64>(mantissa * high) << 32) + static_cast<uint64>(mantissa) * middle +
                 (static_cast<uint64>(mantissa) * low >> 32);
  if ((bits >> 31) != 0) turns = 0 - turns;
  const uint64 quarter = (turns + (1ull << 61)) >> 62;
  const int64 rest = static_cast<int64>(turns - (quarter << 62));
  return {static_cast<uint32>(quarter) & 3u, static_cast<float>(static_cast<double>(rest) * 3.4061215800304625e-19)};
}

__device__ inline QuarterTurns ReduceTurns(float x) {
  if (!(fabsf(x) < 65536.0f)) return fabsf(x) < __int_as_float(0x7f800000) ? ReduceLarge(x) : QuarterTurns{0u, x - x};
  const double n = rint(static_cast<double>(x) * 0.63661977236758134308);
  const double rest = (static_cast<double>(x) - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
  return {static_cast<uint32>(static_cast<int32>(n)) & 3u, static_cast<float>(rest)};
}

// Return sine and cosine of |x| <= pi / 4.
__device__ inline float SinNear0(float x) {
  const float square = x * x;
  float s = 2.71831115193e-6f;
  s = s * square + -0.00019839334789f;
  s = s * square + 0.00833332938569f;
  s = s * square + -0.166666666416f;
  return s * (square * x) + x;
}
__device__ inline float CosNear0(float x) {
  const float square = x * x;
  float c = -2.72102297924e-7f;
  c = c * square + 2.47995198974e-5f;
  c = c * square + -0.00138888837529f;
  c = c * square + 0.0416666666228f;
  return c * (square * square) + (1.0f - 0.5f * square);
}
__device__ inline float SinOfQuarter(QuarterTurns turns, uint32 quarter) {
  const uint32 q = turns.quarter + quarter;
  const float y = (q & 1u) != 0 ? CosNear0(turns.rest) : SinNear0(turns.rest);
  return (q & 2u) != 0 ? -y : y;
}
__device__ inline float Sin(float x) { return SinOfQuarter(ReduceTurns(x), 0u); }
__device__ inline float Cos(float x) { return SinOfQuarter(ReduceTurns(x), 1u); }
__device__ inline float Tan(float x) {
  const QuarterTurns turns = ReduceTurns(x);
  const float s = SinNear0(turns.rest);
  const float c = CosNear0(turns.rest);
  return (turns.quarter & 1u) != 0 ? -c / s : s / c;
}

}  // namespace cotan
