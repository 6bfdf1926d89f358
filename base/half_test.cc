// SPDX-License-Identifier: Apache-2.0

#include "base/half.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(HalfTest, EveryFloat16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = Float16ToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Float16ToFloat(FloatToFloat16(value))));
    } else {
      EXPECT_EQ(FloatToFloat16(value), half);
    }
  }
}

TEST(HalfTest, EveryBFloat16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = BFloat16ToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(value))));
    } else {
      EXPECT_EQ(FloatToBFloat16(value), half);
    }
  }
}

TEST(HalfTest, KnownFloat16Values) {
  EXPECT_EQ(Float16ToFloat(0x3c00), 1.0f);
  EXPECT_EQ(Float16ToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(Float16ToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(Float16ToFloat(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(HalfTest, RoundsToNearestEven) {
  EXPECT_EQ(FloatToFloat16(1.0f + 0x1p-11f), 0x3c00);      // tie, down to even
  EXPECT_EQ(FloatToFloat16(1.0f + 3 * 0x1p-11f), 0x3c02);  // tie, up to even
  EXPECT_EQ(FloatToFloat16(0x1p-25f), 0x0000);             // tie with zero
  EXPECT_EQ(FloatToFloat16(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToFloat16(65520.0f), 0x7c00);  // beyond the largest
  EXPECT_EQ(FloatToFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 3 * 0x1p-8f), 0x3f82);
}

}  // namespace
}  // namespace cotan
