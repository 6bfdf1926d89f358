// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/size_estimate.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(SizeEstimateTest, ConstantsAreThemselvesAndSymbolsAreOfMiddlingSize) {
  EXPECT_EQ(EstimatedSize(11), 11);
  EXPECT_EQ(EstimatedCount({SymInt(3), SymInt(5)}), 15);
  EXPECT_EQ(EstimatedCount({}), 1);
  EXPECT_EQ(EstimatedCount({SymInt::Symbol(0), SymInt(2)}), 128);
  EXPECT_EQ(EstimatedCount({SymInt(0), SymInt(2)}), 0);
}

TEST(SizeEstimateTest, MultiplesOfATracedSizeCountAsUsual) {
  {
    const UsualSizesScope scope({{11, 32}, {13, 100}});
    ASSERT_EQ(CurrentUsualSizes().size(), 2u);
    EXPECT_EQ(CurrentUsualSizes()[1].traced, 13);
    EXPECT_EQ(CurrentUsualSizes()[1].usual, 100);
    EXPECT_EQ(EstimatedSize(11), 32);
    EXPECT_EQ(EstimatedSize(22), 64);
    EXPECT_EQ(EstimatedSize(11 * 13), 3200);
    EXPECT_EQ(EstimatedSize(12), 12);
    EXPECT_EQ(EstimatedSize(0), 0);
  }
  EXPECT_TRUE(CurrentUsualSizes().empty());
  EXPECT_EQ(EstimatedSize(11), 11);
}

}  // namespace
}  // namespace cotan::aot
