// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/scan/scan.h"

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
using cotan::testing::kPointwise;
using cotan::testing::kReduction;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using serialization::Scan;
using ::testing::ElementsAre;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt64,
                             DType::kInt32,   DType::kInt16,   DType::kInt8,    DType::kUInt8};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  Scan::Function function = Scan::SUM;
  int64_t dim = 0;
  bool reverse = false;
  DimVector sizes = {};

  bool has_indexes() const { return function == Scan::MAX || function == Scan::MIN; }
  Op op() const {
    Op op;
    op.mutable_scan()->set_function(function);
    op.mutable_scan()->set_dim(dim);
    op.mutable_scan()->set_reverse(reverse);
    return op;
  }
};

// Rounding of sums adds up in f64; narrower floats are accumulated in f64.
double Tolerance(const Case& c, DType dtype) {
  if (!IsFloatingPoint(dtype) || c.has_indexes()) return kExact;
  return dtype == DType::kFloat64 ? kReduction : kPointwise;
}

RunResult ExpectEqualsReference(const Case& c, HostTensor& x, HostTensor& y, HostTensor& index, double tolerance,
                                const RunOptions& options = {}) {
  SCOPED_TRACE(absl::StrCat(DTypeName(x.dtype()), " ", Scan::Function_Name(c.function), c.reverse ? " reverse" : "",
                            " dim ", c.dim, " ", ToString(x.layout()), ToString(y.layout())));
  HostTensor expected(x.dtype(), c.sizes), expected_index(DType::kInt64, c.sizes);
  std::vector<HostTensor*> outputs = {&y}, expected_outputs = {&expected};
  if (c.has_indexes()) {
    outputs.push_back(&index);
    expected_outputs.push_back(&expected_index);
  }
  EXPECT_TRUE(RunOp(reference::MakeScan, c.op(), {&x}, expected_outputs).ok());
  const absl::StatusOr<RunResult> result = RunPlan(PlanScan, c.op(), {&x}, outputs, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_LE(ErrorInUnits(y, expected.Values()), tolerance);
  if (c.has_indexes()) {
    EXPECT_EQ(index.Values(), expected_index.Values());
  }
  return *result;
}

RunResult ExpectDense(const Case& c, DType dtype, std::mt19937_64& random, const RunOptions& options = {}) {
  HostTensor x = RandomTensor(dtype, DenseLayout(c.sizes), random, -2, 3);
  HostTensor y(dtype, c.sizes), index(DType::kInt64, c.sizes);
  double tolerance = Tolerance(c, dtype);
  if (dtype == DType::kFloat64 && c.function == Scan::SUM) {
    // The reference rounds after each element: over long lines its own error exceeds kReduction. These sums are exact.
    std::vector<double> numbers = x.Values();
    for (double& number : numbers) number = std::ldexp(std::trunc(std::ldexp(number, 20)), -20);
    x.SetValues(numbers);
    tolerance = kExact;
  }
  return ExpectEqualsReference(c, x, y, index, tolerance, options);
}

Case RandomCase(DType dtype, std::mt19937_64& random) {
  Case c = {.function = static_cast<Scan::Function>(1 + random() % (IsFloatingPoint(dtype) ? 5 : 4))};
  c.sizes.resize(1 + random() % 4);
  for (int64_t& size : c.sizes) size = static_cast<int64_t>(random() % 7);
  c.dim = static_cast<int64_t>(random() % c.sizes.size());
  if (random() % 3 == 0) c.sizes[static_cast<size_t>(c.dim)] = static_cast<int64_t>(random() % 70);
  c.reverse = random() % 2 == 0;
  return c;
}

TEST(CudaScanTest, RandomGeometriesOfAllDtypesAndFunctionsEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 120; ++round) {
    const DType dtype = kDTypes[round % 9];
    const Case c = RandomCase(dtype, random);
    HostTensor x = RandomTensor(dtype, RandomLayout(c.sizes, random, random() % 2 == 0, true), random, -2, 3);
    HostTensor y(dtype, RandomLayout(c.sizes, random, random() % 2 == 0, false));
    HostTensor index(DType::kInt64, RandomLayout(c.sizes, random, random() % 2 == 0, false));
    ExpectEqualsReference(c, x, y, index, Tolerance(c, dtype),
                          {.guarded_outputs = random() % 2 == 0, .seed = random()});
  }
}

