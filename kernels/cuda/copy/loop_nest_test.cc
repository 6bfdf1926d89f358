// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/loop_nest.h"

#include <limits>

#include "gtest/gtest.h"

namespace cotan::cuda {
namespace {

constexpr size_t kBoth[] = {0, 1};

LoopNest Nest(const DimVector& sizes, const DimVector& a, const DimVector& b) { return LoopNest(sizes, {a, b}); }

TEST(LoopNestTest, DimensionsThatAreOneAreJoined) {
  LoopNest nest = Nest({2, 3, 1, 4}, {12, 4, 99, 1}, {24, 8, 5, 2});
  nest.Simplify(1);
  EXPECT_EQ(nest.Text(), "cotan::Dims<cotan::Dim<24, 1, 2>>");
  EXPECT_EQ(nest.count(), 24);
  EXPECT_EQ(nest.Extent(1), 47);
}

TEST(LoopNestTest, LoopsAreOrderedByTheOperand) {
  LoopNest nest = Nest({2, 3}, {3, 1}, {1, 2});
  nest.Simplify(1);
  EXPECT_EQ(nest.Text(), "cotan::Dims<cotan::Dim<2, 3, 1>, cotan::Dim<3, 1, 2>>");
}

TEST(LoopNestTest, ExpandedDimensionsStaySeparate) {
  LoopNest nest = Nest({2, 3}, {0, 1}, {3, 1});
  nest.Simplify(1);
  EXPECT_EQ(nest.dims().size(), 2u);
}

TEST(LoopNestTest, VectorsNeedDivisibleSizesAndStrides) {
  EXPECT_EQ(Nest({2, 8}, {8, 1}, {16, 1}).VectorSize(kBoth, 16), 8);
  EXPECT_EQ(Nest({2, 8}, {8, 1}, {16, 1}).VectorSize(kBoth, 4), 4);
  EXPECT_EQ(Nest({2, 6}, {8, 1}, {16, 1}).VectorSize(kBoth, 4), 2);
  EXPECT_EQ(Nest({2, 8}, {9, 1}, {16, 1}).VectorSize(kBoth, 4), 1);
  EXPECT_EQ(Nest({2, 8}, {8, 2}, {16, 1}).VectorSize(kBoth, 4), 1);
  EXPECT_EQ(Nest({}, {}, {}).VectorSize(kBoth, 4), 1);
  const size_t first[] = {0};
  EXPECT_EQ(Nest({2, 8}, {8, 1}, {1, 0}).VectorSize(first, 4), 4);
  EXPECT_EQ(Nest({2, 8}, {8, 1}, {8, 3}).VectorSize(first, 4), 4);
}

TEST(LoopNestTest, NestOfVectorsCountsVectors) {
  EXPECT_EQ(Nest({2, 8}, {8, 1}, {16, 1}).OfVectors(kBoth, 4).Text(),
            "cotan::Dims<cotan::Dim<2, 1, 1>, cotan::Dim<2, 2, 4>>");
  EXPECT_EQ(Nest({2, 4}, {8, 1}, {16, 1}).OfVectors(kBoth, 4).Text(), "cotan::Dims<cotan::Dim<2, 2, 4>>");
}

TEST(LoopNestTest, IndicesBeyondThirtyOneBitsAreWide) {
  EXPECT_EQ(IndexTypeFor(int64_t{1} << 30), "cotan::uint32");
  EXPECT_EQ(IndexTypeFor(int64_t{1} << 31), "cotan::uint64");
}

TEST(LoopNestTest, LiteralOfTheLowestNumberCompiles) {
  EXPECT_EQ(Literal(-3), "-3LL");
  EXPECT_EQ(Literal(std::numeric_limits<int64_t>::min()), "(-9223372036854775807LL - 1)");
}

}  // namespace
}  // namespace cotan::cuda
