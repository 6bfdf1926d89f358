// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/scan/scan.h"

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
using serialization::Scan;
using ::testing::ElementsAre;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

Op ScanOp(Scan::Function function, int64_t dim, bool reverse = false) {
  Op op;
  op.mutable_scan()->set_function(function);
  op.mutable_scan()->set_dim(dim);
  op.mutable_scan()->set_reverse(reverse);
  return op;
}

bool HasIndices(Scan::Function function) { return function == Scan::MAX || function == Scan::MIN; }

TEST(ScanTest, AgreesWithTheReferenceForAllFunctionsDtypesAndLayouts) {
  std::mt19937_64 random(TestSeed());
  const DType dtypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt32, DType::kInt8};
  for (int round = 0; round < 300; ++round) {
    const DType dtype = dtypes[random() % 5];
    const auto function = static_cast<Scan::Function>(1 + random() % (IsFloatingPoint(dtype) ? 5 : 4));
    DimVector sizes(1 + random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % (round % 10 == 0 ? 70 : 7));
    const Op op = ScanOp(function, static_cast<int64_t>(random() % sizes.size()), random() % 2 == 0);
    HostTensor x = RandomTensor(dtype, RandomLayout(sizes, random, true, true), random, -2, 3);
    HostTensor y(dtype, RandomLayout(sizes, random, random() % 2 == 0, false)), expected(dtype, sizes);
    HostTensor index(DType::kInt64, RandomLayout(sizes, random, true, false)), expected_index(DType::kInt64, sizes);
    std::vector<HostTensor*> outputs = {&y}, expected_outputs = {&expected};
    if (HasIndices(function)) {
      outputs.push_back(&index);
      expected_outputs.push_back(&expected_index);
    }
    SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " function ", function, " dim ", op.scan().dim()));
    ASSERT_TRUE(RunOp(MakeScan, op, {&x}, outputs, 1 + static_cast<int>(random() % 2)).ok());
    ASSERT_TRUE(RunOp(reference::MakeScan, op, {&x}, expected_outputs).ok());
    EXPECT_LE(ErrorInUnits(y, expected.Values()), testing::kPointwise);
    if (HasIndices(function)) {
      EXPECT_EQ(index.Values(), expected_index.Values());
    }
    EXPECT_TRUE(GapsAreUntouched(y));
  }
}

TEST(ScanTest, TheLastOfEqualElementsCountsAndNanWins) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  HostTensor x(DType::kFloat32, {6}, {1, 3, 3, 2, nan, 9});
  HostTensor y(DType::kFloat32, {6}), index(DType::kInt64, {6});
  ASSERT_TRUE(RunOp(MakeScan, ScanOp(Scan::MAX, 0), {&x}, {&y, &index}).ok());
  EXPECT_THAT(index.Values(), ElementsAre(0, 1, 2, 2, 4, 4));
  EXPECT_TRUE(std::isnan(y.Values()[5]));
  EXPECT_EQ(y.Values()[3], 3);
}

TEST(ScanTest, ReverseBeginsAtTheEnd) {
  HostTensor x(DType::kInt64, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor y(DType::kInt64, {2, 3});
  ASSERT_TRUE(RunOp(MakeScan, ScanOp(Scan::SUM, 1, true), {&x}, {&y}).ok());
  EXPECT_THAT(y.Values(), ElementsAre(6, 5, 3, 15, 11, 6));
}

TEST(ScanTest, LogarithmsOfSumsDoNotOverflow) {
  const double infinity = std::numeric_limits<double>::infinity();
  HostTensor x(DType::kFloat32, {4}, {-infinity, 1000, 1000, -infinity});
  HostTensor y(DType::kFloat32, {4});
  ASSERT_TRUE(RunOp(MakeScan, ScanOp(Scan::LOGSUMEXP, 0), {&x}, {&y}).ok());
  EXPECT_EQ(y.Values()[0], -infinity);
  EXPECT_NEAR(y.Values()[2], 1000 + std::log(2.0), 1e-3);
  EXPECT_EQ(y.Values()[2], y.Values()[3]);
}

TEST(ScanTest, LogarithmsOfIntegersAreRejected) {
  HostTensor x(DType::kInt64, {4}, {1, 2, 3, 4}), y(DType::kInt64, {4});
  EXPECT_EQ(RunOp(MakeScan, ScanOp(Scan::LOGSUMEXP, 0), {&x}, {&y}).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace cotan::cpu
