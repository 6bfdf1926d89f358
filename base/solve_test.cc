// SPDX-License-Identifier: Apache-2.0

#include "base/solve.h"

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(SolveTest, LinearExpressionsAreSolvedForTheirSymbol) {
  const SymInt s = SymInt::Symbol(3);
  const auto solved = SolveForSymbol(SymInt(2) * s + SymInt(1), 15);
  ASSERT_TRUE(solved.has_value());
  EXPECT_EQ(solved->symbol, 3);
  EXPECT_EQ(solved->value, 7);
  EXPECT_FALSE(SolveForSymbol(s * SymInt(2), 7).has_value());
  EXPECT_FALSE(SolveForSymbol(s * s, 9).has_value());
  EXPECT_FALSE(SolveForSymbol(SymInt(4), 4).has_value());
  EXPECT_FALSE(SolveForSymbol(SymInt::Binary(SymInt::Kind::kFloorDiv, s, 2), 3).has_value());
}

}  // namespace
}  // namespace cotan
