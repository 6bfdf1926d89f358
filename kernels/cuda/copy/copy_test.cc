// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/copy.h"

#include <random>
#include <variant>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/copy/byte_tensor.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::TestSeed;
using testing::AllBytes;
using ::testing::HasSubstr;
using testing::kAllDTypes;
using testing::RandomBytes;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

serialization::Op CopyOp() {
  serialization::Op op;
  op.mutable_copy();
  return op;
}

RunResult ExpectCopied(DType dtype, const StridedLayout& from, const StridedLayout& to, std::mt19937_64& random,
                       const RunOptions& options = {}) {
  HostTensor source = RandomBytes(dtype, from, random);
  HostTensor target(dtype, to);
  const absl::StatusOr<RunResult> result = RunPlan(PlanCopy, CopyOp(), {&source}, {&target}, options);
  EXPECT_TRUE(result.ok()) << result.status() << " " << ToString(from) << " to " << ToString(to);
  EXPECT_EQ(AllBytes(source), AllBytes(target)) << DTypeName(dtype) << ToString(from) << " to " << ToString(to);
  return result.ok() ? *result : RunResult{};
}

TEST(CudaCopyTest, CopiesBetweenRandomGeometries) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 100; ++i) {
    DimVector sizes(random() % 6);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 7);
    ExpectCopied(kAllDTypes[random() % 12], RandomLayout(sizes, random, true, true),
                 RandomLayout(sizes, random, random() % 2 == 0, false), random,
                 {.guarded_outputs = random() % 2 == 0, .seed = random()});
  }
}

TEST(CudaCopyTest, TransposesAllElementSizes) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : kAllDTypes) {
    ExpectCopied(dtype, DenseLayout({3, 37, 70}), DenseLayout({3, 37, 70}, {0, 2, 1}), random, {.seed = 5});
    ExpectCopied(dtype, DenseLayout({2, 9, 5, 7}), DenseLayout({2, 9, 5, 7}, {0, 2, 3, 1}), random);
    ExpectCopied(dtype, DenseLayout({40, 33}, {1, 0}), StridedLayout{{40, 33}, {70, 2}, 0}, random);
  }
}

TEST(CudaCopyTest, DenseOperandsAreCopiedAsBytes) {
  std::mt19937_64 random(TestSeed());
  const StridedLayout layout = DenseLayout({3, 5, 7}, {2, 0, 1});
  const TensorSpec spec = {DType::kFloat32, layout};
  const serialization::Op op = CopyOp();
  const absl::StatusOr<KernelPlan> plan =
      PlanCopy({.op = op, .inputs = {&spec, 1}, .outputs = {&spec, 1}, .symbols = {}});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->steps.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<MemoryCopy>(plan->steps[0]));
  ExpectCopied(DType::kComplex128, layout, layout, random);
}

TEST(CudaCopyTest, GuardedDenseCopiesLoadVectors) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : kAllDTypes) {
    for (const int64_t count : {1, 3, 17, 1000, 4099}) {
      const RunResult result =
          ExpectCopied(dtype, DenseLayout({count}), DenseLayout({count}), random, {.guarded_outputs = true});
      const auto bytes = static_cast<uint64_t>(count) * ByteSize(dtype);
      EXPECT_EQ(result.counters.global_store_bytes, bytes);
      EXPECT_LE(result.counters.global_store_sectors * 32, bytes + 64);
    }
  }
}

TEST(CudaCopyTest, SourcesAndTargetsAreAccessedOnce) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const DimVector& order : {DimVector{0, 1, 2}, DimVector{0, 2, 1}, DimVector{1, 0, 2}, DimVector{1, 2, 0}}) {
      // Sizes of many and of three channels.
      for (const DimVector& sizes : {DimVector{32, 48, 64}, DimVector{8, 3, 640}}) {
        for (const bool is_target : {false, true}) {
          const StridedLayout rows = DenseLayout(sizes);
          const StridedLayout other = DenseLayout(sizes, order);
          const RunResult result = ExpectCopied(dtype, is_target ? rows : other, is_target ? other : rows, random,
                                                {.guarded_outputs = true});
          const uint64_t bytes = static_cast<uint64_t>(NumElements(sizes)) * ByteSize(dtype);
          EXPECT_LE(result.counters.global_load_sectors * 32, bytes * 5 / 4) << ToString(other) << is_target;
          EXPECT_LE(result.counters.global_store_sectors * 32, bytes * 5 / 4) << ToString(other) << is_target;
          EXPECT_LE(result.counters.shared_bank_conflicts, 2 * result.counters.shared_accesses);
        }
      }
    }
  }
}

