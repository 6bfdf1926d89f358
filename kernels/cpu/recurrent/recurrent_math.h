// SPDX-License-Identifier: Apache-2.0

// The functions of recurrent cells on vectors of f32 and f64. They are inlined into functions that are
// compiled for several instruction sets (see simd.h).
#ifndef COTAN_KERNELS_CPU_RECURRENT_RECURRENT_MATH_H_
#define COTAN_KERNELS_CPU_RECURRENT_RECURRENT_MATH_H_

#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd_math.h"

namespace cotan::cpu {

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

// tanh(x) rounds to 1 from this argument on.
template <typename T>
inline constexpr T kTanhIsOne = sizeof(T) == sizeof(float) ? T{10} : T{20};

// Replaces x by tanh(x) = (exp(2x) - 1) / (exp(2x) + 1). NaN stays NaN. The relative error at small and
// medium arguments is checked in recurrent_test.cc (SmallValuesKeepTheirDigits: 5e-7 for f32).
template <typename T>
[[gnu::always_inline]] inline void Tanh(Vector<T>& x) {
  const Vector<T> one = Vector<T>{} + kTanhIsOne<T>;
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