TEST(CudaScanTest, RowsAndColumnsOfAllLengths) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t length : {1, 2, 31, 32, 33, 1000, 5000}) {
    for (const auto function : {Scan::SUM, Scan::MIN}) {
      for (const bool reverse : {false, true}) {
        ExpectDense({function, 1, reverse, {3, length}}, DType::kFloat32, random, {.seed = random()});
        ExpectDense({function, 0, reverse, {length, 5}}, DType::kFloat32, random, {.seed = random()});
      }
    }
  }
  for (const DType dtype : kDTypes) {
    ExpectDense({Scan::MAX, 1, false, {5, 264}}, dtype, random);
    ExpectDense({Scan::PROD, 1, true, {1, 96}}, dtype, random);
    ExpectDense({Scan::SUM, 1, true, {2, 2400}}, dtype, random);
    ExpectDense({Scan::SUM, 0, true, {70, 40}}, dtype, random);
  }
}

TEST(CudaScanTest, FewLongLinesAreDividedAmongBlocks) {
  std::mt19937_64 random(TestSeed());
  for (const auto function : {Scan::SUM, Scan::MAX}) {
    for (const bool reverse : {false, true}) {
      for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kFloat64}) {
        EXPECT_EQ(ExpectDense({function, 0, reverse, {40001}}, dtype, random, {.seed = 3}).launches, 2);
        EXPECT_EQ(ExpectDense({function, 0, reverse, {2000, 35}}, dtype, random, {.seed = 4}).launches, 2);
      }
    }
  }
  EXPECT_EQ(ExpectDense({Scan::LOGSUMEXP, 1, false, {1, 33000}}, DType::kFloat16, random).launches, 1);
  EXPECT_EQ(ExpectDense({Scan::LOGSUMEXP, 1, false, {2, 33001}}, DType::kFloat32, random).launches, 2);
}

TEST(CudaScanTest, OrderOfBlocksChangesNoBit) {
  std::mt19937_64 random(TestSeed());
  for (const DimVector& sizes : {DimVector{9000}, DimVector{9000, 40}}) {
    HostTensor x = RandomTensor(DType::kFloat64, DenseLayout(sizes), random);
    std::vector<double> first;
    for (const uint64_t seed : {0, 1, 2}) {
      HostTensor y(DType::kFloat64, sizes);
      ASSERT_TRUE(RunPlan(PlanScan, Case{.sizes = sizes}.op(), {&x}, {&y}, {.seed = seed}).ok());
      if (first.empty()) first = y.Values();
      EXPECT_EQ(y.Values(), first);
    }
  }
}

TEST(CudaScanTest, LastOfEqualElementsCountsAndNanWins) {
  HostTensor x(DType::kFloat32, {6}, {1, 3, 3, 2, kNan, 9});
  HostTensor y(DType::kFloat32, {6}), index(DType::kInt64, {6});
  ASSERT_TRUE(RunPlan(PlanScan, Case{.function = Scan::MAX}.op(), {&x}, {&y, &index}).ok());
  EXPECT_THAT(index.Values(), ElementsAre(0, 1, 2, 2, 4, 4));
  EXPECT_TRUE(std::isnan(y.Values()[5]));
  EXPECT_EQ(y.Values()[3], 3);

  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const DimVector& sizes : {DimVector{1, 3000}, DimVector{300, 40}}) {
      for (const auto function : {Scan::MAX, Scan::MIN}) {
        const Case c = {function, sizes[0] == 1 ? 1 : 0, random() % 2 == 0, sizes};
        HostTensor values(dtype, sizes), result(dtype, sizes), positions(DType::kInt64, sizes);
        std::vector<double> numbers(static_cast<size_t>(NumElements(sizes)));
        for (double& number : numbers) number = static_cast<double>(random() % 5);
        numbers[numbers.size() / 3] = numbers[numbers.size() / 2] = kNan;
        numbers[numbers.size() / 4] = -kInfinity;
        values.SetValues(numbers);
        ExpectEqualsReference(c, values, result, positions, kExact, {.seed = random()});
      }
    }
  }
}

TEST(CudaScanTest, SumsKeepSignsOfZeroAndInfinities) {
  HostTensor x(DType::kFloat32, {5}, {-0.0, -0.0, 0, kInfinity, -kInfinity}), y(DType::kFloat32, {5});
  ASSERT_TRUE(RunPlan(PlanScan, Case{}.op(), {&x}, {&y}).ok());
  const std::vector<double> sums = y.Values();
  EXPECT_TRUE(std::signbit(sums[0]) && std::signbit(sums[1]) && !std::signbit(sums[2]));
  EXPECT_EQ(sums[3], kInfinity);
  EXPECT_TRUE(std::isnan(sums[4]));
}

