// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/scatter_add.h"

#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/indexing/gather.h"
#include "kernels/cuda/copy/byte_tensor.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::ErrorInUnits;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using testing::AllBytes;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

constexpr DType kSummable[] = {DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,  DType::kInt64,
                               DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

Op ScatterAddOp(size_t dim, int64_t padding_index = -1) {
  Op op;
  op.mutable_scatter_add()->set_dim(static_cast<int64_t>(dim));
  op.mutable_scatter_add()->set_padding_index(padding_index);
  return op;
}

DimVector Replaced(const DimVector& table, size_t dim, const DimVector& index) {
  DimVector sizes(table.begin(), table.begin() + static_cast<int64_t>(dim));
  sizes.insert(sizes.end(), index.begin(), index.end());
  sizes.insert(sizes.end(), table.begin() + static_cast<int64_t>(dim) + 1, table.end());
  return sizes;
}

bool IsSmallFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

// Runs the op on the reference and as a plan. Sums in f32 are those of the CPU, to the bit.
RunResult ExpectReference(const Op& op, const std::vector<HostTensor*>& inputs, const StridedLayout& layout,
                          const RunOptions& options) {
  const DType dtype = inputs[0]->dtype();
  HostTensor expected(dtype, layout);
  HostTensor actual(dtype, layout);
  EXPECT_TRUE(RunOp(reference::MakeScatterAdd, op, inputs, {&expected}).ok());
  const absl::StatusOr<RunResult> result = RunPlan(PlanScatterAdd, op, inputs, {&actual}, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_LE(ErrorInUnits(actual, expected.Values()),
            IsSmallFloat(dtype) ? cotan::testing::kReduction : cotan::testing::kExact)
      << DTypeName(dtype) << ToString(inputs[0]->layout()) << ToString(inputs[1]->layout()) << ToString(layout);
  if (dtype == DType::kFloat32) {
    EXPECT_TRUE(RunOp(cpu::MakeScatterAdd, op, inputs, {&expected}).ok());
    EXPECT_EQ(AllBytes(actual), AllBytes(expected));
  }
  return *result;
}

TEST(CudaScatterAddTest, RandomGeometriesEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 72; ++round) {
    const DType dtype = kSummable[round % 9];
    DimVector sizes(1 + random() % 4);
    for (int64_t& size : sizes) size = 1 + static_cast<int64_t>(random() % 8);
    const size_t dim = random() % sizes.size();
    DimVector index_sizes(random() % 3);
    for (int64_t& size : index_sizes) size = static_cast<int64_t>(random() % 9);
    const auto size = static_cast<double>(sizes[dim]);
    const bool has_padding = random() % 2 == 0;
    HostTensor index = RandomTensor(random() % 2 == 0 ? DType::kInt32 : DType::kInt64,
                                    RandomLayout(index_sizes, random, random() % 2 == 0, random() % 2 == 0), random,
                                    has_padding ? 0 : -size, size);
    HostTensor rows = RandomTensor(
        dtype, RandomLayout(Replaced(sizes, dim, index_sizes), random, random() % 2 == 0, true), random, -50, 50);
    HostTensor base = RandomTensor(dtype, RandomLayout(sizes, random, random() % 2 == 0, true), random, -50, 50);
    std::vector<HostTensor*> inputs = {&rows, &index};
    if (random() % 2 == 0) inputs.push_back(&base);
    const int64_t padding = has_padding ? static_cast<int64_t>(random() % static_cast<uint64_t>(sizes[dim])) : -1;
    ExpectReference(ScatterAddOp(dim, padding), inputs, RandomLayout(sizes, random, random() % 2 == 0, false),
                    {.guarded_outputs = random() % 2 == 0, .seed = random()});
  }
}

TEST(CudaScatterAddTest, LongIndicesAreDividedIntoBuckets) {
  std::mt19937_64 random(TestSeed());
  struct Case {
    int64_t rows;
    DType dtype;
    bool guarded;
  };
  for (const auto& [num_rows, dtype, guarded] : {Case{1, DType::kInt16, false}, Case{7, DType::kFloat32, true},
                                                 Case{7, DType::kBFloat16, false}, Case{260, DType::kFloat32, false}}) {
    const auto limit = static_cast<double>(num_rows);
    HostTensor index = RandomTensor(DType::kInt64, DenseLayout({5, 821}), random, -limit, limit);
    HostTensor rows = RandomTensor(dtype, DenseLayout({5, 821, 3}), random);
    HostTensor base = RandomTensor(dtype, DenseLayout({num_rows, 3}), random);
    const RunResult result = ExpectReference(ScatterAddOp(0), {&rows, &index, &base}, DenseLayout({num_rows, 3}),
                                             {.guarded_outputs = guarded, .seed = random()});
    EXPECT_EQ(result.launches, 2);
  }
}

TEST(CudaScatterAddTest, PaddingOfALongIndexIsSkipped) {
  std::mt19937_64 random(TestSeed());
  HostTensor index = RandomTensor(DType::kInt32, DenseLayout({4100}), random, 0, 9);
  HostTensor rows = RandomTensor(DType::kFloat32, DenseLayout({4100, 2}), random);
  ExpectReference(ScatterAddOp(0, 4), {&rows, &index}, DenseLayout({9, 2}), {.seed = 4});
}

TEST(CudaScatterAddTest, EqualIndicesAreAddedInTheirOrder) {
  HostTensor index(DType::kInt64, {6}, {1, 1, 1, 1, 1, 1});
  HostTensor rows(DType::kFloat32, {6}, {1e8, 3, -1e8, 5, 1e8, 7});
  for (const uint64_t seed : {0, 1, 2})
    ExpectReference(ScatterAddOp(0), {&rows, &index}, DenseLayout({2}), {.seed = seed});
}

TEST(CudaScatterAddTest, BaseMayBeTheOutput) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t count : {30, 4100}) {
    HostTensor index = RandomTensor(DType::kInt64, DenseLayout({count}), random, 0, 9);
    HostTensor rows = RandomTensor(DType::kInt32, DenseLayout({count, 70}), random, -9, 9);
    HostTensor base = RandomTensor(DType::kInt32, DenseLayout({9, 70}), random, -9, 9);
    HostTensor expected(DType::kInt32, {9, 70});
    const Op op = ScatterAddOp(0);
    ASSERT_TRUE(RunOp(reference::MakeScatterAdd, op, {&rows, &index, &base}, {&expected}).ok());
    const auto result = RunPlan(PlanScatterAdd, op, {&rows, &index, &base}, {&base}, {.seed = 8});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(base.Values(), expected.Values());
  }
}

