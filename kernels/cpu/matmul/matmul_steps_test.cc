// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_steps.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using ::testing::ElementsAre;
using testing::HostTensor;
using testing::RunOp;

// Records the arguments of the product maker and computes nothing.
class NoProduct final : public Kernel {
 public:
  absl::Status Run(const KernelArgs&) override { return absl::OkStatus(); }
  static inline MatmulGeometry geometry;
  static inline Addend addend;
  static inline int made = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> Record(const MatmulGeometry& geometry, Addend addend, DType, int) {
  NoProduct::geometry = geometry;
  NoProduct::addend = addend;
  ++NoProduct::made;
  return std::make_unique<NoProduct>();
}

absl::StatusOr<std::unique_ptr<Kernel>> WithBias(const KernelRequest& request) {
  return MakeMatmulSteps(request, {Record, true});
}
absl::StatusOr<std::unique_ptr<Kernel>> WithoutBias(const KernelRequest& request) {
  return MakeMatmulSteps(request, {Record, false});
}

serialization::Op MatmulOp() {
  serialization::Op op;
  op.mutable_matmul();
  return op;
}

TEST(MatmulStepsTest, OperandWithoutADenseDimensionIsPacked) {
  HostTensor a(DType::kFloat32, StridedLayout{{2, 3}, {6, 2}, 0});
  a.SetValues(std::vector<double>(6, 0));
  HostTensor b(DType::kFloat32, {3, 4});
  HostTensor c(DType::kFloat32, {2, 4});
  ASSERT_TRUE(RunOp(WithBias, MatmulOp(), {&a, &b}, {&c}).ok());
  EXPECT_EQ(NoProduct::geometry.a.row, 3);
  EXPECT_EQ(NoProduct::geometry.a.column, 1);
}

TEST(MatmulStepsTest, OutputByColumnsSwapsTheOperands) {
  HostTensor a(DType::kFloat32, {2, 3});
  HostTensor b(DType::kFloat32, {3, 4});
  HostTensor c(DType::kFloat32, testing::DenseLayout({2, 4}, {1, 0}));
  ASSERT_TRUE(RunOp(WithBias, MatmulOp(), {&a, &b}, {&c}).ok());
  EXPECT_EQ(NoProduct::geometry.m, 4);
  EXPECT_EQ(NoProduct::geometry.a.column, 4);
}

TEST(MatmulStepsTest, BiasGoesThroughTheOutputWhereTheProductTakesNone) {
  HostTensor a(DType::kFloat32, {2, 3});
  HostTensor b(DType::kFloat32, {3, 2});
  HostTensor bias(DType::kFloat32, {2}, {7, 8});
  HostTensor c(DType::kFloat32, {2, 2});
  ASSERT_TRUE(RunOp(WithBias, MatmulOp(), {&a, &b, &bias}, {&c}).ok());
  EXPECT_EQ(NoProduct::addend, Addend::kBias);
  ASSERT_TRUE(RunOp(WithoutBias, MatmulOp(), {&a, &b, &bias}, {&c}).ok());
  EXPECT_EQ(NoProduct::addend, Addend::kInOutput);
  EXPECT_THAT(c.Values(), ElementsAre(7, 8, 7, 8));
}

TEST(MatmulStepsTest, SumOverNothingNeedsNoProduct) {
  HostTensor a(DType::kFloat32, {2, 0});
  HostTensor b(DType::kFloat32, {0, 1});
  HostTensor c(DType::kFloat32, {2, 1});
  const int before = NoProduct::made;
  ASSERT_TRUE(RunOp(WithBias, MatmulOp(), {&a, &b}, {&c}).ok());
  EXPECT_EQ(NoProduct::made, before);
  EXPECT_THAT(c.Values(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace cotan::cpu
