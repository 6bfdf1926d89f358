// SPDX-License-Identifier: Apache-2.0

// exp() on vectors of f32 and f64, for kernels that compute it between small products. The functions are
// inlined into functions that are compiled for several instruction sets (see simd.h).
//
// Expressions have their own functions (expr/tile_vector_math.h): scalar code for a translation unit per instruction
// set, whose results are within 4 units in the last place over the whole range of f32, subnormal numbers
// included.
#ifndef COTAN_KERNELS_CPU_SIMD_SIMD_MATH_H_
#define COTAN_KERNELS_CPU_SIMD_SIMD_MATH_H_

#include <array>
#include <cstddef>
#include <cstdint>

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
  static constexpr float kLargest = 87.0F;  // magnitude of an argument; callers clamp larger ones
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
};

// Returns 1 / k! for k = 0 ... kDegree.
template <typename T, int kDegree>
constexpr std::array<T, kDegree + 1> InverseFactorials() {
  std::array<T, kDegree + 1> result = {};
  T factorial = 1;
  for (size_t k = 0; k <= kDegree; ++k) {
    if (k > 1) factorial *= static_cast<T>(k);
    result[k] = 1 / factorial;
  }
  return result;
}

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
  constexpr auto kCoefficients = InverseFactorials<T, Traits::kDegree>();
  Vector<T> p = Vector<T>{} + kCoefficients[Traits::kDegree];
#pragma GCC unroll 16
  for (size_t k = Traits::kDegree - 1; k >= 2; --k) p = p * r + kCoefficients[k];
  rest = r * r * p + r;
  // The low bits of `shifted` hold n; shifted to the exponent's position they are added to the bits of 1.0.
  const Vector<T> one = Vector<T>{} + T{1};
  scale = reinterpret_cast<Vector<T>>(reinterpret_cast<Bits>(one) +
                                      (reinterpret_cast<Bits>(shifted) << Traits::kMantissaBits));
}

// Replaces each element x <= 0 by exp(x), and by 0 for x < -kLargest. NaN stays NaN.
template <typename T>
[[gnu::always_inline]] inline void ExpOfNegative(Vector<T>& x) {
  const Vector<T> lowest = Vector<T>{} - ExpTraits<T>::kLargest;
  const typename ExpTraits<T>::Bits is_lost = x < lowest;
  const Vector<T> clamped = is_lost ? lowest : x;
  Vector<T> scale, rest;
  SplitExp<T>(clamped, scale, rest);
  x = is_lost ? Vector<T>{} : scale + scale * rest;
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SIMD_SIMD_MATH_H_
