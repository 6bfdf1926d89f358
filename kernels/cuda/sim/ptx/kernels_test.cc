// SPDX-License-Identifier: Apache-2.0

// Correct kernels, compiled by nvcc, give the expected numbers without a report.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/cuda/sim/ptx/float_rounding.h"
#include "kernels/cuda/sim/ptx/plain_memory.h"
#include "kernels/cuda/sim/ptx/ptx_parser.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

class KernelsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  // Runs a kernel of testdata/kernels.cu.
  Counters Run(const std::string& kernel, uint32_t blocks, uint32_t threads, ParameterBuffer& parameters,
               int64_t shared = 0) {
    std::ifstream file("kernels/cuda/sim/ptx/testdata/kernels.ptx");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const absl::StatusOr<Module> module = ParsePtx(text);
    EXPECT_TRUE(module.ok()) << module.status();
    if (!module.ok()) return {};
    memory_.set_direct(GetParam() != 2);
    const Launch launch{.grid = {blocks, 1, 1},
                        .block = {threads, 1, 1},
                        .dynamic_shared_bytes = shared,
                        .parameters = parameters.Take(),
                        .seed = GetParam()};
    const absl::StatusOr<Counters> counters = RunKernel(*module, kernel, launch, memory_);
    EXPECT_TRUE(counters.ok()) << counters.status();
    return counters.value_or(Counters());
  }

  std::vector<float> Random(int count, float scale) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> distribution(-scale, scale);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random);
    return values;
  }

  PlainMemory memory_;
};

TEST_P(KernelsTest, Softmax) {
  constexpr int kRows = 3, kColumns = 1024;
  const std::vector<float> x = Random(kRows * kColumns, 4.0f);
  const uint64_t dx = memory_.Put(x), dy = memory_.Allocate(x.size() * 4);
  const Counters counters = Run("softmax", kRows, 256, ParameterBuffer().Add(dx).Add(dy).Add(kColumns / 4));
  const std::vector<float> y = memory_.Get<float>(dy, x.size());
  for (int row = 0; row < kRows; ++row) {
    const float* v = &x[row * kColumns];
    const double greatest = *std::max_element(v, v + kColumns);
    double sum = 0;
    for (int i = 0; i < kColumns; ++i) sum += std::exp(v[i] - greatest);
    for (int i = 0; i < kColumns; ++i) {
      const double expected = std::exp(v[i] - greatest) / sum;
      EXPECT_NEAR(y[row * kColumns + i], expected, 1e-6 * expected);
    }
  }
  // x is read three times and y written once, in whole sectors.
  EXPECT_EQ(counters.global_load_bytes, 3 * x.size() * 4);
  EXPECT_EQ(counters.global_load_sectors, 3 * x.size() * 4 / 32);
  EXPECT_EQ(counters.distinct_load_sectors, x.size() * 4 / 32);
  EXPECT_EQ(counters.global_store_bytes, x.size() * 4);
  EXPECT_EQ(counters.global_store_sectors, x.size() * 4 / 32);
  EXPECT_EQ(counters.distinct_store_sectors, x.size() * 4 / 32);
  EXPECT_EQ(counters.shared_bank_conflicts, 0);
}

TEST_P(KernelsTest, Functions) {
  constexpr int kCount = 100;
  const std::vector<float> x = Random(kCount, 5.0f);
  const uint64_t dx = memory_.Put(x), dy = memory_.Allocate(10 * kCount * 4);
  Run("functions", 1, 128, ParameterBuffer().Add(dx).Add(dy).Add(kCount));
  const std::vector<float> y = memory_.Get<float>(dy, 10 * kCount);
  for (int i = 0; i < kCount; ++i) {
    const double v = x[i], magnitude = std::fabs(v);
    const double expected[10] = {std::tanh(v),
                                 std::erf(v),
                                 std::sin(v),
                                 std::log(magnitude),
                                 std::pow(magnitude, 1.7f),
                                 std::sqrt(magnitude),
                                 1 / std::sqrt(magnitude),
                                 std::nearbyint(v),
                                 std::fmod(x[i], 0.7f),
                                 std::exp(v)};
    for (int f = 0; f < 10; ++f) {
      EXPECT_NEAR(y[f * kCount + i], expected[f], 1e-6 * std::max(0.1, std::fabs(expected[f]))) << f << " of " << v;
    }
  }
}