TEST(CudaCopyTest, LargeOperandsHaveSeveralElementsPerThread) {
  std::mt19937_64 random(TestSeed());
  const RunOptions guarded = {.guarded_outputs = true, .seed = 3};
  ExpectCopied(DType::kUInt8, StridedLayout{{300001}, {2}, 0}, DenseLayout({300001}), random, guarded);
  ExpectCopied(DType::kFloat64, DenseLayout({600003}), DenseLayout({600003}), random, guarded);
}

TEST(CudaCopyTest, CopyOntoItselfChangesNothing) {
  std::mt19937_64 random(TestSeed());
  for (const StridedLayout& layout : {DenseLayout({6, 7}), StridedLayout{{6, 7}, {2, 20}, 0}}) {
    for (const bool guarded : {false, true}) {
      HostTensor tensor = RandomBytes(DType::kFloat32, layout, random);
      const std::string before = AllBytes(tensor);
      const auto result = RunPlan(PlanCopy, CopyOp(), {&tensor}, {&tensor}, {.guarded_outputs = guarded});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(AllBytes(tensor), before);
    }
  }
}

TEST(CudaCopyTest, GuardedTargetsAreKeptAfterAnError) {
  std::mt19937_64 random(TestSeed());
  for (const StridedLayout& to : {DenseLayout({9, 16}), DenseLayout({9, 16}, {1, 0})}) {
    HostTensor source = RandomBytes(DType::kFloat32, DenseLayout({9, 16}), random);
    HostTensor target(DType::kFloat32, to);
    const std::string before = AllBytes(target);
    const auto result =
        RunPlan(PlanCopy, CopyOp(), {&source}, {&target}, {.guarded_outputs = true, .failed_before = true});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(AllBytes(target), before);
  }
}

TEST(CudaCopyTest, MisalignedPointersAreCopiedElementByElement) {
  std::mt19937_64 random(TestSeed());
  HostTensor source = RandomBytes(DType::kFloat32, DenseLayout({1001}), random);
  HostTensor target(DType::kFloat32, DenseLayout({1000}));
  const auto plan_of_part = [](const KernelRequest& request) -> absl::StatusOr<KernelPlan> {
    KernelPlan plan;
    CopyOperand from = {InputArgument(0), request.outputs[0].layout};
    from.argument.offset = 4;
    const absl::Status status = AppendCopy(4, from, {OutputArgument(0), request.outputs[0].layout}, true, plan);
    if (!status.ok()) return status;
    return plan;
  };
  const auto result = RunPlan(plan_of_part, CopyOp(), {&source}, {&target}, {.guarded_outputs = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(AllBytes(target), AllBytes(source).substr(4));
}

TEST(CudaCopyTest, OperandsBeyondTwoToThe31HaveWideIndices) {
  const TensorSpec input = {DType::kUInt8, {{3, int64_t{1} << 31}, {1, 3}, 0}};
  const TensorSpec output = {DType::kUInt8, {{3, int64_t{1} << 31}, {int64_t{1} << 31, 1}, 0}};
  const serialization::Op op = CopyOp();
  const absl::StatusOr<KernelPlan> plan =
      PlanCopy({.op = op, .inputs = {&input, 1}, .outputs = {&output, 1}, .symbols = {}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(std::get<KernelLaunch>(plan->steps[0]).source.text, HasSubstr("uint8, cotan::uint64"));
}

TEST(CudaCopyTest, OtherSizesAreRejected) {
  HostTensor source(DType::kFloat32, {2, 3});
  HostTensor target(DType::kFloat32, {3, 2});
  EXPECT_EQ(RunPlan(PlanCopy, CopyOp(), {&source}, {&target}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda
