// SPDX-License-Identifier: Apache-2.0

#include "testing/tolerance.h"

#include <gtest/gtest.h>

#include <limits>

namespace cotan::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kEps = std::numeric_limits<float>::epsilon();

TEST(ErrorInEpsTest, CountsEpsOfTheLargestElement) {
  EXPECT_DOUBLE_EQ(ErrorInEps<float>({1, 2}, {1, 2}), 0);
  EXPECT_DOUBLE_EQ(ErrorInEps<float>({1 + kEps, 2}, {1, 2}), 0.5);
  EXPECT_DOUBLE_EQ(ErrorInEps<double>({0.25, 8}, {0, 8}), 0.25 / 8 / std::numeric_limits<double>::epsilon());
}

TEST(ErrorInEpsTest, NonFiniteValuesMustMatch) {
  EXPECT_EQ(ErrorInEps<float>({kNan, kInf, 1}, {kNan, kInf, 1}), 0);
  EXPECT_EQ(ErrorInEps<float>({kNan}, {1}), kInf);
  EXPECT_EQ(ErrorInEps<float>({1}, {kNan}), kInf);
  EXPECT_EQ(ErrorInEps<float>({-kInf}, {kInf}), kInf);
}

TEST(ErrorInEpsTest, DifferentLengthsHaveInfiniteError) { EXPECT_EQ(ErrorInEps<float>({1}, {1, 1}), kInf); }

TEST(ErrorInEpsTest, EmptyTensorsAgree) { EXPECT_EQ(ErrorInEps<float>({}, {}), 0); }

}  // namespace
}  // namespace cotan::testing