TEST(CudaScatterAddTest, RowsAreLoadedOnceInVectors) {
  std::mt19937_64 random(TestSeed());
  HostTensor index = RandomTensor(DType::kInt64, DenseLayout({64}), random, 0, 1100);
  HostTensor rows = RandomTensor(DType::kFloat32, DenseLayout({64, 128}), random);
  const RunResult result = ExpectReference(ScatterAddOp(0), {&rows, &index}, DenseLayout({1100, 128}), {});
  EXPECT_EQ(result.launches, 1);
  EXPECT_EQ(result.counters.global_store_sectors * 32, 1100u * 128 * 4);
  // The rows, and the index for each row of the output and for the check.
  EXPECT_LE(result.counters.global_load_sectors * 32, 64u * 128 * 4 + 1101 * 64 * 8);
}

TEST(CudaScatterAddTest, LowestPositionIsReportedAsOnTheCpu) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t count : {120, 4100}) {
    HostTensor index(DType::kInt32, {2, count / 2});
    std::vector<double> values(static_cast<size_t>(count), -5);
    for (size_t i = 31; i < values.size(); i += 8) values[i] = 5 + static_cast<double>(i);
    index.SetValues(values);
    HostTensor rows = RandomTensor(DType::kFloat32, DenseLayout({2, count / 2, 3}), random);
    HostTensor output(DType::kFloat32, {5, 3});
    const std::string before = AllBytes(output);
    const Op op = ScatterAddOp(0);
    HostTensor cpu_output(DType::kFloat32, {5, 3});
    const absl::Status expected = RunOp(cpu::MakeScatterAdd, op, {&rows, &index}, {&cpu_output});
    EXPECT_FALSE(expected.ok());
    for (const bool guarded : {false, true}) {
      const auto result =
          RunPlan(PlanScatterAdd, op, {&rows, &index}, {&output}, {.guarded_outputs = guarded, .seed = random()});
      EXPECT_EQ(result.status(), expected);
    }
    EXPECT_EQ(AllBytes(output), before);
  }
}

TEST(CudaScatterAddTest, EmptyOperandsGiveTheBaseAndAreChecked) {
  HostTensor no_index(DType::kInt64, {0});
  HostTensor no_rows(DType::kFloat32, {0, 3});
  HostTensor base(DType::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectReference(ScatterAddOp(0), {&no_rows, &no_index, &base}, DenseLayout({2, 3}), {});
  ExpectReference(ScatterAddOp(0), {&no_rows, &no_index}, DenseLayout({2, 3}), {});
  HostTensor index(DType::kInt64, {1}, {0});
  HostTensor row(DType::kFloat32, {1, 3}, {1, 2, 3});
  HostTensor output(DType::kFloat32, {0, 3});
  EXPECT_EQ(RunPlan(PlanScatterAdd, ScatterAddOp(0), {&row, &index}, {&output}).status(),
            RunOp(cpu::MakeScatterAdd, ScatterAddOp(0), {&row, &index}, {&output}));
}

TEST(CudaScatterAddTest, GuardedOutputsAreKeptAfterAnEarlierError) {
  HostTensor index(DType::kInt64, {1}, {0});
  HostTensor row(DType::kFloat32, {1, 3}, {1, 2, 3});
  HostTensor output(DType::kFloat32, {2, 3});
  const std::string before = AllBytes(output);
  const auto result = RunPlan(PlanScatterAdd, ScatterAddOp(0), {&row, &index}, {&output},
                              {.guarded_outputs = true, .failed_before = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(AllBytes(output), before);
}

}  // namespace
}  // namespace cotan::cuda
