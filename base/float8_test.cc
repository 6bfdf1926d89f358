// SPDX-License-Identifier: Apache-2.0

#include "base/float8.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

struct Format {
  float (*load)(uint8_t);
  uint8_t (*store)(float);
  uint8_t largest;   // bits of the largest finite value
  uint8_t overflow;  // bits of what is larger
};

constexpr Format kFormats[] = {{Float8E4m3fnToFloat, FloatToFloat8E4m3fn, 0x7e, 0x7e},
                               {Float8E5m2ToFloat, FloatToFloat8E5m2, 0x7b, 0x7c}};

// Returns the bits nearest to a magnitude that is not NaN, found by comparing with every finite value.
uint8_t Nearest(const Format& format, double magnitude) {
  const double largest = format.load(format.largest);
  const double step = largest - format.load(static_cast<uint8_t>(format.largest - 1));
  if (magnitude >= largest + step / 2) return format.overflow;
  int best = 0;
  for (int bits = 1; bits <= format.largest; ++bits) {
    const double distance = std::abs(format.load(static_cast<uint8_t>(bits)) - magnitude);
    const double shortest = std::abs(format.load(static_cast<uint8_t>(best)) - magnitude);
    if (distance < shortest || (distance == shortest && bits % 2 == 0)) best = bits;
  }
  return static_cast<uint8_t>(best);
}

TEST(Float8Test, EveryValueSurvivesTheWayThroughFloat) {
  for (const Format& format : kFormats) {
    for (int bits = 0; bits < 256; ++bits) {
      const float value = format.load(static_cast<uint8_t>(bits));
      if (std::isnan(value)) {
        EXPECT_EQ(format.store(value) & 0x7f, 0x7f);
      } else {
        EXPECT_EQ(format.store(value), bits);
      }
    }
  }
}

TEST(Float8Test, EveryBFloat16GoesToTheNearestValue) {
  for (const Format& format : kFormats) {
    for (uint32_t half = 0; half < 0x10000; ++half) {
      const float value = BFloat16ToFloat(static_cast<uint16_t>(half));
      const int sign = half >= 0x8000 ? 0x80 : 0;
      const int expected = std::isnan(value) ? 0x7f : Nearest(format, std::abs(value));
      ASSERT_EQ(format.store(value), sign | expected) << value;
    }
  }
}

TEST(Float8Test, TiesGoToTheEvenNeighbourAndTheirNeighboursDoNot) {
  constexpr float kMore = std::numeric_limits<float>::infinity();
  for (const Format& format : kFormats) {
    for (int bits = 0; bits < format.largest; ++bits) {
      const float low = format.load(static_cast<uint8_t>(bits));
      const float tie = (low + format.load(static_cast<uint8_t>(bits + 1))) / 2;
      EXPECT_EQ(format.store(tie), bits + bits % 2) << tie;
      EXPECT_EQ(format.store(std::nextafter(tie, 0.0f)), bits) << tie;
      EXPECT_EQ(format.store(std::nextafter(tie, kMore)), bits + 1) << tie;
    }
  }
}

TEST(Float8Test, KnownValues) {
  EXPECT_EQ(Float8E4m3fnToFloat(0x38), 1.0f);
  EXPECT_EQ(Float8E4m3fnToFloat(0x01), 0x1p-9f);
  EXPECT_EQ(Float8E4m3fnToFloat(0x7e), 448.0f);
  EXPECT_EQ(FloatToFloat8E4m3fn(1e9f), 0x7e);
  EXPECT_EQ(FloatToFloat8E4m3fn(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(Float8E5m2ToFloat(0x3c), 1.0f);
  EXPECT_EQ(Float8E5m2ToFloat(0x01), 0x1p-16f);
  EXPECT_EQ(Float8E5m2ToFloat(0x7b), 57344.0f);
  EXPECT_EQ(FloatToFloat8E5m2(1e9f), 0x7c);
}

}  // namespace
}  // namespace cotan
