// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/flag_condition.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

constexpr ValueId kA = 1, kB = 2, kC = 3, kD = 4;
const std::vector<FlagSet>& Groups() {
  static const auto* const groups = new std::vector<FlagSet>{{kA, kB}, {kC, kD}};
  return *groups;
}

FlagCondition Or(const FlagCondition& a, const FlagCondition& b) { return Either(a, b, Groups()); }
FlagCondition And(const FlagCondition& a, const FlagCondition& b) { return Both(a, b, Groups()); }
FlagCondition Is(ValueId flag) { return AllOf(FlagSet{flag}); }

TEST(FlagConditionTest, ImplicationsAreThoseOfLogic) {
  EXPECT_TRUE(Implies(Is(kA), Always()));
  EXPECT_FALSE(Implies(Always(), Is(kA)));
  EXPECT_TRUE(Implies(Is(kA), Or(Is(kA), Is(kC))));
  EXPECT_FALSE(Implies(Or(Is(kA), Is(kC)), Is(kA)));
  EXPECT_TRUE(Implies(And(Is(kA), Is(kC)), Is(kA)));
}

TEST(FlagConditionTest, SetsThatContainOthersAreDropped) {
  EXPECT_THAT(Or(And(Is(kA), Is(kC)), Is(kC)), ElementsAre(FlagSet{kC}));
  EXPECT_THAT(And(Or(Is(kA), Is(kC)), Is(kC)), ElementsAre(FlagSet{kC}));
  EXPECT_THAT(And(Or(Is(kA), Is(kC)), Is(kB)), ElementsAre(FlagSet{kA, kB}, FlagSet{kB, kC}));
}

TEST(FlagConditionTest, AFlagOfEachGroupIsTrue) {
  EXPECT_EQ(Or(Is(kA), Is(kB)), Always());
  EXPECT_EQ(Or(And(Is(kA), Is(kC)), And(Is(kB), Is(kC))), Is(kC));
  EXPECT_THAT(Or(Is(kA), Is(kC)), ElementsAre(FlagSet{kA}, FlagSet{kC}));
  EXPECT_THAT(Or(And(Is(kA), Is(kC)), Is(kD)), ElementsAre(FlagSet{kA}, FlagSet{kD}));
}

TEST(FlagConditionTest, ARestrictionTakesOtherFlagsAsTrue) {
  EXPECT_EQ(RestrictedTo({kA, kB}, And(Is(kA), Is(kC))), Is(kA));
  EXPECT_EQ(RestrictedTo({kA, kB}, Is(kC)), Always());
}

}  // namespace
}  // namespace cotan::aot
