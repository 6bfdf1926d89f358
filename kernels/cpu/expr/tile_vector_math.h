// SPDX-License-Identifier: Apache-2.0

// f32 functions of vectors (tile_lanes.h) without branches. They look like scalar code, but where GCC would compile a
// comparison and a choice, they use the processor's minimum and maximum, and its scaling by a power of two.
// All have internal linkage; tile_ops_impl.h gives the reason.
//
// The methods are those of Cephes (single/expf.c, logf.c; cmath/exp.c) and fdlibm (s_log1p.c). tile_ops_test.cc
// (TranscendentalsAreAccurate) sweeps these ranges and requires an error of at most 4 units in the last place:
//
//   exp, expm1   [-87, 88.7]
//   log          [0, 1e6]
//   log1p        [-0.999999, 100]
//   tanh         [-12, 12]
//   erf          [-5, 5]; at most 6 units
//   logistic     [-80, 80]
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_VECTOR_MATH_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_VECTOR_MATH_H_

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstdint>

#include "kernels/cpu/expr/tile_lanes.h"
#include "kernels/cpu/expr/tile_math.h"
#include "kernels/cpu/expr/vector_constants.h"

namespace cotan::cpu::expr {
namespace {

using FloatVector = VectorOf<float>::Type;
using IntVector = VectorOf<int32_t>::Type;
constexpr int64_t kFloatLanes = VectorOf<float>::kLanes;

[[gnu::always_inline]] inline IntVector BitsOf(FloatVector x) { return reinterpret_cast<IntVector>(x); }
[[gnu::always_inline]] inline FloatVector FloatOf(IntVector bits) { return reinterpret_cast<FloatVector>(bits); }
// Without the addition of Splat(), which GCC keeps for the sake of -0.
[[gnu::always_inline]] inline FloatVector SplatFloat(float value) { return value - FloatVector{}; }

// Return the lesser and the greater of two values, b if one of them is NaN or they are equal.
[[gnu::always_inline]] inline FloatVector LesserOrSecond(FloatVector a, FloatVector b) {
#if defined(__AVX512F__)
  return FloatVector(_mm512_maskz_min_ps(0xffff, __m512(a), __m512(b)));
#elif defined(__AVX2__)
  return FloatVector(_mm256_min_ps(__m256(a), __m256(b)));
#elif defined(__SSE2__)
  return FloatVector(_mm_min_ps(__m128(a), __m128(b)));
#else
  return a < b ? a : b;
#endif
}
[[gnu::always_inline]] inline FloatVector GreaterOrSecond(FloatVector a, FloatVector b) {
#if defined(__AVX512F__)
  return FloatVector(_mm512_maskz_max_ps(0xffff, __m512(a), __m512(b)));
#elif defined(__AVX2__)
  return FloatVector(_mm256_max_ps(__m256(a), __m256(b)));
#elif defined(__SSE2__)
  return FloatVector(_mm_max_ps(__m128(a), __m128(b)));
#else
  return a > b ? a : b;
#endif
}

// Return x, but at most or at least `bound`; NaN stays.
[[gnu::always_inline]] inline FloatVector AtMost(float bound, FloatVector x) {
  return LesserOrSecond(SplatFloat(bound), x);
}
[[gnu::always_inline]] inline FloatVector AtLeast(float bound, FloatVector x) {
  return GreaterOrSecond(SplatFloat(bound), x);
}

[[gnu::always_inline]] inline FloatVector Sqrt(FloatVector x) {
#if defined(__AVX512F__)
  return FloatVector(_mm512_maskz_sqrt_ps(0xffff, __m512(x)));
#elif defined(__AVX2__)
  return FloatVector(_mm256_sqrt_ps(__m256(x)));
#elif defined(__SSE2__)
  return FloatVector(_mm_sqrt_ps(__m128(x)));
#else
  for (int64_t lane = 0; lane < kFloatLanes; ++lane) x[lane] = __builtin_sqrtf(x[lane]);
  return x;
#endif
}

[[gnu::always_inline]] inline FloatVector Abs(FloatVector x) { return FloatOf(BitsOf(x) & 0x7fffffff); }

[[gnu::always_inline]] inline FloatVector CopySign(FloatVector magnitude, FloatVector sign) {
  return FloatOf((BitsOf(magnitude) & 0x7fffffff) | (BitsOf(sign) & static_cast<int32_t>(0x80000000u)));
}

// 2^n for n in [-126, 127].
[[gnu::always_inline]] inline FloatVector PowerOfTwo(IntVector n) { return FloatOf((n + 127) << 23); }

// Bools, one byte each, of as many elements as a vector has.
typedef uint8_t FlagVector __attribute__((vector_size(kFloatLanes)));

// Returns lanes that are not 0 where a bool holds.
[[gnu::always_inline]] inline IntVector Widen(FlagVector flags) {
#if defined(__AVX512F__)
  return IntVector(_mm512_maskz_cvtepu8_epi32(0xffff, __m128i(flags)));
#elif defined(__AVX2__)
  return IntVector(_mm256_cvtepu8_epi32(_mm_set_epi64x(0, __builtin_bit_cast(int64_t, flags))));
#elif defined(__SSE2__)
  const __m128i bytes = _mm_cvtsi32_si128(__builtin_bit_cast(int32_t, flags));
  const __m128i words = _mm_unpacklo_epi8(bytes, _mm_setzero_si128());
  return IntVector(_mm_unpacklo_epi16(words, _mm_setzero_si128()));
#else
  return __builtin_convertvector(flags, IntVector);
#endif
}

// Returns bools that hold in the lanes of `x` that are -1; the others are 0.
[[gnu::always_inline]] inline FlagVector Narrow(IntVector x) {
#if defined(__AVX512F__)
  return FlagVector(_mm512_maskz_cvtepi32_epi8(0xffff, __m512i(x))) & 1;
#elif defined(__AVX2__)
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(__m256i(x)), _mm256_extracti128_si256(__m256i(x), 1));
  return __builtin_bit_cast(FlagVector, _mm_packs_epi16(words, words)[0]) & 1;
#elif defined(__SSE2__)
  const __m128i words = _mm_packs_epi32(__m128i(x), __m128i(x));
  return __builtin_bit_cast(FlagVector, _mm_cvtsi128_si32(_mm_packs_epi16(words, words))) & 1;
#else
  return __builtin_convertvector(x & 1, FlagVector);
#endif
}

// Bits of bf16, of as many elements as a vector has.
typedef uint16_t HalfVector __attribute__((vector_size(kFloatLanes * 2)));

[[gnu::always_inline]] inline FloatVector WidenBFloat16(HalfVector bits) {
#if defined(__AVX512F__)
  return FloatOf(IntVector(_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, __m256i(bits)), 16)));
