// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/random_slices.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

const std::vector<DimVector> kPoints = {{11}, {14}, {13}};

// Returns a draw of `width` numbers for each of the sizes, after `before` blocks.
Draw DrawOf(int64_t width, const std::vector<int64_t>& before) {
  Draw draw;
  for (size_t k = 0; k < kPoints.size(); ++k) {
    draw.slice.push_back(before[k]);
    draw.count.push_back(width * kPoints[k][0]);
  }
  return draw;
}

TEST(RandomSlicesTest, SlicesAreSumsOfBlocks) {
  const std::vector<SymInt> slices =
      SlicesOf({DrawOf(5, {0, 0, 0}), DrawOf(8, {14, 18, 17}), DrawOf(5, {0, 0, 0})}, SizeFitter(kPoints));
  ASSERT_EQ(slices.size(), 2u);
  for (int64_t n = 1; n < 30; ++n) {
    EXPECT_EQ(*slices[0].Evaluate({n}), (5 * n + 3) / 4);
    EXPECT_EQ(*slices[1].Evaluate({n}), (5 * n + 3) / 4 + 2 * n);
  }
}

TEST(RandomSlicesTest, WholeBlocksAreMultiples) {
  const std::vector<SymInt> slices = SlicesOf({DrawOf(8, {0, 0, 0}), DrawOf(4, {22, 28, 26})}, SizeFitter(kPoints));
  EXPECT_THAT(slices, ::testing::ElementsAre(SymInt::Symbol(0) * SymInt(2), SymInt::Symbol(0) * SymInt(3)));
}

TEST(RandomSlicesTest, AGapEndsThem) {
  EXPECT_EQ(SlicesOf({DrawOf(8, {0, 0, 0}), DrawOf(4, {50, 60, 70})}, SizeFitter(kPoints)).size(), 1u);
}

}  // namespace
}  // namespace cotan::aot
