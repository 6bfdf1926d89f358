// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/threading/run_without_team.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using ::testing::HasSubstr;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

serialization::Op MatmulOp() {
  serialization::Op op;
  op.mutable_matmul();
  return op;
}

// Returns the element for `index` of the output in an operand of lower rank or with dimensions of size 1;
// `values` are in row-major order.
double Element(const std::vector<double>& values, const DimVector& sizes, DimVector index) {
  index.erase(index.begin(), index.end() - static_cast<std::ptrdiff_t>(sizes.size()));
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) index[d] = 0;
  }
  int64_t position = 0;
  for (size_t d = 0; d < sizes.size(); ++d) position = position * sizes[d] + index[d];
  return values[static_cast<size_t>(position)];
}

std::vector<double> Expected(const std::vector<HostTensor*>& inputs, const StridedLayout& output) {
  std::vector<double> result;
  std::vector<std::vector<double>> values;
  for (const HostTensor* input : inputs) values.push_back(input->Values());
  const auto element = [&](size_t i, const DimVector& index) {
    return Element(values[i], inputs[i]->layout().sizes, index);
  };
  const auto rank = static_cast<size_t>(output.rank());
  const int64_t k_size = inputs[0]->layout().sizes.back();
  for (int64_t i = 0; i < NumElements(output.sizes); ++i) {
    DimVector index(rank);
    int64_t rest = i;
    for (size_t d = rank; d-- > 0;) {
      index[d] = rest % output.sizes[d];
      rest /= output.sizes[d];
    }
    double sum = inputs.size() == 3 ? element(2, index) : 0;
    for (int64_t k = 0; k < k_size; ++k) {
      DimVector a = index;
      DimVector b = index;
      a[rank - 1] = k;
      b[rank - 2] = k;
      sum += element(0, a) * element(1, b);
    }
    result.push_back(sum);
  }
  return result;
}

void ExpectProduct(std::vector<HostTensor*> inputs, const StridedLayout& output) {
  const DType dtype = inputs[0]->dtype();
  HostTensor result(dtype, output);
  const absl::Status status = RunOp(MakeMatmul, MatmulOp(), inputs, {&result});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LE(ErrorInUnits(result, Expected(inputs, output)),
            dtype == DType::kFloat32 ? testing::kMatmul : testing::kRounding);
  EXPECT_TRUE(GapsAreUntouched(result));
  for (int threads : {2, 3, 5}) {
    HostTensor again(dtype, output);
    ASSERT_TRUE(RunOp(MakeMatmul, MatmulOp(), inputs, {&again}, threads).ok());
    EXPECT_EQ(result.bytes(), again.bytes()) << threads << " threads, " << ToString(output);
  }
}

// Compares two threads with one that runs without its team.
void ExpectSameBitsWithoutTeam(const DimVector& a, const DimVector& b, const DimVector& c, std::mt19937_64& random) {
  HostTensor left = RandomTensor(DType::kFloat32, DenseLayout(a), random);
  HostTensor right = RandomTensor(DType::kFloat32, DenseLayout(b), random);
  HostTensor on_team(DType::kFloat32, DenseLayout(c)), alone(DType::kFloat32, DenseLayout(c));
  ASSERT_TRUE(RunOp(MakeMatmul, MatmulOp(), {&left, &right}, {&on_team}, 2).ok());
  RunWithoutTeam([&] { EXPECT_TRUE(RunOp(MakeMatmul, MatmulOp(), {&left, &right}, {&alone}, 2).ok()); });
  EXPECT_EQ(on_team.bytes(), alone.bytes());
}

void ExpectRandomProducts(DType dtype, int count) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < count; ++i) {
    const int64_t m = random() % 40;
    const int64_t k = random() % 40;
    const int64_t n = random() % 40;
    DimVector batch(random() % 3);
    for (int64_t& size : batch) size = random() % 4;
    DimVector a(batch);
    DimVector b(batch);
    DimVector c(batch);
    for (size_t d = 0; d < batch.size(); ++d) {
      if (random() % 4 == 0) a[d] = 1;
      if (random() % 4 == 0 && a[d] == batch[d]) b[d] = 1;
    }
    a.insert(a.end(), {m, k});
    b.insert(b.end(), {k, n});
    c.insert(c.end(), {m, n});
    HostTensor left = RandomTensor(dtype, RandomLayout(a, random, true, true), random);
    HostTensor right = RandomTensor(dtype, RandomLayout(b, random, true, true), random);
    std::vector<HostTensor*> inputs = {&left, &right};
    DimVector d = random() % 2 == 0 ? DimVector{n} : c;
    if (d.size() > 1 && random() % 2 == 0) d[d.size() - 2] = 1;
    HostTensor addend = RandomTensor(dtype, RandomLayout(d, random, true, true), random);
    if (random() % 2 == 0) inputs.push_back(&addend);
    SCOPED_TRACE(ToString(left.layout()) + " @ " + ToString(right.layout()));
    ExpectProduct(inputs, RandomLayout(c, random, random() % 2 == 0, false));
  }
}

TEST(MatmulTest, RandomSizesStridesAndAddends) { ExpectRandomProducts(DType::kFloat32, 300); }

TEST(MatmulTest, MatricesOfABatchMayOverlap) {
  std::mt19937_64 random(TestSeed());
  const StridedLayout windows = {{3, 2, 4}, {1, 4, 1}, 0}, columns = {{3, 4, 2}, {2, 1, 4}, 0};
  HostTensor a = RandomTensor(DType::kFloat32, windows, random), b = RandomTensor(DType::kFloat32, columns, random);
  ExpectProduct({&a, &b}, DenseLayout({3, 2, 2}));
}

TEST(MatmulTest, HalfPrecisionIsRoundedOnce) {
  ExpectRandomProducts(DType::kBFloat16, 150);
  ExpectRandomProducts(DType::kFloat16, 150);
}

TEST(MatmulTest, LargeProductsHaveTheSameBitsForAnyThreadCount) {
  std::mt19937_64 random(TestSeed());
  const auto expect = [&](int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns) {
    const DimVector columns = {1, 0};
    HostTensor a = RandomTensor(DType::kFloat32, DenseLayout({m, k}, a_columns ? columns : DimVector{}), random);
    HostTensor b = RandomTensor(DType::kFloat32, DenseLayout({k, n}, b_columns ? columns : DimVector{}), random);
    ExpectProduct({&a, &b}, DenseLayout({m, n}));
  };
  expect(10, 8192, 32, true, false);
  expect(10, 8192, 32, true, true);
  expect(256, 784, 32, false, true);
  expect(1, 4096, 300, false, false);
  expect(300, 4096, 1, false, false);
  expect(130, 300, 170, true, true);
  expect(129, 70, 500, false, false);
}

TEST(MatmulTest, BatchesHaveTheSameBitsForAnyThreadCount) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t batch : {2, 17}) {
    HostTensor a = RandomTensor(DType::kFloat32, DenseLayout({batch, 3, 50, 60}), random);
    HostTensor b = RandomTensor(DType::kFloat32, DenseLayout({batch, 3, 60, 70}), random);
    HostTensor bias = RandomTensor(DType::kFloat32, DenseLayout({70}), random);
    ExpectProduct({&a, &b}, DenseLayout({batch, 3, 50, 70}));
    ExpectProduct({&a, &b, &bias}, DenseLayout({batch, 3, 50, 70}, {1, 0, 2, 3}));
  }
}

TEST(MatmulTest, PaddedRowsHaveTheSameBitsForAnyThreadCount) {
  std::mt19937_64 random(TestSeed());
  HostTensor a = RandomTensor(DType::kFloat32, {{30, 4096}, {4099, 1}, 0}, random);
  HostTensor b = RandomTensor(DType::kFloat32, {{4096, 40}, {43, 1}, 0}, random);
  ExpectProduct({&a, &b}, {{30, 40}, {50, 1}, 0});
}

// Sums of fewer than 8 terms are oneDNN's on every processor.
TEST(MatmulTest, HasTheSameBitsWhileItsTeamIsSuspended) {
  std::mt19937_64 random(TestSeed());
  ExpectSameBitsWithoutTeam({200, 5}, {5, 300}, {200, 300}, random);
  ExpectSameBitsWithoutTeam({400, 7}, {7, 64}, {400, 64}, random);
  ExpectSameBitsWithoutTeam({300, 64}, {64, 200}, {300, 200}, random);
}

TEST(MatmulTest, SumOverNothingIsTheAddend) {
  HostTensor a(DType::kFloat32, DenseLayout({2, 0}));
  HostTensor b(DType::kFloat32, DenseLayout({0, 3}));
  HostTensor bias = HostTensor(DType::kFloat32, {3}, {1, 2, 3});
  ExpectProduct({&a, &b}, DenseLayout({2, 3}));
  ExpectProduct({&a, &b, &bias}, DenseLayout({2, 3}));
}

TEST(MatmulTest, OperandsThatDoNotFitAreRejected) {
  HostTensor a(DType::kFloat32, {2, 3});
  HostTensor b(DType::kFloat32, {4, 5});
  HostTensor c(DType::kFloat32, {2, 5});
  const absl::Status status = RunOp(MakeMatmul, MatmulOp(), {&a, &b}, {&c});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("matmul: input 1 is f32[4,5], expected f32[3,5]"));
}

}  // namespace
}  // namespace cotan::cpu
