// SPDX-License-Identifier: Apache-2.0

#include "base/layout.h"

#include <limits>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(LayoutTest, NumElementsRefusesOverflowAndNegativeSizes) {
  EXPECT_EQ(CheckedNumElements({2, 3}), 6);
  EXPECT_EQ(CheckedNumElements({}), 1);
  EXPECT_EQ(CheckedNumElements({2, -1}), -1);
  EXPECT_EQ(CheckedNumElements({std::numeric_limits<int64_t>::max(), 2}), -1);
  EXPECT_EQ(CheckedNumElements({std::numeric_limits<int64_t>::max(), 0, 2}), -1);
  EXPECT_EQ(CheckedNumElements({0, 5}), 0);
}

TEST(LayoutTest, ChannelsLastIsDenseButNotContiguous) {
  const StridedLayout layout{{2, 3, 4, 5}, DenseStrides({2, 3, 4, 5}, {0, 2, 3, 1})};
  EXPECT_EQ(layout.strides, (DimVector{60, 1, 15, 3}));
  EXPECT_FALSE(IsContiguous(layout));
  EXPECT_TRUE(IsDenseNonOverlapping(layout));
  EXPECT_EQ(StorageExtent(layout), 120);
}

TEST(LayoutTest, StrideOfSizeOneDoesNotMatter) {
  EXPECT_TRUE(IsContiguous({{1, 3}, {99, 1}}));
  EXPECT_TRUE(IsDenseNonOverlapping({{3, 1}, {1, 99}}));
}

TEST(LayoutTest, ExpandedAndGappedAreNotDense) {
  EXPECT_FALSE(IsDenseNonOverlapping({{2, 3}, {0, 1}}));
  EXPECT_FALSE(IsDenseNonOverlapping({{2, 3}, {4, 1}}));
  EXPECT_EQ(StorageExtent({{2, 3}, {4, 1}, 1}), 8);
}

TEST(LayoutTest, EmptyTensorTouchesNothing) {
  EXPECT_EQ(StorageExtent({{0, 3}, {3, 1}, 5}), 0);
  EXPECT_TRUE(IsContiguous({{0, 3}, {7, 9}}));
}

TEST(LayoutTest, PrintsSizesStridesAndOffset) {
  EXPECT_EQ(ToString({{2, 3}, {3, 1}}), "[2,3]{3,1}");
  EXPECT_EQ(ToString({{2}, {2}, 4}), "[2]{2}+4");
}

}  // namespace
}  // namespace cotan
