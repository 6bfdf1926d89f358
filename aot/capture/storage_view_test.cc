// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/storage_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StridedLayout Layout(DimVector sizes, DimVector strides, int64_t offset) {
  StridedLayout layout;
  layout.sizes = std::move(sizes);
  layout.strides = std::move(strides);
  layout.offset = offset;
  return layout;
}

TEST(StorageViewTest, OfRowMajorTensorsOnlyTheOffsetMoves) {
  const auto view = ToStorageView(Layout({2, 3}, {3, 1}, 6), Layout({2, 2}, {1, 2}, 7));
  ASSERT_TRUE(view.has_value());
  EXPECT_THAT(view->order, IsEmpty());
  EXPECT_THAT(view->strides, ElementsAre(1, 2));
  EXPECT_EQ(view->offset, 1);
}

TEST(StorageViewTest, PermutedTensorsAreReadInMemoryOrder) {
  const auto view = ToStorageView(Layout({4, 1, 3}, {1, 9, 4}, 0), Layout({2}, {4}, 5));
  ASSERT_TRUE(view.has_value());
  EXPECT_THAT(view->order, ElementsAre(1, 2, 0));
  EXPECT_THAT(view->strides, ElementsAre(4));
  EXPECT_EQ(view->offset, 5);
}

TEST(StorageViewTest, GapsHaveNoElements) {
  // Columns 1 and 2 of a [3, 4] tensor; its column 2.
  const auto column = ToStorageView(Layout({3, 2}, {4, 1}, 1), Layout({3}, {4}, 2));
  ASSERT_TRUE(column.has_value());
  EXPECT_THAT(column->strides, ElementsAre(2));
  EXPECT_EQ(column->offset, 1);
  const auto row = ToStorageView(Layout({3, 2}, {4, 1}, 1), Layout({1, 2}, {4, 1}, 9));
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->offset, 4);
  const auto every_other = ToStorageView(Layout({4}, {2}, 1), Layout({2}, {4}, 3));
  ASSERT_TRUE(every_other.has_value());
  EXPECT_THAT(every_other->strides, ElementsAre(2));
  EXPECT_EQ(every_other->offset, 1);
}

TEST(StorageViewTest, WhatLiesOutsideTheTensorIsNotToldOfItsElements) {
  EXPECT_FALSE(ToStorageView(Layout({2, 3}, {3, 1}, 6), Layout({2}, {1}, 5)).has_value());  // before
  EXPECT_FALSE(ToStorageView(Layout({2, 3}, {3, 1}, 0), Layout({2}, {1}, 5)).has_value());  // after
  EXPECT_FALSE(ToStorageView(Layout({3, 2}, {4, 1}, 0), Layout({2}, {1}, 1)).has_value());  // a gap
  EXPECT_FALSE(ToStorageView(Layout({4}, {2}, 0), Layout({2}, {1}, 0)).has_value());        // between two elements
  EXPECT_FALSE(ToStorageView(Layout({2, 3}, {0, 1}, 0), Layout({3}, {1}, 0)).has_value());  // expanded
  EXPECT_TRUE(ToStorageView(Layout({0}, {1}, 0), Layout({0, 2}, {2, 1}, 0)).has_value());   // no elements
}

TEST(StorageViewTest, PositionsAreThoseOfTheElementsInRowMajorOrder) {
  // Elements at 1, 4, 2 and 5.
  EXPECT_THAT(ToPositions(Layout({2, 2}, {1, 3}, 1), Layout({2}, {1}, 4)).value(), ElementsAre(1, 3));
  EXPECT_THAT(ToPositions(Layout({2, 2}, {1, 3}, 1), Layout({2, 2}, {3, 0}, 1)).value(), ElementsAre(0, 0, 1, 1));
  EXPECT_FALSE(ToPositions(Layout({2, 2}, {1, 3}, 1), Layout({2}, {2}, 1)).has_value());  // a gap
  EXPECT_FALSE(ToPositions(Layout({2, 2}, {0, 1}, 0), Layout({1}, {1}, 0)).has_value());  // expanded
}

}  // namespace
}  // namespace cotan::aot