TEST_P(KernelsTest, Halves) {
  constexpr int kCount = 40;
  constexpr ScalarType kHalf = {TypeClass::kFloat, 16}, kBfloat = {TypeClass::kBfloat, 16};
  std::vector<uint16_t> x(2 * kCount), y(2 * kCount), a(kCount), b(kCount);
  const std::vector<float> values = Random(2 * kCount, 3.0f);
  for (int i = 0; i < 2 * kCount; ++i) {
    x[i] = EncodeFloat(values[i], kHalf, Rounding::kNearestEven);
    y[i] = EncodeFloat(values[2 * kCount - 1 - i], kHalf, Rounding::kNearestEven);
    if (i < kCount) a[i] = EncodeFloat(values[i], kBfloat, Rounding::kNearestEven);
    if (i < kCount) b[i] = EncodeFloat(values[i + kCount], kBfloat, Rounding::kNearestEven);
  }
  const uint64_t dz = memory_.Allocate(4 * kCount), dc = memory_.Allocate(2 * kCount);
  Run("halves", 2, 32,
      ParameterBuffer()
          .Add(memory_.Put(x))
          .Add(memory_.Put(y))
          .Add(dz)
          .Add(memory_.Put(a))
          .Add(memory_.Put(b))
          .Add(dc)
          .Add(kCount));
  const auto z = memory_.Get<uint16_t>(dz, 2 * kCount), c = memory_.Get<uint16_t>(dc, kCount);
  for (int i = 0; i < 2 * kCount; ++i) {
    const double exact = DecodeFloat(x[i], kHalf) * DecodeFloat(y[i], kHalf) + DecodeFloat(x[i], kHalf);
    EXPECT_EQ(z[i], EncodeFloat(exact, kHalf, Rounding::kNearestEven));
  }
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(c[i],
              EncodeFloat(DecodeFloat(a[i], kBfloat) * DecodeFloat(b[i], kBfloat), kBfloat, Rounding::kNearestEven));
  }
}

TEST_P(KernelsTest, Integers) {
  constexpr int kCount = 64;
  std::mt19937_64 random(3);
  std::vector<int64_t> x(kCount);
  std::vector<int32_t> d(kCount);
  for (int i = 0; i < kCount; ++i) {
    x[i] = static_cast<int64_t>(random());
    d[i] = static_cast<int32_t>(random() >> (32 + i % 20)) | 1;
  }
  const uint64_t dy = memory_.Allocate(6 * kCount * 8);
  Run("integers", 2, 32, ParameterBuffer().Add(memory_.Put(x)).Add(memory_.Put(d)).Add(dy).Add(kCount));
  const auto y = memory_.Get<int64_t>(dy, 6 * kCount);
  for (int i = 0; i < kCount; ++i) {
    const auto u = static_cast<uint32_t>(d[i]);
    EXPECT_EQ(y[i], x[i] / d[i]);
    EXPECT_EQ(y[kCount + i], x[i] % d[i]);
    EXPECT_EQ(y[2 * kCount + i], static_cast<int64_t>((static_cast<__int128>(x[i]) * x[i]) >> 64));
    EXPECT_EQ(y[3 * kCount + i], std::popcount(static_cast<uint64_t>(x[i])) +
                                     100 * std::countl_zero(static_cast<uint64_t>(x[i])) +
                                     10000 * (std::countr_zero(u) + 1));
    uint32_t reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed = reversed << 1 | (u >> bit & 1);
    const uint32_t permuted = (u & 255) | (i & 255) << 8 | (u >> 8 & 255) << 16;  // Selectors 0, 4, 1, 5.
    EXPECT_EQ(static_cast<uint32_t>(y[4 * kCount + i]),
              static_cast<uint32_t>(uint64_t{u} * 0xdeadbeef >> 32) ^ reversed ^ permuted);
    const uint32_t funnel = static_cast<uint32_t>(i) << 7 | u >> 25;
    EXPECT_EQ(static_cast<uint32_t>(y[5 * kCount + i]), funnel / 9 + (d[i] >> 3) + std::min(d[i], -5));
  }
}

TEST_P(KernelsTest, CallsFromDivergentCode) {
  const std::vector<float> x = Random(100, 2.0f);
  const uint64_t dy = memory_.Allocate(400);
  Run("calls", 1, 128, ParameterBuffer().Add(memory_.Put(x)).Add(dy).Add(100));
  const auto y = memory_.Get<float>(dy, 100);
  for (int i = 0; i < 100; ++i) {
    const double v = x[i];
    const double expected = v > 0 ? (((v - 2) * v + 0.5) * v + 3) * v - 1.5 + 1 : (-2 * v + 0.5) * v + 3;
    EXPECT_NEAR(y[i], expected, 1e-5);
  }
}

// The last block reads what others wrote, ordered by fences and an atomic: not a race.
TEST_P(KernelsTest, LastBlockSums) {
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 1.0f);
  const uint64_t partial = memory_.Allocate(16), done = memory_.Put(std::vector<uint32_t>{0});
  const uint64_t result = memory_.Allocate(4);
  Run("sum_all", 4, 256, ParameterBuffer().Add(memory_.Put(x)).Add(partial).Add(done).Add(result).Add(1000), 1024);
  EXPECT_EQ(memory_.Get<float>(result, 1)[0], 500500.0f);
}

TEST_P(KernelsTest, Histogram) {
  std::vector<uint8_t> x(3000);
  std::vector<uint32_t> expected(256);
  for (size_t i = 0; i < x.size(); ++i) ++expected[x[i] = static_cast<uint8_t>(i * i)];
  const uint64_t counts = memory_.Put(std::vector<uint32_t>(256));
  Run("histogram", 3, 128, ParameterBuffer().Add(memory_.Put(x)).Add(counts).Add(3000));
  EXPECT_EQ(memory_.Get<uint32_t>(counts, 256), expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KernelsTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace cotan::cuda::ptx
