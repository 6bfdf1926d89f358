// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/geometry.h"

#include "gtest/gtest.h"

namespace cotan::cpu::expr {
namespace {

std::vector<LoopDim> Order(DimVector sizes, std::vector<bool> reduced, std::vector<DimVector> strides) {
  std::vector<int> priority;
  for (size_t k = 0; k < strides.size(); ++k) priority.push_back(static_cast<int>(k));
  return OrderLoops(sizes, reduced, strides, priority);
}

TEST(GeometryTest, ContiguousDimensionsBecomeOne) {
  const auto dims = Order({2, 3, 4}, {false, false, false}, {{12, 4, 1}, {12, 4, 1}});
  ASSERT_EQ(dims.size(), 1u);
  EXPECT_EQ(dims[0].size, 24);
  EXPECT_EQ(dims[0].strides, (PerOperand{1, 1}));
}

TEST(GeometryTest, ChannelsLastIsWalkedInTheOrderOfMemory) {
  // [N, C, H, W] in NHWC, reduced over all but C.
  const auto dims = Order({2, 3, 4, 5}, {true, false, true, true}, {{60, 1, 15, 3}, {0, 1, 0, 0}});
  ASSERT_EQ(dims.size(), 2u);
  EXPECT_EQ(dims[0].size, 40);
  EXPECT_TRUE(dims[0].reduced);
  EXPECT_EQ(dims[1].size, 3);
  EXPECT_FALSE(dims[1].reduced);
}

TEST(GeometryTest, LongReductionsAreInnermost) {
  // An image of three channels, NHWC and row-major, reduced over all dimensions, and over all but the first.
  const std::vector<DimVector> strides = {{60, 1, 15, 3}, {60, 20, 5, 1}};
  const auto all = Order({2, 3, 4, 5}, {true, true, true, true}, strides);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all.back().strides, (PerOperand{3, 1}));
  const auto images = Order({2, 3, 4, 5}, {false, true, true, true}, strides);
  EXPECT_EQ(images.back().strides, (PerOperand{3, 1}));
  EXPECT_FALSE(images.front().reduced);
  const auto channels = Order({2, 3, 4, 5}, {false, true, false, false}, strides);
  EXPECT_EQ(channels.back().strides, (PerOperand{1, 20})) << "no other reduced dimension";
}

TEST(GeometryTest, BroadcastKeepsDimensionsApart) {
  const auto dims = Order({2, 3}, {false, false}, {{3, 1}, {0, 1}});
  ASSERT_EQ(dims.size(), 2u);
  EXPECT_EQ(dims[0].strides, (PerOperand{3, 0}));
}

TEST(GeometryTest, ShortRowsShareATile) {
  const std::vector<LoopDim> dims = {{100, false, {64, 1}}, {64, true, {1, 0}}};
  const Tiling tiling = MakeTiling(dims, 2, 1024);
  EXPECT_EQ(tiling.mode, TileMode::kRows);
  EXPECT_EQ(tiling.row_block, 16);
  EXPECT_EQ(tiling.col_block, 64);
  EXPECT_EQ(tiling.units, 7);
  EXPECT_EQ(tiling.chunks, 1);
  EXPECT_EQ(tiling.unit_width(), 16);
}

TEST(GeometryTest, LongRowsAreCutIntoChunks) {
  const std::vector<LoopDim> dims = {{3, false, {5000}}, {5000, true, {1}}};
  const Tiling tiling = MakeTiling(dims, 1, 1024);
  EXPECT_EQ(tiling.units, 3);
  EXPECT_EQ(tiling.chunks, 5);
  EXPECT_EQ(tiling.row_block, 1);
  EXPECT_EQ(tiling.col_block, 1024);
}

TEST(GeometryTest, ColumnsAreReducedOverRowsOfTiles) {
  const std::vector<LoopDim> dims = {{1000, true, {64}}, {64, false, {1}}};
  const Tiling tiling = MakeTiling(dims, 1, 1024);
  EXPECT_EQ(tiling.mode, TileMode::kColumns);
  EXPECT_EQ(tiling.units, 1);
  EXPECT_EQ(tiling.chunks, 63);
  EXPECT_EQ(tiling.unit_width(), 64);
}

TEST(GeometryTest, NoDimensionsAreOneTile) {
  const Tiling tiling = MakeTiling({}, 2, 1024);
  EXPECT_EQ(tiling.units, 1);
  EXPECT_EQ(tiling.chunks, 1);
  EXPECT_EQ(tiling.unit_width(), 1);
}

}  // namespace
}  // namespace cotan::cpu::expr
