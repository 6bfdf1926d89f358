// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/copy/copy.h"

#include <random>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;
using testing::GapsAreUntouched;
using ::testing::HasSubstr;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

serialization::Op CopyOp() {
  serialization::Op op;
  op.mutable_copy();
  return op;
}

void ExpectCopied(DType dtype, const StridedLayout& from, const StridedLayout& to, std::mt19937_64& random,
                  int threads) {
  HostTensor source = RandomTensor(dtype, from, random, 0, 100);
  HostTensor target(dtype, to);
  ASSERT_TRUE(RunOp(MakeCopy, CopyOp(), {&source}, {&target}, threads).ok());
  EXPECT_TRUE(GapsAreUntouched(target)) << ToString(to);
  EXPECT_EQ(source.Values(), target.Values()) << ToString(from) << " to " << ToString(to);
}

TEST(CopyTest, CopiesBetweenRandomGeometries) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 400; ++i) {
    DimVector sizes(random() % 6);
    for (int64_t& size : sizes) size = random() % 7;
    const DType dtype = std::array{DType::kUInt8, DType::kFloat32, DType::kInt64}[random() % 3];
    ExpectCopied(dtype, RandomLayout(sizes, random, true, true), RandomLayout(sizes, random, random() % 2 == 0, false),
                 random, 1 + static_cast<int>(random() % 3));
  }
}

TEST(CopyTest, LargeCopiesAreSplitWithoutLoss) {
  std::mt19937_64 random(TestSeed());
  ExpectCopied(DType::kFloat32, DenseLayout({100003}), DenseLayout({100003}), random, 2);
  ExpectCopied(DType::kFloat32, DenseLayout({1003, 517}), DenseLayout({1003, 517}, {1, 0}), random, 2);
  ExpectCopied(DType::kFloat32, DenseLayout({3, 35, 70, 41}), DenseLayout({3, 35, 70, 41}, {0, 2, 3, 1}), random, 2);
  ExpectCopied(DType::kUInt8, StridedLayout{{70001}, {3}, 0}, DenseLayout({70001}), random, 2);
  ExpectCopied(DType::kFloat32, StridedLayout{{300, 300}, {0, 0}, 0}, DenseLayout({300, 300}), random, 2);
}

TEST(CopyTest, CopyOntoItselfChangesNothing) {
  HostTensor tensor(DType::kFloat32, {2}, {1, 2});
  ASSERT_TRUE(RunOp(MakeCopy, CopyOp(), {&tensor}, {&tensor}).ok());
  EXPECT_THAT(tensor.Values(), ::testing::ElementsAre(1, 2));
}

TEST(CopyTest, BroadcastRepeatsMissingDimensions) {
  HostTensor row = HostTensor(DType::kFloat32, {1, 2}, {1, 2});
  HostTensor target(DType::kFloat32, DenseLayout({2, 3, 2}));
  auto kernel = MakeBroadcastCopyKernel(4, row.layout(), target.layout(), 1);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  void* from = row.data();
  void* to = target.data();
  ASSERT_TRUE((*kernel)->Run({&from, &to, nullptr}).ok());
  EXPECT_THAT(target.Values(), ::testing::ElementsAre(1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2));
}

TEST(CopyTest, BroadcastOfOtherSizesIsRejected) {
  const auto kernel = MakeBroadcastCopyKernel(4, DenseLayout({3}), DenseLayout({2, 4}), 1);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(kernel.status().message(), HasSubstr("[3]{1} does not broadcast to [2,4]{4,1}"));
}

TEST(CopyTest, ZeroKernelClearsElementsAndNotGaps) {
  HostTensor target(DType::kFloat32, StridedLayout{{2, 3}, {5, 1}, 0});
  void* to = target.data();
  ASSERT_TRUE(MakeZeroKernel(4, target.layout(), 1)->Run({nullptr, &to, nullptr}).ok());
  EXPECT_THAT(target.Values(), ::testing::Each(0));
  EXPECT_TRUE(GapsAreUntouched(target));
}

TEST(CopyTest, OtherSizesOrDtypesAreRejected) {
  HostTensor from(DType::kFloat32, DenseLayout({2, 3}));
  HostTensor to(DType::kFloat32, DenseLayout({3, 2}));
  HostTensor whole(DType::kInt32, DenseLayout({2, 3}));
  EXPECT_THAT(RunOp(MakeCopy, CopyOp(), {&from}, {&to}).message(), HasSubstr("copy: the output is f32[3,2]"));
  EXPECT_THAT(RunOp(MakeCopy, CopyOp(), {&from}, {&whole}).message(), HasSubstr("copy: the output is i32[2,3]"));
}

}  // namespace
}  // namespace cotan::cpu
