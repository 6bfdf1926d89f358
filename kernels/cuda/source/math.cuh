// SPDX-License-Identifier: Apache-2.0

// Scalar functions of expressions (serialization/schema/expr.proto) on the types in which a kernel holds values: bool,
// the integers, float (also for f16 and bf16, which are rounded after each function, and for 8-bit floats, in which
// nothing computes) and double.
#pragma once

#include "cotan/types.cuh"

namespace cotan {

template <typename T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;

// Returns `x` rounded to a narrower type.
__device__ inline float RoundToFloat16(float x) { return ToFloat(ToFloat16(x)); }
__device__ inline float RoundToBfloat16(float x) { return ToFloat(ToBfloat16(x)); }
__device__ inline float RoundToFloat8E4m3fn(float x) { return ToFloat(ToFloat8E4m3fn(x)); }
__device__ inline float RoundToFloat8E5m2(float x) { return ToFloat(ToFloat8E5m2(x)); }

// Returns `x` converted to an integer as by way of i64; outside its range, and for NaN, the lowest i64.
template <typename To, typename T>
__device__ inline To ToInteger(T x) {
  const bool fits = x >= T(-9223372036854775808.0) && x < T(9223372036854775808.0);
  return static_cast<To>(fits ? static_cast<int64>(x) : int64(0x8000000000000000ull));
}

// --- Integers wrap around ----------------------------------------------------

template <typename T>
__device__ inline T Add(T a, T b) {
  return static_cast<T>(static_cast<uint64>(a) + static_cast<uint64>(b));
}
__device__ inline int32 Add(int32 a, int32 b) { return static_cast<int32>(static_cast<uint32>(a) + b); }
template <typename T>
__device__ inline T Sub(T a, T b) {
  return static_cast<T>(static_cast<uint64>(a) - static_cast<uint64>(b));
}
__device__ inline int32 Sub(int32 a, int32 b) { return static_cast<int32>(static_cast<uint32>(a) - b); }
template <typename T>
__device__ inline T Mul(T a, T b) {
  return static_cast<T>(static_cast<uint64>(a) * static_cast<uint64>(b));
}
__device__ inline int32 Mul(int32 a, int32 b) { return static_cast<int32>(static_cast<uint32>(a) * b); }
template <typename T>
__device__ inline T Neg(T x) {
  return Sub(T(0), x);
}

// Division by zero gives 0; a division by -1 wraps.
template <typename T>
__device__ inline T TruncDiv(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return Neg(a);
  return static_cast<T>(a / b);
}
template <typename T>
__device__ inline T Fmod(T a, T b) {
  if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
  return static_cast<T>(a % b);
}
template <typename T>
__device__ inline T FloorDiv(T a, T b) {
  const T remainder = Fmod(a, b);
  return static_cast<T>(TruncDiv(a, b) - (remainder != 0 && (a < 0) != (b < 0) ? 1 : 0));
}
template <typename T>
__device__ inline T Pow(T a, T b) {
  if (b < 0) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
  uint64 result = 1;
  uint64 square = static_cast<uint64>(a);
  for (uint64 exponent = static_cast<uint64>(b); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}
template <typename T>
__device__ inline T ShiftLeft(T a, T b) {
  return b < 0 || b >= T(sizeof(T) * 8) ? T(0) : static_cast<T>(static_cast<uint64>(a) << b);
}
template <typename T>
__device__ inline T ShiftRight(T a, T b) {
  return b < 0 || b >= T(sizeof(T) * 8) ? (a < 0 ? T(-1) : T(0)) : static_cast<T>(a >> b);
}

// --- Any type ----------------------------------------------------------------

template <typename T>
__device__ inline T Abs(T x) {
  return x < 0 ? Neg(x) : x;
}
__device__ inline float Abs(float x) { return fabsf(x); }
__device__ inline double Abs(double x) { return fabs(x); }
template <typename T>
__device__ inline T Sign(T x) {
  return static_cast<T>((x > T(0) ? 1 : 0) - (x < T(0) ? 1 : 0));
}
template <typename T>
__device__ inline T Relu(T x) {
  return x < T(0) ? T(0) : x;
}
// NaN if either is NaN.
template <typename T>
__device__ inline T Maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
__device__ inline T Minimum(T a, T b) {
  return a < b || a != a ? a : b;
}
// The other one if one is NaN. Floats have the compiler's functions: it takes a comparison of Relu(a), where a is NaN,
// with 0 for one that holds.
template <typename T>
__device__ inline T Fmax(T a, T b) {
  return a > b ? a : b;
}
__device__ inline float Fmax(float a, float b) { return fmaxf(a, b); }
__device__ inline double Fmax(double a, double b) { return fmax(a, b); }
template <typename T>
__device__ inline T Fmin(T a, T b) {
  return a < b ? a : b;
}
__device__ inline float Fmin(float a, float b) { return fminf(a, b); }
__device__ inline double Fmin(double a, double b) { return fmin(a, b); }

// --- Floats ------------------------------------------------------------------

template <typename T>
__device__ inline bool IsNan(T x) {
  return x != x;
}
template <typename T>
__device__ inline bool IsInf(T x) {
  return Abs(x) > (sizeof(T) == 4 ? T(3.4028234663852886e38) : T(1.7976931348623157e308));
}

__device__ inline float Ceil(float x) { return ceilf(x); }
__device__ inline double Ceil(double x) { return ceil(x); }
__device__ inline float Floor(float x) { return floorf(x); }
__device__ inline double Floor(double x) { return floor(x); }
__device__ inline float Round(float x) { return rintf(x); }
__device__ inline double Round(double x) { return rint(x); }
__device__ inline float Trunc(float x) { return truncf(x); }
__device__ inline double Trunc(double x) { return trunc(x); }
__device__ inline float Sqrt(float x) { return sqrtf(x); }
__device__ inline double Sqrt(double x) { return sqrt(x); }
__device__ inline float CopySign(float a, float b) { return copysignf(a, b); }
__device__ inline double CopySign(double a, double b) { return copysign(a, b); }
__device__ inline float Exp(float x) { return expf(x); }
__device__ inline double Exp(double x) { return exp(x); }
__device__ inline float Expm1(float x) { return expm1f(x); }
__device__ inline double Expm1(double x) { return expm1(x); }
__device__ inline float Log(float x) { return logf(x); }
__device__ inline double Log(double x) { return log(x); }
__device__ inline float Log1p(float x) { return log1pf(x); }
__device__ inline double Log1p(double x) { return log1p(x); }
__device__ inline float Tanh(float x) { return tanhf(x); }
__device__ inline double Tanh(double x) { return tanh(x); }
__device__ inline float Erf(float x) { return erff(x); }
__device__ inline double Erf(double x) { return erf(x); }

template <typename T>
__device__ inline T Rsqrt(T x) {
  return T(1) / Sqrt(x);
}
template <typename T>
__device__ inline T Reciprocal(T x) {
  return T(1) / x;
}
template <typename T>
__device__ inline T Logistic(T x) {
  return T(1) / (T(1) + Exp(-x));
}

__device__ inline float Fmod(float a, float b) { return fmodf(a, b); }
__device__ inline double Fmod(double a, double b) { return fmod(a, b); }
__device__ inline float TruncDiv(float a, float b) { return truncf(a / b); }
__device__ inline double TruncDiv(double a, double b) { return trunc(a / b); }

// Has the sign of the divisor.
template <typename T>
__device__ inline T Remainder(T a, T b) {
  const T remainder = Fmod(a, b);
  return static_cast<T>(remainder != 0 && (b < 0) != (remainder < 0) ? remainder + b : remainder);
}

// The quotient is computed from the exact remainder, because it may itself have been rounded up to an integer.
template <typename T>
__device__ inline T FloorDivOfFloats(T a, T b) {
  if (b == 0) return a / b;
  const T remainder = Fmod(a, b);
  T quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return CopySign(T(0), a / b);
  const T floor = Floor(quotient);
  return quotient - floor > T(0.5) ? floor + 1 : floor;
}
__device__ inline float FloorDiv(float a, float b) { return FloorDivOfFloats(a, b); }
__device__ inline double FloorDiv(double a, double b) { return FloorDivOfFloats(a, b); }

}  // namespace cotan
