// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/special_functions.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(SpecialFunctionsTest, ErfInvUndoesErf) {
  for (double x = -0.999; x < 1; x += 0.037) EXPECT_NEAR(std::erf(ErfInv(x)), x, 2e-16);
  EXPECT_EQ(ErfInv(0), 0);
  EXPECT_NEAR(ErfInv(1e-300), 8.862269254527581e-301, 1e-315);
  EXPECT_NEAR(ErfInv(1e-7), 8.862269254527604e-8, 1e-22);
  EXPECT_EQ(ErfInv(-1), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(ErfInv(1.5)));
}

TEST(SpecialFunctionsTest, DigammaFollowsItsRecurrence) {
  EXPECT_NEAR(Digamma(1), -0.5772156649015329, 4e-15);
  for (double x = -3.3; x < 20; x += 0.7) EXPECT_NEAR(Digamma(x + 1), Digamma(x) + 1 / x, 1e-12);
  EXPECT_TRUE(std::isnan(Digamma(-2)));
  EXPECT_EQ(Digamma(0.0), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace cotan
