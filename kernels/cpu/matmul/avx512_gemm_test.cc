// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/avx512_gemm.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using testing::TestSeed;

struct Product {
  MatmulGeometry geometry;
  std::vector<float> a, b, bias, c;
};

std::vector<float> Random(int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) x = value(random);
  return values;
}

// Makes matrices with `gap` unused elements after each row, or column if stored by columns.
Product MakeProduct(int64_t batch, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns, int64_t gap,
                    std::mt19937_64& random) {
  Product p;
  MatmulGeometry& g = p.geometry;
  g.m = m;
  g.k = k;
  g.n = n;
  g.a = a_columns ? MatrixStrides{1, m + gap} : MatrixStrides{k + gap, 1};
  g.b = b_columns ? MatrixStrides{1, k + gap} : MatrixStrides{n + gap, 1};
  g.c = {n + gap, 1};
  const BatchLoop loop = {batch, (m + gap) * (k + gap), (k + gap) * (n + gap), m * (n + gap)};
  if (batch > 1) g.batch.push_back(loop);
  p.a = Random(batch * loop.a, random);
  p.b = Random(batch * loop.b, random);
  p.c = Random(batch * loop.c, random);
  p.bias = Random(n, random);
  return p;
}

std::vector<float> Multiply(const Product& p, Addend addend, int threads) {
  const std::unique_ptr<Kernel> kernel = MakeAvx512Gemm(p.geometry, addend, threads);
  if (kernel == nullptr) return {};
  std::vector<float> c = p.c;
  const void* inputs[] = {p.a.data(), p.b.data(), p.bias.data()};
  void* outputs[] = {c.data()};
  const size_t bytes = kernel->scratch_bytes();
  void* const scratch = *HostDevice().Allocate(bytes);
  EXPECT_TRUE(kernel->Run({const_cast<void* const*>(inputs), outputs, scratch}).ok());
  HostDevice().Free(scratch, bytes);
  return c;
}

// Expects the result within a tolerance relative to the sum of the products' magnitudes.
void ExpectProduct(const Product& p, Addend addend) {
  SCOPED_TRACE(::testing::Message() << p.geometry.m << " " << p.geometry.k << " " << p.geometry.n << " a "
                                    << p.geometry.a.row << "," << p.geometry.a.column << " b " << p.geometry.b.row
                                    << "," << p.geometry.b.column << " addend " << static_cast<int>(addend));
  const std::vector<float> result = Multiply(p, addend, 1);
  ASSERT_EQ(result.size(), p.c.size()) << "no AVX-512 kernel was made";
  const MatmulGeometry& g = p.geometry;
  std::vector<float> expected = p.c;
  for (int64_t item = 0; item < g.BatchSize(); ++item) {
    const BatchLoop loop = g.batch.empty() ? BatchLoop{1, 0, 0, 0} : g.batch[0];
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        const auto at = static_cast<size_t>(item * loop.c + i * g.c.row + j);
        double sum = addend == Addend::kNone   ? 0.0
                     : addend == Addend::kBias ? p.bias[static_cast<size_t>(j)]
                                               : expected[at];
        double magnitude = std::abs(sum);
        for (int64_t k = 0; k < g.k; ++k) {
          const double product =
              static_cast<double>(p.a[static_cast<size_t>(item * loop.a + i * g.a.row + k * g.a.column)]) *
              static_cast<double>(p.b[static_cast<size_t>(item * loop.b + k * g.b.row + j * g.b.column)]);
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(result[at], sum, testing::kMatmul * std::numeric_limits<float>::epsilon() * magnitude)
            << item << " " << i << " " << j;
        expected[at] = result[at];
      }
    }
  }
  EXPECT_EQ(result, expected) << "elements between the rows changed";
  for (int threads : {2, 3, 7}) EXPECT_EQ(Multiply(p, addend, threads), result) << threads << " threads";
}

class Avx512GemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Multiply(MakeProduct(1, 64, 1, 1, false, false, 0, random_), Addend::kNone, 1).empty()) {
      GTEST_SKIP() << "no AVX-512";
    }
  }
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(Avx512GemmTest, RandomSizesStoragesAndAddends) {
  for (int i = 0; i < 400; ++i) {
    const auto size = [&](uint64_t least, uint64_t most) {
      return static_cast<int64_t>(least + random_() % (most - least + 1));
    };
    const Product p = MakeProduct(size(1, 3), size(1, 90), size(1, 66), size(1, 150), random_() % 2 == 0,
                                  random_() % 2 == 0, size(0, 3), random_);
    ExpectProduct(p, static_cast<Addend>(random_() % 3));
  }
}

TEST_F(Avx512GemmTest, LongSumsAreMadeInParts) {
  for (const bool a_columns : {false, true}) {
    for (const bool b_columns : {false, true}) {
      ExpectProduct(MakeProduct(1, 205, 1100, 70, a_columns, b_columns, 0, random_), Addend::kBias);
      ExpectProduct(MakeProduct(1, 205, 515, 70, a_columns, b_columns, 0, random_), Addend::kInOutput);
    }
  }
}

TEST_F(Avx512GemmTest, FewRowsAreComputedAsColumnsInGroups) {
  for (const Addend addend : {Addend::kNone, Addend::kBias, Addend::kInOutput}) {
    for (const bool a_columns : {false, true}) {
      ExpectProduct(MakeProduct(1, 32, 530, 400, a_columns, true, 1, random_), addend);
      ExpectProduct(MakeProduct(2, 15, 40, 205, a_columns, true, 0, random_), addend);
    }
  }
}

TEST_F(Avx512GemmTest, FewRowsAndTermsAreLeftToALibrary) {
  const auto is_fast = [&](int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns) {
    return IsFastAvx512Gemm(MakeProduct(1, m, k, n, a_columns, b_columns, 0, random_).geometry);
  };
  EXPECT_TRUE(is_fast(512, 512, 64, true, false));
  EXPECT_TRUE(is_fast(32, 784, 256, false, true));
  EXPECT_TRUE(is_fast(32, 128, 33, false, true));
  EXPECT_TRUE(is_fast(16, 128, 10, false, true));
  EXPECT_TRUE(is_fast(1, 64, 64, false, false));
  EXPECT_FALSE(is_fast(8, 64, 64, false, true));
  EXPECT_FALSE(is_fast(64, 4, 64, true, false));
}

}  // namespace
}  // namespace cotan::cpu
