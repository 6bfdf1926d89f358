// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/linked_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using Records = std::vector<std::vector<int64_t>>;

TEST(SizePatternTest, NumbersThatNeverChangedAreConstants) {
  const SizePattern pattern = SizePattern::Of(Records{{10, 4, 10}, {20, 4, 20}});
  EXPECT_EQ(pattern.sizes[0], SymInt::Symbol(0));
  EXPECT_EQ(pattern.sizes[1], SymInt(4));
  EXPECT_EQ(pattern.sizes[2], SymInt::Symbol(0));
  EXPECT_THAT(pattern.symbols, ElementsAre(20));
}

TEST(SizePatternTest, NumbersThatWereEqualOnlySometimesHaveTheirOwnSymbols) {
  const SizePattern pattern = SizePattern::Of(Records{{10, 10}, {11, 10}, {12, 11}});
  EXPECT_EQ(pattern.sizes[0], SymInt::Symbol(0));
  EXPECT_EQ(pattern.sizes[1], SymInt::Symbol(1));
  EXPECT_THAT(pattern.symbols, ElementsAre(12, 11));
}

TEST(SizePatternTest, OneRecordHasNoSymbols) { EXPECT_TRUE(SizePattern::Of(Records{{10, 10}}).symbols.empty()); }

TEST(SizePatternTest, MatchesInstancesOnly) {
  const SizePattern pattern = SizePattern::Of(Records{{10, 4, 10}, {20, 4, 20}});
  std::vector<int64_t> values;
  EXPECT_TRUE(pattern.Match({30, 4, 30}, values));
  EXPECT_THAT(values, ElementsAre(30));
  EXPECT_FALSE(pattern.Match({30, 5, 30}, values));
  EXPECT_FALSE(pattern.Match({30, 4, 31}, values));
}

}  // namespace
}  // namespace cotan
