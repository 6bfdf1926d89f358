// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/pool_geometry.h"

#include "gtest/gtest.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;

TEST(PoolGeometryTest, WindowsAreCutAtTheInput) {
  PoolAxis axis;
  axis.input = 5;
  axis.kernel = 3;
  axis.step = 2;
  axis.padding = 1;
  EXPECT_EQ(axis.Window(0).origin, -1);
  EXPECT_EQ(axis.Window(0).begin, 1);
  EXPECT_EQ(axis.Window(0).end, 3);
  EXPECT_EQ(axis.Window(2).end, 2);
  EXPECT_EQ(axis.PaddedSize(2), 3);
  EXPECT_EQ(axis.PaddedSize(3), 1);
}

TEST(PoolGeometryTest, DilatedWindowInThePaddingIsEmpty) {
  PoolAxis axis;
  axis.input = 1;
  axis.kernel = 2;
  axis.dilation = 2;
  axis.padding = 1;
  EXPECT_EQ(axis.Window(0).begin, axis.Window(0).end);
}

TEST(PoolGeometryTest, DenseChannelsAreLanes) {
  serialization::Pool op;
  for (int d = 0; d < 2; ++d) {
    op.add_kernel(2);
    op.add_stride(2);
    op.add_padding(0);
  }
  const DimVector last = {0, 2, 3, 1};
  const StridedLayout output = DenseLayout({3, 8, 2, 2}, last);
  const PoolGeometry geometry(op, DenseLayout({3, 8, 4, 4}, last), output, output);
  EXPECT_EQ(geometry.lanes.size, 8);
  EXPECT_TRUE(geometry.WindowsTile());
  EXPECT_EQ(geometry.axes[2].windows[1].origin, 2);
  const PoolGeometry uncovered(op, DenseLayout({3, 8, 5, 5}, last), output, output);
  EXPECT_TRUE(uncovered.WindowsAreDisjoint());
  EXPECT_FALSE(uncovered.WindowsTile());
  EXPECT_EQ(geometry.OuterCount(), 3);
  EXPECT_EQ(geometry.OuterOffsets(2).input, 2 * 8 * 16);
  EXPECT_EQ(geometry.OutputCount(), 3 * 8 * 4);
  EXPECT_EQ(geometry.Work(), 3 * 8 * 4 * 4);
  const StridedLayout rows = DenseLayout({3, 8, 2, 2});
  EXPECT_EQ(PoolGeometry(op, DenseLayout({3, 8, 4, 4}), rows, rows).lanes.size, 1);
}

TEST(PoolGeometryTest, EmptyBatchIsNoLane) {
  serialization::Pool op;
  op.add_kernel(1);
  op.add_stride(1);
  op.add_padding(0);
  const StridedLayout empty{{70, 0, 4}, {1, 1, 70}, 0};
  EXPECT_EQ(PoolGeometry(op, empty, empty, empty).OutputCount(), 0);
}

}  // namespace
}  // namespace cotan::cpu
