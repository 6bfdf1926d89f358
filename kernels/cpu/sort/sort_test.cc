// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/sort/sort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using serialization::Op;
using ::testing::ElementsAre;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Op SortOp(int64_t dim, bool descending) {
  Op op;
  op.mutable_sort()->set_dim(dim);
  op.mutable_sort()->set_descending(descending);
  return op;
}

TEST(SortTest, AgreesWithTheReferenceForAllDtypesLayoutsAndCounts) {
  std::mt19937_64 random(TestSeed());
  const DType dtypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt64,
                          DType::kInt32,   DType::kInt16,   DType::kInt8,    DType::kUInt8,    DType::kBool};
  for (int round = 0; round < 400; ++round) {
    const DType dtype = dtypes[random() % 10];
    DimVector sizes(1 + random() % 4);
    const uint64_t most = sizes.size() == 1 ? 600 : sizes.size() == 2 && round % 4 == 0 ? 90 : 9;
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % most);
    const auto dim = random() % sizes.size();
    const Op op = SortOp(static_cast<int64_t>(dim), random() % 2 == 0);
    DimVector results = sizes;
    if (random() % 2 == 0) results[dim] = static_cast<int64_t>(random() % static_cast<uint64_t>(sizes[dim] + 1));
    // A small range: many elements are equal.
    HostTensor x = RandomTensor(dtype, RandomLayout(sizes, random, true, true), random, -6, 7);
    std::vector<double> numbers = x.Values();
    if (IsFloatingPoint(dtype) && round % 3 == 0) {
      x = HostTensor(dtype, sizes);
      for (double& number : numbers) number = random() % 5 == 0 ? kNan : std::trunc(number);
      x.SetValues(numbers);
    }
    HostTensor y(dtype, RandomLayout(results, random, true, false)), expected(dtype, results);
    HostTensor index(DType::kInt64, RandomLayout(results, random, true, false)), expected_index(DType::kInt64, results);
    SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " round ", round));
    ASSERT_TRUE(RunOp(MakeSort, op, {&x}, {&y, &index}, 1 + static_cast<int>(random() % 3)).ok());
    ASSERT_TRUE(RunOp(reference::MakeSort, op, {&x}, {&expected, &expected_index}).ok());
    EXPECT_EQ(ErrorInUnits(y, expected.Values()), testing::kExact);
    EXPECT_EQ(index.Values(), expected_index.Values());
    EXPECT_TRUE(GapsAreUntouched(y));
    EXPECT_TRUE(GapsAreUntouched(index));
  }
}

TEST(SortTest, NanIsTheGreatestAndEqualElementsKeepTheirOrder) {
  const double infinity = std::numeric_limits<double>::infinity();
  HostTensor x(DType::kFloat32, {8}, {0, kNan, -0.0, infinity, -1, kNan, -infinity, 0});
  HostTensor y(DType::kFloat32, {8}), index(DType::kInt64, {8});
  ASSERT_TRUE(RunOp(MakeSort, SortOp(0, false), {&x}, {&y, &index}).ok());
  EXPECT_THAT(index.Values(), ElementsAre(6, 4, 0, 2, 7, 3, 1, 5));
  EXPECT_TRUE(std::signbit(y.Values()[3]));
  ASSERT_TRUE(RunOp(MakeSort, SortOp(0, true), {&x}, {&y, &index}).ok());
  EXPECT_THAT(index.Values(), ElementsAre(1, 5, 3, 0, 2, 7, 4, 6));
}

TEST(SortTest, TheFirstElementsAreThoseOfTheWholeOrder) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kFloat64, testing::DenseLayout({50000}), random);
  HostTensor y(DType::kFloat64, {50000}), index(DType::kInt64, {50000});
  HostTensor first(DType::kFloat64, {10}), first_index(DType::kInt64, {10});
  ASSERT_TRUE(RunOp(MakeSort, SortOp(0, true), {&x}, {&y, &index}, 2).ok());
  ASSERT_TRUE(RunOp(MakeSort, SortOp(0, true), {&x}, {&first, &first_index}, 2).ok());
  const std::vector<double> whole = index.Values();
  EXPECT_EQ(first_index.Values(), std::vector<double>(whole.begin(), whole.begin() + 10));
  const std::vector<double> values = y.Values();
  EXPECT_TRUE(std::is_sorted(values.rbegin(), values.rend()));
}

TEST(SortTest, ComplexNumbersAreRejected) {
  HostTensor x(DType::kComplex64, {3}), y(DType::kComplex64, {3}), index(DType::kInt64, {3});
  EXPECT_EQ(RunOp(MakeSort, SortOp(0, false), {&x}, {&y, &index}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cpu
