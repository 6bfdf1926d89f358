// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_geometry.h"

#include <array>

#include "gtest/gtest.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;

MatmulGeometry Analyze(const StridedLayout& a, const StridedLayout& b, const StridedLayout& c) {
  serialization::Op op;
  op.mutable_matmul();
  const std::array inputs = {TensorSpec{DType::kFloat32, a}, TensorSpec{DType::kFloat32, b}};
  const std::array outputs = {TensorSpec{DType::kFloat32, c}};
  const auto geometry = AnalyzeMatmul({op, inputs, outputs, {}, 1, nullptr});
  EXPECT_TRUE(geometry.ok()) << geometry.status();
  return geometry.value_or(MatmulGeometry{});
}

TEST(MatmulGeometryTest, BatchOverOneRightMatrixBecomesRows) {
  const MatmulGeometry geometry = Analyze(DenseLayout({2, 3, 4, 5}), DenseLayout({5, 6}), DenseLayout({2, 3, 4, 6}));
  EXPECT_TRUE(geometry.batch.empty());
  EXPECT_EQ(geometry.m, 24);
  EXPECT_EQ(geometry.Flops(), 2.0 * 24 * 5 * 6);
}

TEST(MatmulGeometryTest, BatchOfRowsBecomesAMatrix) {
  const MatmulGeometry geometry = Analyze({{8, 1, 5}, {7, 7, 1}, 0}, DenseLayout({1, 5, 6}), DenseLayout({8, 1, 6}));
  EXPECT_TRUE(geometry.batch.empty());
  EXPECT_EQ(geometry.m, 8);
  EXPECT_EQ(geometry.a.row, 7);
}

TEST(MatmulGeometryTest, BatchOfRowsWithGapsStaysABatch) {
  const MatmulGeometry geometry = Analyze(DenseLayout({8, 1, 5}), DenseLayout({1, 5, 6}), {{8, 1, 6}, {18, 18, 3}, 0});
  EXPECT_EQ(geometry.batch.size(), 1U);
  EXPECT_EQ(geometry.m, 1);
}

TEST(MatmulGeometryTest, DenseBatchDimensionsMerge) {
  const MatmulGeometry geometry =
      Analyze(DenseLayout({2, 3, 4, 5}), DenseLayout({2, 3, 5, 6}), DenseLayout({2, 3, 4, 6}));
  ASSERT_EQ(geometry.batch.size(), 1U);
  EXPECT_EQ(geometry.batch[0].size, 6);
  EXPECT_EQ(geometry.batch[0].b, 30);
}

TEST(MatmulGeometryTest, RepeatedProductsStayABatch) {
  const MatmulGeometry geometry = Analyze({{3, 4, 5}, {0, 0, 1}, 0}, {{3, 5, 6}, {0, 6, 1}, 0}, DenseLayout({3, 4, 6}));
  EXPECT_EQ(geometry.batch.size(), 1U);
}

TEST(MatmulGeometryTest, RepeatedLeftMatrixStaysABatch) {
  const MatmulGeometry geometry = Analyze(DenseLayout({1, 4, 5}), DenseLayout({3, 5, 6}), DenseLayout({3, 4, 6}));
  ASSERT_EQ(geometry.batch.size(), 1U);
  EXPECT_EQ(geometry.batch[0].a, 0);
}

}  // namespace
}  // namespace cotan::cpu
