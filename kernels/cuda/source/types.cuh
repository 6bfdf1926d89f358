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

}  // namespace cotan
