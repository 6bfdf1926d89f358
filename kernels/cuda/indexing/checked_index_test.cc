// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/checked_index.h"

#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/indexing/checked_index.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda {
namespace {

using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using testing::RunOptions;
using testing::RunPlan;

Op CheckedIndexOp(const std::string& size, bool from_end = false) {
  Op op;
  op.mutable_checked_index()->set_size(size);
  op.mutable_checked_index()->set_from_end(from_end);
  return op;
}

// The CPU's kernel and the plan agree on the values, or on the error, which is returned.
absl::Status ExpectEqualsCpu(const Op& op, HostTensor& index, const StridedLayout& layout, const RunOptions& options) {
  HostTensor expected(index.dtype(), layout);
  HostTensor actual(index.dtype(), layout);
  const absl::Status error = RunOp(cpu::MakeCheckedIndex, op, {&index}, {&expected}, 1, options.symbols);
  const auto result = RunPlan(PlanCheckedIndex, op, {&index}, {&actual}, options);
  EXPECT_EQ(result.status(), error);
  if (error.ok()) {
    EXPECT_EQ(actual.Values(), expected.Values());
  }
  return error;
}

TEST(CudaCheckedIndexTest, RandomGeometriesEqualTheCpu) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 80; ++round) {
    DimVector sizes(random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 9);
    const bool from_end = random() % 2 == 0;
    Op op = CheckedIndexOp("(s0 + 3)", from_end);
    if (random() % 2 == 0) op.mutable_checked_index()->set_ignored(round % 4 == 0 ? -100 : 50);
    const std::vector<int64_t> symbols = {4};
    // Every fourth index has elements out of range.
    const double slack = round % 4 == 3 ? 1 : 0;
    HostTensor index =
        RandomTensor(random() % 2 == 0 ? DType::kInt32 : DType::kInt64,
                     RandomLayout(sizes, random, random() % 2 == 0, true), random, from_end ? -7.9 : 0, 7 + slack);
    if (op.checked_index().has_ignored() && index.numel() > 0) {
      std::vector<double> values = index.Values();
      values[random() % values.size()] = static_cast<double>(op.checked_index().ignored());
      index.SetValues(values);
    }
    const absl::Status error =
        ExpectEqualsCpu(op, index, RandomLayout(sizes, random, random() % 2 == 0, false),
                        {.symbols = symbols, .guarded_outputs = random() % 2 == 0, .seed = random()});
    if (slack == 0) {
      EXPECT_TRUE(error.ok()) << error;
    }
  }
}

TEST(CudaCheckedIndexTest, LowestPositionIsReportedForAnyOrderOfBlocks) {
  for (const bool guarded : {false, true}) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      HostTensor index(DType::kInt64, {30, 100});
      std::vector<double> values(3000, 1);
      for (size_t i = 1111; i < 3000; i += 7) values[i] = 5 + static_cast<double>(i);
      index.SetValues(values);
      EXPECT_FALSE(
          ExpectEqualsCpu(CheckedIndexOp("5"), index, index.layout(), {.guarded_outputs = guarded, .seed = seed}).ok());
    }
  }
}

TEST(CudaCheckedIndexTest, AnyIndexOfAnEmptyRangeIsAnError) {
  HostTensor index(DType::kInt32, {2}, {0, 0});
  EXPECT_FALSE(ExpectEqualsCpu(CheckedIndexOp("0"), index, index.layout(), {}).ok());
}

TEST(CudaCheckedIndexTest, GuardedOutputsAreKeptAfterAnError) {
  HostTensor index(DType::kInt32, {2}, {9, 0});
  HostTensor output(DType::kInt32, {2});
  const auto result = RunPlan(PlanCheckedIndex, CheckedIndexOp("3"), {&index}, {&output},
                              {.guarded_outputs = true, .failed_before = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(output.bytes()[0], '\xa5');
}

TEST(CudaCheckedIndexTest, NegativeSizesAreRejected) {
  HostTensor index(DType::kInt32, {2}, {0, 0});
  HostTensor output(DType::kInt32, {2});
  EXPECT_EQ(RunPlan(PlanCheckedIndex, CheckedIndexOp("-1"), {&index}, {&output}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda
