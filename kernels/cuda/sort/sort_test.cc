// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sort/sort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::ErrorInUnits;
using cotan::testing::HostTensor;
using cotan::testing::kExact;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using ::testing::ElementsAre;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt64,
                             DType::kInt32,   DType::kInt16,   DType::kInt8,    DType::kUInt8,    DType::kBool};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Op SortOp(int64_t dim, bool descending) {
  Op op;
  op.mutable_sort()->set_dim(dim);
  op.mutable_sort()->set_descending(descending);
  return op;
}

RunResult ExpectEqualsReference(const Op& op, HostTensor& x, HostTensor& y, HostTensor& index,
                                const RunOptions& options = {}) {
  SCOPED_TRACE(absl::StrCat(DTypeName(x.dtype()), op.sort().descending() ? " descending" : "", " dim ", op.sort().dim(),
                            " ", ToString(x.layout()), " to ", ToString(y.layout())));
  HostTensor expected(x.dtype(), y.layout().sizes), expected_index(DType::kInt64, y.layout().sizes);
  EXPECT_TRUE(RunOp(reference::MakeSort, op, {&x}, {&expected, &expected_index}).ok());
  const absl::StatusOr<RunResult> result = RunPlan(PlanSort, op, {&x}, {&y, &index}, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_EQ(ErrorInUnits(y, expected.Values()), kExact);
  EXPECT_EQ(index.Values(), expected_index.Values());
  return *result;
}

// A small range: many elements are equal, and some are NaN.
HostTensor RandomNumbers(DType dtype, const StridedLayout& layout, std::mt19937_64& random) {
  HostTensor x = RandomTensor(dtype, layout, random, -6, 7);
  if (!IsFloatingPoint(dtype) || random() % 3 != 0) return x;
  HostTensor with_nan(dtype, layout.sizes);
  std::vector<double> numbers = x.Values();
  for (double& number : numbers) number = random() % 5 == 0 ? kNan : std::trunc(number);
  with_nan.SetValues(numbers);
  return with_nan;
}

// Sorts rows of `length` elements, or columns.
RunResult ExpectSorted(DType dtype, int64_t length, int64_t count, std::mt19937_64& random, int64_t lines = 1,
                       bool columns = false) {
  const DimVector from = columns ? DimVector{length, lines} : DimVector{lines, length};
  const DimVector to = columns ? DimVector{count, lines} : DimVector{lines, count};
  HostTensor x = RandomNumbers(dtype, DenseLayout(from), random);
  HostTensor y(dtype, to), index(DType::kInt64, to);
  return ExpectEqualsReference(SortOp(columns ? 0 : 1, random() % 2 == 0), x, y, index, {.seed = random()});
}

TEST(CudaSortTest, RandomGeometriesOfAllDtypesEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    const DType dtype = kDTypes[round % 10];
    DimVector sizes(1 + random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 7);
    const auto dim = random() % sizes.size();
    if (random() % 3 == 0) sizes[dim] = static_cast<int64_t>(random() % 90);
    DimVector results = sizes;
    if (random() % 2 == 0) results[dim] = static_cast<int64_t>(random() % static_cast<uint64_t>(sizes[dim] + 1));
    HostTensor x = RandomNumbers(dtype, RandomLayout(sizes, random, true, true), random);
    HostTensor y(dtype, RandomLayout(results, random, random() % 2 == 0, false));
    HostTensor index(DType::kInt64, RandomLayout(results, random, random() % 2 == 0, false));
    ExpectEqualsReference(SortOp(static_cast<int64_t>(dim), random() % 2 == 0), x, y, index,
                          {.guarded_outputs = random() % 2 == 0, .seed = random()});
  }
}

TEST(CudaSortTest, RowsAndColumnsOfAllLengths) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t length : {1, 2, 8, 9, 31, 33, 256, 1000}) {
    for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kBFloat16}) {
      ExpectSorted(dtype, length, length, random, 3, length % 2 == 0);
    }
  }
}

TEST(CudaSortTest, LongLinesAreMergedBySeveralLaunches) {
  std::mt19937_64 random(TestSeed());
  EXPECT_EQ(ExpectSorted(DType::kFloat32, 4096, 4096, random).launches, 1);
  EXPECT_EQ(ExpectSorted(DType::kFloat32, 5000, 5000, random).launches, 2);
  EXPECT_EQ(ExpectSorted(DType::kFloat64, 5000, 5000, random, 2).launches, 3);
  EXPECT_EQ(ExpectSorted(DType::kUInt8, 13000, 13000, random).launches, 3);
  EXPECT_EQ(ExpectSorted(DType::kInt64, 10300, 6000, random, 2, true).launches, 4);
  EXPECT_EQ(ExpectSorted(DType::kInt32, 9000, 3000, random, 2, true).launches, 3);
  // More than 2^16 positions.
  EXPECT_EQ(ExpectSorted(DType::kFloat16, 66000, 5, random).launches, 2);
}

TEST(CudaSortTest, FewElementsOfLongLinesTakeTwoLaunches) {
  std::mt19937_64 random(TestSeed());
  EXPECT_EQ(ExpectSorted(DType::kFloat32, 20000, 50, random, 2).launches, 2);
  EXPECT_EQ(ExpectSorted(DType::kFloat64, 20000, 512, random).launches, 3);
  EXPECT_EQ(ExpectSorted(DType::kInt16, 9000, 1, random, 3, true).launches, 2);
}

TEST(CudaSortTest, NanIsTheGreatestAndEqualElementsKeepTheirOrder) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    HostTensor x(dtype, {8}, {0, kNan, -0.0, infinity, -1, kNan, -infinity, 0});
    HostTensor y(dtype, {8}), index(DType::kInt64, {8});
    ASSERT_TRUE(RunPlan(PlanSort, SortOp(0, false), {&x}, {&y, &index}).ok());
    EXPECT_THAT(index.Values(), ElementsAre(6, 4, 0, 2, 7, 3, 1, 5));
    EXPECT_TRUE(std::signbit(y.Values()[3]));
    ASSERT_TRUE(RunPlan(PlanSort, SortOp(0, true), {&x}, {&y, &index}).ok());
    EXPECT_THAT(index.Values(), ElementsAre(1, 5, 3, 0, 2, 7, 4, 6));
  }
}

TEST(CudaSortTest, OrderOfBlocksChangesNothing) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomNumbers(DType::kInt32, DenseLayout({9000}), random);
  for (const uint64_t seed : {1, 2, 3}) {
    HostTensor y(DType::kInt32, {9000}), index(DType::kInt64, {9000});
    ExpectEqualsReference(SortOp(0, true), x, y, index, {.seed = seed});
  }
}

TEST(CudaSortTest, RowsAreReadAndWrittenInWholeSectors) {
  std::mt19937_64 random(TestSeed());
  const RunResult result = ExpectSorted(DType::kFloat32, 1024, 1024, random, 4);
  // The values are read a second time, in any order.
  EXPECT_LE(result.counters.global_load_sectors, 4 * 1024 / 8 + 4 * 1024);
  EXPECT_EQ(result.counters.global_store_sectors * 32, 4 * 1024 * 12);
}

TEST(CudaSortTest, GuardedOutputsAreKeptAfterAnError) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kFloat32, DenseLayout({5000}), random);
  HostTensor y(DType::kFloat32, {5000}), index(DType::kInt64, {5000});
  const std::vector<double> before = y.Values();
  ASSERT_TRUE(
      RunPlan(PlanSort, SortOp(0, false), {&x}, {&y, &index}, {.guarded_outputs = true, .failed_before = true}).ok());
  EXPECT_EQ(y.Values(), before);
}

TEST(CudaSortTest, ComplexNumbersAreRejected) {
  HostTensor x(DType::kComplex64, {3}), y(DType::kComplex64, {3}), index(DType::kInt64, {3});
  EXPECT_EQ(RunPlan(PlanSort, SortOp(0, false), {&x}, {&y, &index}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Sizes that no test can run: offsets beyond 32 bits, and what the compiled kernels need.
TEST(CudaSortTest, LargeTensorsCompileWithoutSpills) {
  constexpr int kArchitectures[] = {90};
  for (const DType dtype : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const int64_t dim : {0, 1}) {
      const DimVector sizes = {70000, 65536};
      const TensorSpec x = {dtype, DenseLayout(sizes)};
      const TensorSpec outputs[] = {x, {DType::kInt64, DenseLayout(sizes)}};
      const Op op = SortOp(dim, false);
      const absl::StatusOr<KernelPlan> plan =
          PlanSort({.op = op, .inputs = {&x, 1}, .outputs = outputs, .symbols = {}});
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_GT(plan->steps.size(), 2u);
      for (const size_t step : {size_t{0}, plan->steps.size() - 1}) {
        const KernelSource& source = std::get<KernelLaunch>(plan->steps[step]).source;
        EXPECT_NE(source.text.find("using Index = cotan::uint64"), std::string::npos);
        const auto resources = CompileForArchitectures(source, kArchitectures);
        ASSERT_TRUE(resources.ok()) << resources.status();
        EXPECT_TRUE(CheckResources(*resources, 128).ok()) << CheckResources(*resources, 128);
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cuda
