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

TEST(SizePatternTest, GuardsFixSymbols) {
  SizePattern pattern = SizePattern::OfSymbols({10, 1, 4, 10, 30, 10});
  ASSERT_EQ(pattern.symbols.size(), 5);
  serialization::LinkedBackward linked;
  const auto guard = [&](std::string a, std::string b, bool equal) {
    serialization::SizeGuard& added = *linked.add_guards();
    added.set_a(std::move(a));
    added.set_b(std::move(b));
    added.set_equal(equal);
  };
  guard("s0", "s2", true);
  guard("4", "s1", true);
  guard("s3", "(s0 * 3)", true);
  guard("s4", "s1", false);
  ASSERT_EQ(*pattern.Unify(linked), true);
  EXPECT_THAT(pattern.sizes, ElementsAre(SymInt::Symbol(0), SymInt(1), SymInt(4), SymInt::Symbol(0), SymInt::Symbol(1),
                                         SymInt::Symbol(2)));
  EXPECT_THAT(pattern.symbols, ElementsAre(10, 30, 10));
  linked.clear_guards();
  EXPECT_EQ(*pattern.Unify(linked), false);
}

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