#elif defined(__AVX2__)
  return FloatOf(IntVector(_mm256_slli_epi32(_mm256_cvtepu16_epi32(__m128i(bits)), 16)));
#else
  return FloatOf(__builtin_convertvector(bits, IntVector) << 16);
#endif
}

// Returns the bits of values that have the precision of bf16.
[[gnu::always_inline]] inline HalfVector NarrowToBFloat16(FloatVector x) {
#if defined(__AVX512F__)
  return HalfVector(_mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, __m512i(BitsOf(x)), 16)));
#else
  return __builtin_convertvector(BitsOf(x) >> 16, HalfVector);
#endif
}

// The vector form of RoundToBFloat16() of tile_math.h.
[[gnu::always_inline]] inline FloatVector RoundToBFloat16(FloatVector x) {
  const IntVector bits = BitsOf(x);
  const IntVector high = IntVector{} + static_cast<int32_t>(0xffff0000u);
  const IntVector rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return FloatOf((x != x ? bits | 0x400000 : rounded) & high);
}

// Returns the polynomial with these coefficients, the highest power first.
template <size_t kSize>
[[gnu::always_inline]] inline FloatVector Polynomial(FloatVector x, const float (&coefficients)[kSize]) {
  FloatVector sum = SplatFloat(coefficients[0]);
  for (size_t k = 1; k < kSize; ++k) sum = sum * x + coefficients[k];
  return sum;
}

// x = n ln 2 + r with |r| <= ln 2 / 2, up to rounding; `shifted` is n + kRoundMagic.
struct ExpReduction {
  FloatVector shifted;
  FloatVector n;
  FloatVector r;
  [[gnu::always_inline]] IntVector integer() const { return BitsOf(shifted) - BitsOf(kRoundMagic); }
};

[[gnu::always_inline]] inline ExpReduction ReduceExp(FloatVector x) {
  const FloatVector shifted = x * kLog2E + kRoundMagic;
  const FloatVector n = shifted - kRoundMagic;
  return {shifted, n, (x - n * kLn2High) - n * kLn2Low};
}

// Returns exp(r) - 1 for |r| <= ln 2 / 2: r + r^2 p(r), p of degree 5.
[[gnu::always_inline]] inline FloatVector Expm1Near0(FloatVector r) {
  const FloatVector p = Polynomial(r, kExpPolynomial);
  return r * r * p + r;
}

