// SPDX-License-Identifier: Apache-2.0

// Scalar f32 functions without branches, so that loops over them vectorize.
//
// Only the headers of tile_ops_impl.h include this file: everything has internal linkage, because each
// instruction set compiles its own copy.
//
// The polynomial coefficients are minimax fits of this project. The methods and the other constants are those
// of Cephes (single/expf.c, logf.c; cmath/exp.c) and fdlibm (s_log1p.c, e_rem_pio2.c). tile_ops_test.cc
// (TranscendentalsAreWithinFourUlp) sweeps these ranges and requires an error of at most 4 units in the last
// place:
//
//   exp, expm1   [-87, 88.7]
//   log          [0, 1e6]
//   log1p        [-0.999999, 100]
//   tanh         [-12, 12]
//   erf          [-5, 5]
//   logistic     [-80, 80]
//   sin          [-99000, 99000]; runs with an argument from 1e5 on use libm (see Trig)
//   cos          [-100, 100]; likewise
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_MATH_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_MATH_H_

#include <cstdint>

namespace cotan::cpu::expr {
namespace {

constexpr float kInfinityF = __builtin_inff();
constexpr float kNanF = __builtin_nanf("");

inline int32_t BitsOf(float x) { return __builtin_bit_cast(int32_t, x); }
inline float FloatOf(int32_t bits) { return __builtin_bit_cast(float, bits); }

// 2^n for n in [-126, 127].
inline float PowerOfTwo(int32_t n) { return FloatOf((n + 127) << 23); }

// Adding this rounds to the nearest integer, which is then in the low bits.
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23
constexpr float kLog2E = 1.44269504088896341f;
// ln 2 in two parts: C1 and C2 of Cephes (cmath/exp.c).
constexpr float kLn2High = 0.693145751953125f;  // 16 bits: products with small integers are exact
constexpr float kLn2Low = 1.42860682030941723e-6f;

// x = n ln 2 + r with |r| <= ln 2 / 2, up to rounding.
struct ExpReduction {
  int32_t n;
  float r;
};

inline ExpReduction ReduceExp(float x) {
  const float shifted = x * kLog2E + kRoundMagic;
  const float n = shifted - kRoundMagic;
  return {BitsOf(shifted) - BitsOf(kRoundMagic), (x - n * kLn2High) - n * kLn2Low};
}

// Returns exp(r) - 1 for |r| <= ln 2 / 2: r + r^2 p(r), p of degree 5.
inline float Expm1Near0(float r) {
  float p = 0.000199120411701f;
  p = p * r + 0.00139412112861f;
  p = p * r + 0.00833327695063f;
  p = p * r + 0.0416663519001f;
  p = p * r + 0.166666668003f;
  p = p * r + 0.500000004721f;
  return r * r * p + r;
}

inline float Exp(float x) {
  float clamped = x > 89.0f ? 89.0f : x;
  clamped = clamped < -104.0f ? -104.0f : clamped;
  const ExpReduction e = ReduceExp(clamped);
  // In two steps, as 2^n itself may overflow or underflow.
  const int32_t half = e.n >> 1;
  return (Expm1Near0(e.r) + 1.0f) * PowerOfTwo(half) * PowerOfTwo(e.n - half);
}

inline float Expm1(float x) {
  float clamped = x > 89.0f ? 89.0f : x;
  clamped = clamped < -20.0f ? -20.0f : clamped;
  const ExpReduction e = ReduceExp(clamped);
  const float scale = PowerOfTwo(e.n - 1);
  const float y = 2.0f * (scale * Expm1Near0(e.r) + (scale - 0.5f));
  return __builtin_fabsf(x) < 1e-4f ? x + 0.5f * x * x : y;
}

// Returns log(x). With x = 2^n (1 + t) and 1 + t in [sqrt(1/2), sqrt(2)): log(1 + t) =
// t - t^2 / 2 + t^3 p(t), p of degree 8, as in Cephes' logf.
inline float Log(float x) {
  const bool small = x < 1.17549435e-38f;  // subnormal
  const int32_t bits = BitsOf(small ? x * 8388608.0f : x);
  const int32_t exponent = (bits - 0x3f3504f3) >> 23;  // mantissa in [sqrt(1/2), sqrt(2))
  const float t = FloatOf(bits - (exponent << 23)) - 1.0f;
  const float n = static_cast<float>(exponent - (small ? 23 : 0));
  float p = 0.069150755451f;
  p = p * t + -0.11789659256f;
  p = p * t + 0.118730291194f;
  p = p * t + -0.12384377364f;
  p = p * t + 0.142186545839f;
  p = p * t + -0.166692490249f;
  p = p * t + 0.200022267319f;
  p = p * t + -0.249999866341f;
  p = p * t + 0.33333310438f;
  const float square = t * t;
  float y = square * t * p + n * kLn2Low - 0.5f * square;
  y = (y + t) + n * kLn2High;
  y = x == 0.0f ? -kInfinityF : y;
  y = x < 0.0f ? kNanF : y;
  return x < kInfinityF ? y : x;  // infinity and NaN
}

inline float Log1p(float x) {
  const float u = 1.0f + x;
  // The second term corrects the rounding of u (fdlibm s_log1p.c).
  const float y = Log(u) - ((u - 1.0f) - x) / u;
  const float near = u == 1.0f ? x : y;
  const float zero = u == 0.0f ? -kInfinityF : near;
  return x < kInfinityF ? zero : x;
}

inline float CopySign(float magnitude, float sign) {
  return FloatOf((BitsOf(magnitude) & 0x7fffffff) | (BitsOf(sign) & static_cast<int32_t>(0x80000000u)));
}

// Returns tanh(x) = t / (t + 2) with t = exp(2 |x|) - 1; it rounds to 1 from 10 on.
inline float Tanh(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float t = Expm1(2.0f * (magnitude > 10.0f ? 10.0f : magnitude));
  return CopySign(t / (t + 2.0f), x);
}

inline float Logistic(float x) { return 1.0f / (1.0f + Exp(-x)); }

// Returns erf(x): an odd polynomial of degree 13 below 1, 1 - exp(p(|x| - 1)) with p of degree 7 above.
inline float Erf(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float square = x * x;
  float small = 7.85384096478e-5f;
  small = small * square + -0.00080101874494f;
  small = small * square + 0.00518832698265f;
  small = small * square + -0.0268538115652f;
  small = small * square + 0.112835851398f;
  small = small * square + -0.376126258235f;
  small = small * square + 0.12837916573f;  // the 1 of the coefficient is added exactly below
  small = small * x + x;
  // erfc = exp(polynomial) between 1 and 4; erf rounds to 1 above.
  const float t = (magnitude > 4.0f ? 4.0f : magnitude) - 1.0f;
  float p = -2.16872154807e-5f;
  p = p * t + 0.000289530339865f;
  p = p * t + -0.00201197125026f;
  p = p * t + 0.0100464568624f;
  p = p * t + -0.0415634830036f;
  p = p * t + -0.843107081234f;
  p = p * t + -2.63896751457f;
  p = p * t + -1.84960551007f;
  const ExpReduction e = ReduceExp(p);
  const float large = 1.0f - (Expm1Near0(e.r) + 1.0f) * PowerOfTwo(e.n);
  return magnitude < 1.0f ? small : (x != x ? x : CopySign(large, x));
}

// Limit of the arguments that SinOfQuarter() reduces accurately enough in double.
constexpr float kMaxTrigArgument = 1e5f;

// Returns sin(x + quarter * pi / 2). The reduction by pi / 2 in two parts is that of fdlibm's e_rem_pio2.c
// (pio2_1, pio2_1t).
inline float SinOfQuarter(float x, int32_t quarter) {
  constexpr double kMagic = 6755399441055744.0;           // 1.5 * 2^52
  constexpr double kHalfPiHigh = 1.57079632673412561417;  // 33 bits
  constexpr double kHalfPiLow = 6.07710050650619224932e-11;
  const double shifted = static_cast<double>(x) * 0.63661977236758134308 + kMagic;
  const double n = shifted - kMagic;
  const auto r = static_cast<float>((static_cast<double>(x) - n * kHalfPiHigh) - n * kHalfPiLow);
  const auto q = static_cast<int32_t>(__builtin_bit_cast(int64_t, shifted)) + quarter;
  const float square = r * r;
  float s = 2.71831115193e-6f;
  s = s * square + -0.00019839334789f;
  s = s * square + 0.00833332938569f;
  s = s * square + -0.166666666416f;
  s = s * (square * r) + r;
  float c = -2.72102297924e-7f;
  c = c * square + 2.47995198974e-5f;
  c = c * square + -0.00138888837529f;
  c = c * square + 0.0416666666228f;
  c = c * (square * square) + (1.0f - 0.5f * square);
  const float y = (q & 1) != 0 ? c : s;
  return FloatOf(BitsOf(y) ^ ((q & 2) << 30));
}

inline float RoundToBFloat16(float x) {
  const auto bits = static_cast<uint32_t>(BitsOf(x));
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  const uint32_t nan = (bits & 0xffff0000u) | 0x400000u;
  return FloatOf(static_cast<int32_t>(x != x ? nan : rounded));
}

inline float RoundToFloat16(float x) {
  const float magnitude = __builtin_fabsf(x);
  // Keeps 10 mantissa bits, but no bit below 2^-24: adding and subtracting a power of two that is 13 places
  // above the last kept bit rounds there.
  const int32_t exponent = BitsOf(magnitude) & 0x7f800000;
  const int32_t floor = 0x38800000;  // 2^-14
  const float step = FloatOf((exponent > floor ? exponent : floor) + (13 << 23));
  const float rounded = (magnitude + step) - step;
  const float y = rounded > 65504.0f ? kInfinityF : rounded;
  return x != x ? x : CopySign(magnitude < 65520.0f ? y : kInfinityF, x);
}

inline float BFloat16BitsToFloat(uint16_t bits) {
  return FloatOf(static_cast<int32_t>(static_cast<uint32_t>(bits) << 16));
}
inline uint16_t FloatToBFloat16Bits(float x) {
  return static_cast<uint16_t>(static_cast<uint32_t>(BitsOf(RoundToBFloat16(x))) >> 16);
}

inline float Float16BitsToFloat(uint16_t bits) {
  const int32_t magnitude = bits & 0x7fff;
  const int32_t sign = static_cast<int32_t>(static_cast<uint32_t>(bits & 0x8000) << 16);
  const float scaled = FloatOf(magnitude << 13) * FloatOf(0x77800000);  // * 2^112
  const int32_t special = 0x7f800000 | ((magnitude & 0x3ff) << 13);
  return FloatOf(sign | (magnitude >= 0x7c00 ? special : BitsOf(scaled)));
}

inline uint16_t FloatToFloat16Bits(float x) {
  const int32_t rounded = BitsOf(RoundToFloat16(x));
  const int32_t magnitude = rounded & 0x7fffffff;
  const int32_t normal = (magnitude - 0x38000000) >> 13;
  // A subnormal is a multiple of 2^-24.
  const auto subnormal = static_cast<int32_t>(FloatOf(magnitude) * 16777216.0f);
  int32_t bits = magnitude < 0x38800000 ? subnormal : normal;
  bits = magnitude == 0x7f800000 ? 0x7c00 : bits;
  bits = magnitude > 0x7f800000 ? 0x7e00 : bits;
  return static_cast<uint16_t>(bits | ((rounded >> 16) & 0x8000));
}

// The 8-bit formats are described in base/float8.h.
inline float RoundToFloat8E4m3fn(float x) {
  const float magnitude = __builtin_fabsf(x);
  // As in RoundToFloat16(): 3 mantissa bits, no bit below 2^-9.
  const int32_t exponent = BitsOf(magnitude) & 0x7f800000;
  const int32_t floor = 0x3c800000;  // 2^-6
  const auto scale = static_cast<uint32_t>(exponent > floor ? exponent : floor) + (20u << 23);
  const float step = FloatOf(static_cast<int32_t>(scale));  // of no use, but harmless, above the largest value
  const float rounded = (magnitude + step) - step;
  return x != x ? x : CopySign(magnitude < 448.0f ? rounded : 448.0f, x);
}

inline float RoundToFloat8E5m2(float x) {
  const float magnitude = __builtin_fabsf(x);
  const int32_t exponent = BitsOf(magnitude) & 0x7f800000;
  const int32_t floor = 0x38800000;  // 2^-14
  const auto scale = static_cast<uint32_t>(exponent > floor ? exponent : floor) + (21u << 23);
  const float step = FloatOf(static_cast<int32_t>(scale));  // of no use, but harmless, above the largest value
  const float rounded = (magnitude + step) - step;
  return x != x ? x : CopySign(magnitude < 61440.0f ? rounded : kInfinityF, x);
}

inline float Float8E4m3fnBitsToFloat(uint8_t bits) {
  const int32_t magnitude = bits & 0x7f;
  const int32_t sign = static_cast<int32_t>(static_cast<uint32_t>(bits & 0x80) << 24);
  const float scaled = FloatOf(magnitude << 20) * FloatOf(0x7b800000);  // * 2^120
  return FloatOf(sign | (magnitude == 0x7f ? 0x7fc00000 : BitsOf(scaled)));
}

inline uint8_t FloatToFloat8E4m3fnBits(float x) {
  const int32_t rounded = BitsOf(RoundToFloat8E4m3fn(x));
  const int32_t magnitude = rounded & 0x7fffffff;
  const int32_t normal = (magnitude - 0x3c000000) >> 20;
  // A subnormal is a multiple of 2^-9; larger values, which may not fit an integer, are not converted.
  const auto subnormal = static_cast<int32_t>((magnitude < 0x3c800000 ? FloatOf(magnitude) : 0.0f) * 512.0f);
  int32_t bits = magnitude < 0x3c800000 ? subnormal : normal;
  bits = magnitude > 0x7f800000 ? 0x7f : bits;
  return static_cast<uint8_t>(bits | ((rounded >> 24) & 0x80));
}

inline float Float8E5m2BitsToFloat(uint8_t bits) { return Float16BitsToFloat(static_cast<uint16_t>(bits << 8)); }

inline uint8_t FloatToFloat8E5m2Bits(float x) {
  const int32_t rounded = BitsOf(RoundToFloat8E5m2(x));
  const int32_t magnitude = rounded & 0x7fffffff;
  const int32_t normal = (magnitude - 0x38000000) >> 21;
  // A subnormal is a multiple of 2^-16.
  const auto subnormal = static_cast<int32_t>((magnitude < 0x38800000 ? FloatOf(magnitude) : 0.0f) * 65536.0f);
  int32_t bits = magnitude < 0x38800000 ? subnormal : normal;
  bits = magnitude == 0x7f800000 ? 0x7c : bits;
  bits = magnitude > 0x7f800000 ? 0x7f : bits;
  return static_cast<uint8_t>(bits | ((rounded >> 24) & 0x80));
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_MATH_H_
