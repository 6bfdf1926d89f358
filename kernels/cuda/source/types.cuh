// SPDX-License-Identifier: Apache-2.0

// Element types as they lie in memory, and their conversions. NVRTC has no headers of its own, and none are needed.
#pragma once

namespace cotan {

using int8 = signed char;
using uint8 = unsigned char;
using int16 = short;
using int32 = int;
using int64 = long long;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

// IEEE 754 binary16 and bfloat16, as bits.
struct float16 {
  uint16 bits;
};
struct bfloat16 {
  uint16 bits;
};

// The 8-bit formats of base/float8.h, as bits.
struct float8_e4m3fn {
  uint8 bits;
};
struct float8_e5m2 {
  uint8 bits;
};

__device__ inline float ToFloat(float16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
__device__ inline float ToFloat(bfloat16 x) { return __uint_as_float(static_cast<uint32>(x.bits) << 16); }

// Round to nearest even.
__device__ inline float16 ToFloat16(float x) {
  float16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
__device__ inline bfloat16 ToBfloat16(float x) {
  bfloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}

// The conversions of 8-bit floats are those of base/float8.h, to the bit: NaN keeps its sign, which cvt does not. A
// magnitude becomes f32 as if its exponent had that bias, and is scaled by a power of two, which is exact.
__device__ inline float ToFloat(float8_e4m3fn x) {
  const uint32 magnitude = x.bits & 0x7fu;
  const float scaled = __uint_as_float(magnitude << 20) * __uint_as_float(0x7b800000u);  // 2^120
  const uint32 bits = magnitude == 0x7fu ? 0x7fc00000u : __float_as_uint(scaled);
  return __uint_as_float((x.bits & 0x80u) << 24 | bits);
}
__device__ inline float ToFloat(float8_e5m2 x) {
  const uint32 magnitude = x.bits & 0x7fu;
  const float scaled = __uint_as_float(magnitude << 21) * __uint_as_float(0x77800000u);  // 2^112
  const uint32 bits = magnitude >= 0x7cu ? 0x7f800000u | (magnitude & 3u) << 21 : __float_as_uint(scaled);
  return __uint_as_float((x.bits & 0x80u) << 24 | bits);
}

// Returns the bits of a magnitude below infinity with `kFraction` bits of fraction and exponents from 2^-kMinExponent
// on, rounded to nearest even. To add a power of two rounds a subnormal in its last bits.
template <int kFraction, int kMinExponent>
__device__ inline uint32 RoundMagnitude(uint32 magnitude) {
  constexpr int kDropped = 23 - kFraction;
  constexpr uint32 kNormal = static_cast<uint32>(127 - kMinExponent) << 23;
  constexpr uint32 kShift = static_cast<uint32>(127 - kMinExponent + kDropped) << 23;
  const uint32 subnormal = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(kShift)) - kShift;
  const uint32 rounded = magnitude + ((1u << (kDropped - 1)) - 1) + (magnitude >> kDropped & 1u);
  const uint32 normal = (rounded - (kNormal - (1u << 23))) >> kDropped;
  return magnitude < kNormal ? subnormal : normal;
}
__device__ inline float8_e4m3fn ToFloat8E4m3fn(float x) {
  const uint32 bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
  uint32 result = RoundMagnitude<3, 6>(magnitude);
  if (magnitude >= 0x43e00000u) result = 0x7eu;  // 448 and more
  if (magnitude > 0x7f800000u) result = 0x7fu;
  return {static_cast<uint8>((bits >> 24 & 0x80u) | result)};
}
__device__ inline float8_e5m2 ToFloat8E5m2(float x) {
  const uint32 bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
  uint32 result = RoundMagnitude<2, 14>(magnitude);
  if (magnitude >= 0x47700000u) result = 0x7cu;  // 61440 and more round to infinity
  if (magnitude > 0x7f800000u) result = 0x7fu;
  return {static_cast<uint8>((bits >> 24 & 0x80u) | result)};
}

}  // namespace cotan