// Returns y 2^n for the n of `e`, which may overflow or underflow.
[[gnu::always_inline]] inline FloatVector Scale(FloatVector y, ExpReduction e) {
#ifdef __AVX512F__
  return FloatVector(_mm512_maskz_scalef_ps(0xffff, __m512(y), __m512(e.n)));
#else
  // In two steps, as 2^n itself may be out of range.
  const IntVector half = e.integer() >> 1;
  return y * PowerOfTwo(half) * PowerOfTwo(e.integer() - half);
#endif
}

[[gnu::always_inline]] inline FloatVector Exp(FloatVector x) {
#ifdef __AVX512F__
  const ExpReduction e = ReduceExp(AtLeast(kExpLowest, AtMost(kExpOverflow, x)));
  return Scale(Expm1Near0(e.r) + 1.0f, e);
#else
  const ExpReduction e = ReduceExp(AtLeast(kExpUnderflow, AtMost(kExpOverflow, x)));
  const FloatVector y = Expm1Near0(e.r) + 1.0f;
  return Scale(x <= kExpUnderflow ? FloatVector{} : y, e);
#endif
}

[[gnu::always_inline]] inline FloatVector Expm1(FloatVector x) {
  const ExpReduction e = ReduceExp(AtLeast(-20.0f, AtMost(kExpOverflow, x)));
  const FloatVector scale = PowerOfTwo(e.integer() - 1);
  const FloatVector y = 2.0f * (scale * Expm1Near0(e.r) + (scale - 0.5f));
  return Abs(x) < 1e-4f ? x + 0.5f * x * x : y;
}

// Returns log(x). With x = 2^n (1 + t) and 1 + t in [sqrt(1/2), sqrt(2)): log(1 + t) =
// t - t^2 / 2 + t^3 p(t), p of degree 8, as in Cephes' logf.
[[gnu::always_inline]] inline FloatVector Log(FloatVector x) {
  const IntVector small = x < 1.17549435e-38f;  // subnormal
  const IntVector bits = BitsOf(small ? x * 8388608.0f : x);
  const IntVector exponent = (bits - 0x3f3504f3) >> 23;  // mantissa in [sqrt(1/2), sqrt(2))
  const FloatVector t = FloatOf(bits - (exponent << 23)) - 1.0f;
  const FloatVector n = __builtin_convertvector(small ? exponent - 23 : exponent, FloatVector);
  const FloatVector p = Polynomial(t, kLogPolynomial);
  const FloatVector square = t * t;
  FloatVector y = square * t * p + n * kLn2Low - 0.5f * square;
  y = (y + t) + n * kLn2High;
  y = x == 0.0f ? SplatFloat(-kInfinityF) : y;
  y = x < 0.0f ? SplatFloat(kNanF) : y;
  return x < kInfinityF ? y : x;  // infinity and NaN
}

[[gnu::always_inline]] inline FloatVector Log1p(FloatVector x) {
  const FloatVector u = 1.0f + x;
  // The second term corrects the rounding of u (fdlibm s_log1p.c).
  const FloatVector y = Log(u) - ((u - 1.0f) - x) / u;
  const FloatVector near = u == 1.0f ? x : y;
  const FloatVector at_pole = u == 0.0f ? SplatFloat(-kInfinityF) : near;
  return x < kInfinityF ? at_pole : x;
}

// Returns tanh(x) = t / (t + 2) with t = exp(2 |x|) - 1; it rounds to 1 from 10 on.
[[gnu::always_inline]] inline FloatVector Tanh(FloatVector x) {
  const FloatVector t = Expm1(2.0f * AtMost(10.0f, Abs(x)));
  return CopySign(t / (t + 2.0f), x);
}

[[gnu::always_inline]] inline FloatVector Logistic(FloatVector x) { return 1.0f / (1.0f + Exp(-x)); }

// Returns erf(x) = x p(x^2) / q(x^2), both of degree 5, with |x| at most 4, from where it rounds to 1. The roundings of
// p and q make up to 6 units in the last place between 2 and 4, where such a unit is 2^-24.
[[gnu::always_inline]] inline FloatVector Erf(FloatVector x) {
  const FloatVector t = AtLeast(-4.0f, AtMost(4.0f, x));
  const FloatVector square = t * t;
  const FloatVector p = Polynomial(square, kErfNumerator);
  const FloatVector q = Polynomial(square, kErfDenominator);
  return AtLeast(-1.0f, AtMost(1.0f, t * p / q));
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_VECTOR_MATH_H_