TEST(CudaScanTest, LogarithmsOfSumsDoNotOverflow) {
  HostTensor x(DType::kFloat32, {6}, {-kInfinity, 1000, 1000, -kInfinity, kInfinity, kNan});
  HostTensor y(DType::kFloat32, {6});
  ASSERT_TRUE(RunPlan(PlanScan, Case{.function = Scan::LOGSUMEXP}.op(), {&x}, {&y}).ok());
  EXPECT_EQ(y.Values()[0], -kInfinity);
  EXPECT_NEAR(y.Values()[2], 1000 + std::log(2.0), 1e-3);
  EXPECT_EQ(y.Values()[2], y.Values()[3]);
  EXPECT_EQ(y.Values()[4], kInfinity);
  EXPECT_TRUE(std::isnan(y.Values()[5]));
}

TEST(CudaScanTest, InputsAreReadOnceInWholeSectors) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const DimVector& sizes : {DimVector{8, 1024}, DimVector{64, 8, 64}}) {
      for (const auto function : {Scan::SUM, Scan::MAX}) {
        const Case c = {.function = function, .dim = 1, .sizes = sizes};
        const RunResult result = ExpectDense(c, dtype, random);
        const auto count = static_cast<uint64_t>(NumElements(sizes));
        EXPECT_EQ(result.launches, 1);
        EXPECT_EQ(result.counters.global_load_sectors * 32, count * ByteSize(dtype));
        EXPECT_EQ(result.counters.global_store_sectors * 32, count * (ByteSize(dtype) + (c.has_indexes() ? 8 : 0)));
      }
    }
  }
}

TEST(CudaScanTest, GuardedOutputsAreKeptAfterAnError) {
  HostTensor x(DType::kFloat32, {2}, {1, 2}), y(DType::kFloat32, {2}, {7, 8}), index(DType::kInt64, {2}, {5, 6});
  const Op op = Case{.function = Scan::MAX}.op();
  ASSERT_TRUE(RunPlan(PlanScan, op, {&x}, {&y, &index}, {.guarded_outputs = true, .failed_before = true}).ok());
  EXPECT_THAT(y.Values(), ElementsAre(7, 8));
  EXPECT_THAT(index.Values(), ElementsAre(5, 6));
}

TEST(CudaScanTest, OtherDtypesAndLogarithmsOfIntegersAreRejected) {
  HostTensor x(DType::kInt64, {4}), y(DType::kInt64, {4});
  EXPECT_EQ(RunPlan(PlanScan, Case{.function = Scan::LOGSUMEXP}.op(), {&x}, {&y}).status().code(),
            absl::StatusCode::kUnimplemented);
  HostTensor flags(DType::kBool, {4}), sums(DType::kBool, {4});
  EXPECT_EQ(RunPlan(PlanScan, Case{}.op(), {&flags}, {&sums}).status().code(), absl::StatusCode::kUnimplemented);
}

// Sizes that no test can run: offsets beyond 32 bits, and what the compiled kernels need.
TEST(CudaScanTest, LargeTensorsCompileWithoutSpills) {
  constexpr int kArchitectures[] = {90};
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    for (const int64_t dim : {0, 1}) {
      for (const auto function : {Scan::SUM, Scan::MAX}) {
        const Case c = {function, dim, false, {70000, 65536}};
        const TensorSpec x = {dtype, DenseLayout(c.sizes)}, index = {DType::kInt64, DenseLayout(c.sizes)};
        std::vector<TensorSpec> outputs = {x};
        if (c.has_indexes()) outputs.push_back(index);
        const Op op = c.op();
        const absl::StatusOr<KernelPlan> plan =
            PlanScan({.op = op, .inputs = {&x, 1}, .outputs = outputs, .symbols = {}});
        ASSERT_TRUE(plan.ok()) << plan.status();
        for (const PlanStep& step : plan->steps) {
          const KernelSource& source = std::get<KernelLaunch>(step).source;
          EXPECT_NE(source.text.find("using Index = cotan::uint64"), std::string::npos);
          const auto resources = CompileForArchitectures(source, kArchitectures);
          ASSERT_TRUE(resources.ok()) << resources.status();
          EXPECT_TRUE(CheckResources(*resources, 128).ok()) << CheckResources(*resources, 128);
        }
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cuda
