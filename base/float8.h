// SPDX-License-Identifier: Apache-2.0

// Conversions between f32 and the bits of the two 8-bit floating point formats of Micikevicius et al., "FP8 Formats
// for Deep Learning" (2022): e4m3fn (no infinity, one NaN per sign, largest value 448) and e5m2 (as IEEE 754, largest
// value 57344). They round to nearest, ties to even; NaN stays NaN. As in LibTorch 2.15, e4m3fn saturates: what is
// larger than 448, infinity included, becomes 448. In e5m2 it becomes infinity.
#ifndef COTAN_BASE_FLOAT8_H_
#define COTAN_BASE_FLOAT8_H_

#include <bit>
#include <cstdint>

#include "base/half.h"

namespace cotan {

inline float Float8E4m3fnToFloat(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + 0x3c000000u));
  // A subnormal is a multiple of 2^-9; in f32 it is not subnormal.
  const float value = static_cast<float>(magnitude) * 0x1p-9f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

inline uint8_t FloatToFloat8E4m3fn(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448 and more
  if (magnitude < 0x3c800000u) {
    // A subnormal result, a multiple of 2^-9: adding 2^14 leaves the rounded value in the last bits.
    const float shifted = std::bit_cast<float>(magnitude) + 16384.0f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000u));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
}

// The bits are the upper half of a binary16.
inline float Float8E5m2ToFloat(uint8_t bits) {
  return Float16ToFloat(static_cast<uint16_t>(static_cast<uint32_t>(bits) << 8));
}

inline uint8_t FloatToFloat8E5m2(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x47700000u) return static_cast<uint8_t>(sign | 0x7cu);  // 61440 and more round to infinity
  if (magnitude < 0x38800000u) {
    // A subnormal result, a multiple of 2^-16: adding 2^7 leaves the rounded value in the last bits.
    const float shifted = std::bit_cast<float>(magnitude) + 128.0f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x43000000u));
  }
  const uint32_t rounded = magnitude + 0xfffffu + ((magnitude >> 21) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - 0x38000000u) >> 21));
}

}  // namespace cotan

#endif  // COTAN_BASE_FLOAT8_H_
