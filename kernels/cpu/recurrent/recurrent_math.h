// SPDX-License-Identifier: Apache-2.0

// The functions of recurrent cells on vectors of f32 and f64. They are inlined into functions that are
// compiled for several instruction sets (see simd.h).
#ifndef COTAN_KERNELS_CPU_RECURRENT_RECURRENT_MATH_H_
#define COTAN_KERNELS_CPU_RECURRENT_RECURRENT_MATH_H_

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/gemm_core.h"

namespace cotan::cpu {

// Constants of SplitExp() for a dtype. ln 2 is split into a high part, whose products with small integers are
// exact, and a low part: for f32 the constants C1 and C2 of Cephes (cmath/exp.c), for f64 ln2HI and ln2LO of
// fdlibm (e_exp.c). kDegree is the degree of the Taylor polynomial of exp.
template <typename T>
struct ExpTraits;
template <>
struct ExpTraits<float> {
  typedef int32_t Bits __attribute__((vector_size(64)));
  static constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float kLn2High = 0.693145751953125F;
  static constexpr float kLn2Low = 1.42860682030941723e-6F;
  static constexpr int kMantissaBits = 23;
  static constexpr int kDegree = 7;
  static constexpr float kLargest = 87.0F;    // of an argument; larger ones are clamped
  static constexpr float kTanhIsOne = 10.0F;  // tanh(x) rounds to 1 from here on
};
template <>
struct ExpTraits<double> {
  typedef int64_t Bits __attribute__((vector_size(64)));
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLn2High = 0.693147180369123816490;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
  static constexpr int kMantissaBits = 52;
  static constexpr int kDegree = 13;
  static constexpr double kLargest = 708.0;
  static constexpr double kTanhIsOne = 20.0;
};

// Computes exp(x) = scale * (1 + rest) with |rest| < 0.42, for |x| <= kLargest: x = n ln 2 + r, scale = 2^n,
// rest = exp(r) - 1 by its Taylor polynomial.
template <typename T>
[[gnu::always_inline]] inline void SplitExp(const Vector<T>& x, Vector<T>& scale, Vector<T>& rest) {
  using Traits = ExpTraits<T>;
  using Bits = typename Traits::Bits;
  constexpr T kLog2E = static_cast<T>(1.44269504088896340736);
  const Vector<T> shifted = x * kLog2E + Traits::kRound;
  const Vector<T> n = shifted - Traits::kRound;
  const Vector<T> r = (x - n * Traits::kLn2High) - n * Traits::kLn2Low;
  // p = 1/2! + r/3! + ... by Horner's rule.
  T factorial = 1;
  for (int k = 2; k <= Traits::kDegree; ++k) factorial *= static_cast<T>(k);
  Vector<T> p = Vector<T>{} + 1 / factorial;
  for (int k = Traits::kDegree; k > 2; --k) {
    factorial /= static_cast<T>(k);
    p = p * r + 1 / factorial;
  }
  rest = r * r * p + r;
  // The low bits of `shifted` hold n; shifted to the exponent's position they are added to the bits of 1.0.
  const Vector<T> one = Vector<T>{} + T{1};
  scale = reinterpret_cast<Vector<T>>(reinterpret_cast<Bits>(one) +
                                      (reinterpret_cast<Bits>(shifted) << Traits::kMantissaBits));
}

// Replaces x by 1 / (1 + exp(-x)). NaN stays NaN.
template <typename T>
[[gnu::always_inline]] inline void Logistic(Vector<T>& x) {
  const Vector<T> largest = Vector<T>{} + ExpTraits<T>::kLargest;
  Vector<T> clamped = x > largest ? largest : x;
  clamped = clamped < -largest ? -largest : clamped;
  const Vector<T> negative = -clamped;
  Vector<T> scale, rest;
  SplitExp<T>(negative, scale, rest);
  x = T{1} / (T{1} + (scale + scale * rest));
}

// Replaces x by tanh(x) = (exp(2x) - 1) / (exp(2x) + 1). NaN stays NaN. The relative error at small and
// medium arguments is checked in recurrent_test.cc (SmallValuesKeepTheirDigits: 5e-7 for f32).
template <typename T>
[[gnu::always_inline]] inline void Tanh(Vector<T>& x) {
  const Vector<T> one = Vector<T>{} + ExpTraits<T>::kTanhIsOne;
  const Vector<T> magnitude = x < Vector<T>{} ? -x : x;
  const Vector<T> clamped = magnitude > one ? one : magnitude;
  const Vector<T> twice = clamped + clamped;
  Vector<T> scale, rest;
  SplitExp<T>(twice, scale, rest);
  const Vector<T> less_one = scale * rest + (scale - T{1});  // exp(2 |x|) - 1
  const Vector<T> result = less_one / (less_one + T{2});
  x = x < Vector<T>{} ? -result : result;
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_RECURRENT_RECURRENT_MATH_H_
