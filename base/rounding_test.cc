// SPDX-License-Identifier: Apache-2.0

#include "base/rounding.h"

#include <limits>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(RoundingTest, QuotientsAreRoundedUp) {
  EXPECT_EQ(CeilDiv(0, 3), 0);
  EXPECT_EQ(CeilDiv(3, 3), 1);
  EXPECT_EQ(CeilDiv(4, 3), 2);
}

TEST(RoundingTest, QuotientsAreRoundedDown) {
  EXPECT_EQ(FloorDiv(7, 3), 2);
  EXPECT_EQ(FloorDiv(-7, 3), -3);
  EXPECT_EQ(FloorDiv(-6, 3), -2);
  EXPECT_EQ(FloorDiv(7, -3), -3);
  EXPECT_EQ(FloorDiv(-7, -3), 2);
  EXPECT_EQ(FloorDiv(std::numeric_limits<int64_t>::min(), 1), std::numeric_limits<int64_t>::min());
}

TEST(RoundingTest, TheLargestCountDoesNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CeilDiv(kMax, 2), kMax / 2 + 1);
  EXPECT_EQ(RoundUp(kMax, kMax), kMax);
}

TEST(RoundingTest, CountsAreRoundedUpToAMultiple) {
  EXPECT_EQ(RoundUp(int64_t{0}, int64_t{64}), 0);
  EXPECT_EQ(RoundUp(int64_t{64}, int64_t{64}), 64);
  EXPECT_EQ(RoundUp(int64_t{65}, int64_t{64}), 128);
  EXPECT_EQ(RoundUp(size_t{65}, size_t{64}), 128U);
}

}  // namespace
}  // namespace cotan
