// SPDX-License-Identifier: Apache-2.0

// Scalar f32 functions without branches, so that loops over them vectorize.
//
// Only the headers of tile_ops_impl.h include this file: everything has internal linkage, because each
// instruction set compiles its own copy.
//
// The polynomial coefficients are minimax fits of this project. tile_ops_test.cc (TranscendentalsAreAccurate)
// sweeps these ranges and requires an error of at most 4 units in the last place:
//
//   sin          [-99000, 99000]; runs with an argument from 1e5 on use libm (see Trig)
//   cos          [-100, 100]; likewise
//
// Functions of whole vectors are in tile_vector_math.h.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_MATH_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_MATH_H_

#include <cstdint>

namespace cotan::cpu::expr {
namespace {

constexpr float kInfinityF = __builtin_inff();
constexpr float kNanF = __builtin_nanf("");

inline int32_t BitsOf(float x) { return __builtin_bit_cast(int32_t, x); }
inline float FloatOf(int32_t bits) { return __builtin_bit_cast(float, bits); }

inline float CopySign(float magnitude, float sign) {
  return FloatOf((BitsOf(magnitude) & 0x7fffffff) | (BitsOf(sign) & static_cast<int32_t>(0x80000000u)));
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
  // A subnormal is a multiple of 2^-24; no operand is a subnormal f32, which may count as zero (base/denormal_mode.h).
  const int32_t subnormal = BitsOf(static_cast<float>(magnitude) * 0x1p-24f);
  const int32_t normal = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000 : 0x38000000);
  return FloatOf(sign | (magnitude < 0x400 ? subnormal : normal));
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
  const int32_t subnormal = BitsOf(static_cast<float>(magnitude) * 0x1p-9f);
  const int32_t finite = magnitude < 8 ? subnormal : (magnitude << 20) + 0x3c000000;
  return FloatOf(sign | (magnitude == 0x7f ? 0x7fc00000 : finite));
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
