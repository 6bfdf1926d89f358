// SPDX-License-Identifier: Apache-2.0

// The scalar functions of expr.proto as types with a static function Do(), over which tile_ops_impl.h loops.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_FUNCTIONS_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_FUNCTIONS_H_

#include <math.h>

#include <cstdint>

#include "kernels/api/special_functions.h"
#include "kernels/cpu/expr/tile_math.h"

namespace cotan::cpu::expr {
namespace {

// A bool in a register: a type of its own, so that overloads distinguish it from u8.
enum class Bool : uint8_t {};

template <typename T>
inline constexpr bool kIsBool = false;
template <>
inline constexpr bool kIsBool<Bool> = true;

template <typename T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;

inline bool IsTrue(Bool x) { return static_cast<uint8_t>(x) != 0; }

// --- Functions of one operand ----------------------------------------------

template <float (*kF32)(float), double (*kF64)(double)>
struct FloatFn {
  static float Do(float x) { return kF32(x); }
  static double Do(double x) { return kF64(x); }
};

// Those of f64 whose f32 has vectors of its own (tile_chain.h).
template <double (*kF64)(double)>
struct DoubleFn {
  static double Do(double x) { return kF64(x); }
};
inline double Logistic(double x) { return 1.0 / (1.0 + ::exp(-x)); }

using ExpFn = DoubleFn<::exp>;
using Expm1Fn = DoubleFn<::expm1>;
using LogFn = DoubleFn<::log>;
using Log1pFn = DoubleFn<::log1p>;
using TanhFn = DoubleFn<::tanh>;
using ErfFn = DoubleFn<::erf>;
using LogisticFn = DoubleFn<Logistic>;
using Exp2Fn = FloatFn<::exp2f, ::exp2>;
using Log2Fn = FloatFn<::log2f, ::log2>;
using Log10Fn = FloatFn<::log10f, ::log10>;
using TanFn = FloatFn<::tanf, ::tan>;
using AsinFn = FloatFn<::asinf, ::asin>;
using AcosFn = FloatFn<::acosf, ::acos>;
using AtanFn = FloatFn<::atanf, ::atan>;
using SinhFn = FloatFn<::sinhf, ::sinh>;
using CoshFn = FloatFn<::coshf, ::cosh>;
using AsinhFn = FloatFn<::asinhf, ::asinh>;
using AcoshFn = FloatFn<::acoshf, ::acosh>;
using AtanhFn = FloatFn<::atanhf, ::atanh>;
using ErfcFn = FloatFn<::erfcf, ::erfc>;

struct CeilFn {
  static float Do(float x) { return __builtin_ceilf(x); }
  static double Do(double x) { return __builtin_ceil(x); }
};
struct FloorFn {
  static float Do(float x) { return __builtin_floorf(x); }
  static double Do(double x) { return __builtin_floor(x); }
};
struct RoundFn {
  static float Do(float x) { return __builtin_rintf(x); }
  static double Do(double x) { return __builtin_rint(x); }
};
struct TruncFn {
  static float Do(float x) { return __builtin_truncf(x); }
  static double Do(double x) { return __builtin_trunc(x); }
};
struct SqrtFn {
  static float Do(float x) { return __builtin_sqrtf(x); }
  static double Do(double x) { return __builtin_sqrt(x); }
};
struct RsqrtFn {
  static float Do(float x) { return 1.0f / __builtin_sqrtf(x); }
  static double Do(double x) { return 1.0 / __builtin_sqrt(x); }
};
struct ReciprocalFn {
  template <typename T>
  static T Do(T x) {
    return T{1} / x;
  }
};
struct SinFn {
  static float Do(float x) { return SinOfQuarter(x, 0); }
};
struct CosFn {
  static float Do(float x) { return SinOfQuarter(x, 1); }
};
struct ErfInvFn {
  template <typename T>
  static T Do(T x) {
    return static_cast<T>(ErfInv(x));
  }
};
struct LgammaFn {  // lgamma() writes the global signgam
  template <typename T>
  static T Do(T x) {
    int sign = 0;
    return static_cast<T>(::lgamma_r(x, &sign));
  }
};
struct DigammaFn {
  template <typename T>
  static T Do(T x) {
    return static_cast<T>(Digamma(x));
  }
};
struct NegFn {
  template <typename T>
  static T Do(T x) {
    return static_cast<T>(-x);
  }
};
struct AbsFn {
  static float Do(float x) { return __builtin_fabsf(x); }
  static double Do(double x) { return __builtin_fabs(x); }
  template <typename T>
  static T Do(T x) {
    return static_cast<T>(x < 0 ? -x : x);
  }
};
struct SignFn {
  template <typename T>
  static T Do(T x) {
    return static_cast<T>((x > T{0} ? T{1} : T{0}) - (x < T{0} ? T{1} : T{0}));
  }
};
struct ReluFn {
  template <typename T>
  static T Do(T x) {
    return x < T{0} ? T{0} : x;
  }
};
struct BitwiseNotFn {
  static Bool Do(Bool x) { return static_cast<Bool>(!IsTrue(x)); }
  template <typename T>
  static T Do(T x) {
    return static_cast<T>(~x);
  }
};
struct IsNanFn {
  template <typename T>
  static Bool Do(T x) {
    return static_cast<Bool>(x != x);
  }
};
struct IsInfFn {
  template <typename T>
  static Bool Do(T x) {
    return static_cast<Bool>(AbsFn::Do(x) == static_cast<T>(__builtin_inf()));
  }
};

// --- Functions of two operands ---------------------------------------------

struct AddFn {
  static Bool Do(Bool a, Bool b) { return static_cast<Bool>(IsTrue(a) | IsTrue(b)); }
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct SubFn {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct MulFn {
  static Bool Do(Bool a, Bool b) { return static_cast<Bool>(IsTrue(a) & IsTrue(b)); }
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a * b);
  }
};
struct DivFn {
  template <typename T>
  static T Do(T a, T b) {
    return a / b;
  }
};
// Integer quotients and remainders: a division by zero gives 0, a division by -1 never traps.
struct TruncDivFn {
  static float Do(float a, float b) { return __builtin_truncf(a / b); }
  static double Do(double a, double b) { return __builtin_trunc(a / b); }
  template <typename T>
  static T Do(T a, T b) {
    if (b == 0) return 0;
    return static_cast<T>(b == static_cast<T>(-1) && static_cast<T>(-1) < 0 ? -a : a / b);
  }
};
struct FmodFn {
  static float Do(float a, float b) { return ::fmodf(a, b); }
  static double Do(double a, double b) { return ::fmod(a, b); }
  template <typename T>
  static T Do(T a, T b) {
    if (b == 0 || (b == static_cast<T>(-1) && static_cast<T>(-1) < 0)) return 0;
    return static_cast<T>(a % b);
  }
};
struct RemainderFn {
  template <typename T>
  static T Do(T a, T b) {
    const T remainder = FmodFn::Do(a, b);
    return static_cast<T>(remainder != 0 && (b < 0) != (remainder < 0) ? remainder + b : remainder);
  }
};
struct FloorDivFn {
  static float Do(float a, float b) { return DoFloat(a, b); }
  static double Do(double a, double b) { return DoFloat(a, b); }
  template <typename T>
  static T Do(T a, T b) {
    const T remainder = FmodFn::Do(a, b);
    return static_cast<T>(TruncDivFn::Do(a, b) - (remainder != 0 && (a < 0) != (b < 0) ? 1 : 0));
  }
  template <typename T>
  static T DoFloat(T a, T b) {
    if (b == 0) return a / b;
    const T remainder = FmodFn::Do(a, b);
    T quotient = (a - remainder) / b;
    if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
    if (quotient == 0) return a / b < 0 ? -T{0} : T{0};
    const T floor = FloorFn::Do(quotient);
    return quotient - floor > T{0.5} ? floor + 1 : floor;
  }
};
struct PowFn {
  static float Do(float a, float b) { return ::powf(a, b); }
  static double Do(double a, double b) { return ::pow(a, b); }
  template <typename T>
  static T Do(T a, T b) {
    if (b < 0) return static_cast<T>(a == 1 ? 1 : a == static_cast<T>(-1) ? (b % 2 == 0 ? 1 : -1) : 0);
    uint64_t result = 1;
    auto square = static_cast<uint64_t>(a);
    for (auto exponent = static_cast<uint64_t>(b); exponent != 0; exponent >>= 1) {
      if ((exponent & 1) != 0) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
};
struct MaximumFn {
  template <typename T>
  static T Do(T a, T b) {
    return (a > b) | (a != a) ? a : b;
  }
};
struct MinimumFn {
  template <typename T>
  static T Do(T a, T b) {
    return (a < b) | (a != a) ? a : b;
  }
};
struct FmaxFn {
  template <typename T>
  static T Do(T a, T b) {
    return (a > b) | (b != b) ? a : b;
  }
};
struct FminFn {
  template <typename T>
  static T Do(T a, T b) {
    return (a < b) | (b != b) ? a : b;
  }
};
struct Atan2Fn {
  static float Do(float a, float b) { return ::atan2f(a, b); }
  static double Do(double a, double b) { return ::atan2(a, b); }
};
struct HypotFn {
  static float Do(float a, float b) { return ::hypotf(a, b); }
  static double Do(double a, double b) { return ::hypot(a, b); }
};
struct CopySignFn {
  static float Do(float a, float b) { return __builtin_copysignf(a, b); }
  static double Do(double a, double b) { return __builtin_copysign(a, b); }
};
struct EqFn {
  template <typename T>
  static Bool Do(T a, T b) {
    return static_cast<Bool>(a == b);
  }
};
struct NeFn {
  template <typename T>
  static Bool Do(T a, T b) {
    return static_cast<Bool>(a != b);
  }
};
struct LtFn {
  template <typename T>
  static Bool Do(T a, T b) {
    return static_cast<Bool>(a < b);
  }
};
struct LeFn {
  template <typename T>
  static Bool Do(T a, T b) {
    return static_cast<Bool>(a <= b);
  }
};
struct AndFn {
  static Bool Do(Bool a, Bool b) { return MulFn::Do(a, b); }
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct OrFn {
  static Bool Do(Bool a, Bool b) { return AddFn::Do(a, b); }
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct XorFn {
  static Bool Do(Bool a, Bool b) { return static_cast<Bool>(IsTrue(a) != IsTrue(b)); }
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
template <typename T>
inline constexpr int kBits = static_cast<int>(sizeof(T)) * 8;
struct ShiftLeftFn {
  template <typename T>
  static T Do(T a, T b) {
    return b < 0 || b >= kBits<T> ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << b);
  }
};
struct ShiftRightFn {
  template <typename T>
  static T Do(T a, T b) {
    return b < 0 || b >= kBits<T> ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> b);
  }
};

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_FUNCTIONS_H_
