// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/copy/nested_layout.h"

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

TEST(NestedLayoutTest, DenseAndPaddedTensorsInAnyOrderOfDimensionsAreNested) {
  EXPECT_TRUE(IsNested({{}, {}, 0}));
  EXPECT_TRUE(IsNested({{2, 3, 4}, {12, 4, 1}, 0}));
  EXPECT_TRUE(IsNested({{2, 3, 4}, {12, 1, 3}, 0}));
  EXPECT_TRUE(IsNested({{2, 3}, {8, 2}, 0}));
}

TEST(NestedLayoutTest, OverlappingAndInterleavedDimensionsAreNot) {
  EXPECT_FALSE(IsNested({{3, 4}, {1, 1}, 0}));
  EXPECT_FALSE(IsNested({{3, 4}, {2, 1}, 0}));
  EXPECT_FALSE(IsNested({{2, 3}, {3, 2}, 0}));
}

TEST(NestedLayoutTest, DimensionsOfOneElementOrRepeatedOnesDoNotCount) {
  EXPECT_TRUE(IsNested({{1, 4}, {1, 1}, 0}));
  EXPECT_TRUE(IsNested({{3, 4}, {0, 1}, 0}));
}

}  // namespace
}  // namespace cotan::cpu
