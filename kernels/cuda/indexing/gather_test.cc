// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/gather.h"

#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/indexing/gather.h"
#include "kernels/cuda/copy/byte_tensor.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using testing::AllBytes;
using testing::kAllDTypes;
using testing::RandomBytes;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

Op GatherOp(int64_t dim) {
  Op op;
  op.mutable_gather()->set_dim(dim);
  return op;
}

DimVector Replaced(const DimVector& table, size_t dim, const DimVector& index) {
  DimVector sizes(table.begin(), table.begin() + static_cast<int64_t>(dim));
  sizes.insert(sizes.end(), index.begin(), index.end());
  sizes.insert(sizes.end(), table.begin() + static_cast<int64_t>(dim) + 1, table.end());
  return sizes;
}

RunResult ExpectEqualsCpu(size_t dim, HostTensor& table, HostTensor& index, const StridedLayout& layout,
                          const RunOptions& options) {
  HostTensor expected(table.dtype(), layout);
  HostTensor actual(table.dtype(), layout);
  const Op op = GatherOp(static_cast<int64_t>(dim));
  const absl::Status error = RunOp(cpu::MakeGather, op, {&table, &index}, {&expected});
  const auto result = RunPlan(PlanGather, op, {&table, &index}, {&actual}, options);
  EXPECT_EQ(result.status(), error);
  if (!result.ok()) return {};
  EXPECT_EQ(AllBytes(actual), AllBytes(expected)) << ToString(table.layout()) << ToString(layout);
  return *result;
}

TEST(CudaGatherTest, RandomGeometriesOfAllDTypesEqualTheCpu) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 96; ++round) {
    DimVector sizes(1 + random() % 4);
    for (int64_t& size : sizes) size = 1 + static_cast<int64_t>(random() % 8);
    const size_t dim = random() % sizes.size();
    DimVector index_sizes(random() % 4);
    for (int64_t& size : index_sizes) size = static_cast<int64_t>(random() % 5);
    HostTensor table =
        RandomBytes(kAllDTypes[round % 12], RandomLayout(sizes, random, random() % 2 == 0, true), random);
    const auto size = static_cast<double>(sizes[dim]);
    HostTensor index = RandomTensor(random() % 2 == 0 ? DType::kInt32 : DType::kInt64,
                                    RandomLayout(index_sizes, random, random() % 2 == 0, random() % 2 == 0), random,
                                    -size - (round % 8 == 7 ? 1.5 : 0), size);
    ExpectEqualsCpu(dim, table, index,
                    RandomLayout(Replaced(sizes, dim, index_sizes), random, random() % 2 == 0, false),
                    {.guarded_outputs = random() % 2 == 0, .seed = random()});
  }
}

TEST(CudaGatherTest, RowsAreLoadedInVectors) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32, DType::kComplex128}) {
    HostTensor table = RandomBytes(dtype, DenseLayout({50, 64}), random);
    HostTensor index = RandomTensor(DType::kInt64, DenseLayout({4, 25}), random, 0, 50);
    const RunResult result = ExpectEqualsCpu(0, table, index, DenseLayout({4, 25, 64}), {});
    const uint64_t bytes = 100 * 64 * ByteSize(dtype);
    EXPECT_EQ(result.launches, 1);
    EXPECT_EQ(result.counters.global_store_sectors * 32, bytes);
    // The lanes of a warp read up to 4 elements of the index.
    EXPECT_LE(result.counters.global_load_sectors * 32, bytes * 5 / 4);
  }
}

TEST(CudaGatherTest, LowestPositionIsReportedForAnyOrderOfBlocks) {
  std::mt19937_64 random(TestSeed());
  HostTensor table = RandomBytes(DType::kFloat32, DenseLayout({5, 64}), random);
  HostTensor index(DType::kInt32, {3, 40});
  std::vector<double> values(120, -5);
  for (size_t i = 31; i < values.size(); i += 8) values[i] = 5 + static_cast<double>(i);
  index.SetValues(values);
  for (const uint64_t seed : {0, 1, 2, 3}) {
    for (const bool guarded : {false, true}) {
      ExpectEqualsCpu(0, table, index, DenseLayout({3, 40, 64}), {.guarded_outputs = guarded, .seed = seed});
    }
  }
}

TEST(CudaGatherTest, EmptyTablesAndRowsAreChecked) {
  std::mt19937_64 random(TestSeed());
  for (const bool guarded : {false, true}) {
    const RunOptions options = {.guarded_outputs = guarded};
    HostTensor index(DType::kInt64, {2}, {0, 1});
    HostTensor no_rows(DType::kFloat32, {0, 3});
    ExpectEqualsCpu(0, no_rows, index, DenseLayout({2, 3}), options);
    HostTensor no_columns(DType::kFloat32, {1, 0});
    ExpectEqualsCpu(0, no_columns, index, DenseLayout({2, 0}), options);
    HostTensor no_index(DType::kInt64, {0});
    ExpectEqualsCpu(0, no_rows, no_index, DenseLayout({0, 3}), options);
  }
}

TEST(CudaGatherTest, GuardedOutputsAreKeptAfterAnError) {
  HostTensor table(DType::kFloat32, {2}, {1, 2});
  HostTensor output(DType::kFloat32, {2});
  const std::string before = AllBytes(output);
  HostTensor index(DType::kInt64, {2}, {0, 1});
  const auto result =
      RunPlan(PlanGather, GatherOp(0), {&table, &index}, {&output}, {.guarded_outputs = true, .failed_before = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(AllBytes(output), before);
}

}  // namespace
}  // namespace cotan::cuda
