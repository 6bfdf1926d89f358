// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/avx512_bf16_gemm.h"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "kernels/cpu/matmul/product_cases.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using testing::TestSeed;

struct Bf16Product {
  MatmulGeometry geometry;
  std::vector<uint16_t> a, b, c;
};

std::vector<uint16_t> RandomBf16(int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& x : values) x = FloatToBFloat16(value(random));
  return values;
}

// Makes matrices with `gap` unused elements after each row, or column if stored by columns.
Bf16Product MakeBf16Product(int64_t batch, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns, int64_t gap,
                            std::mt19937_64& random) {
  Bf16Product p;
  MatmulGeometry& g = p.geometry;
  g = MakeProductGeometry(batch, m, k, n, a_columns, b_columns, gap);
  p.a = RandomBf16(batch * g.batch[0].a, random);
  p.b = RandomBf16(batch * g.batch[0].b, random);
  p.c = RandomBf16(batch * g.batch[0].c, random);
  return p;
}

std::vector<uint16_t> Multiply(const Bf16Product& p, int threads) {
  const std::unique_ptr<Kernel> kernel = MakeAvx512Bf16Gemm(p.geometry, Addend::kNone, threads);
  if (kernel == nullptr) return {};
  std::vector<uint16_t> c = p.c;
  const void* inputs[] = {p.a.data(), p.b.data()};
  void* outputs[] = {c.data()};
  const size_t bytes = kernel->scratch_bytes();
  void* const scratch = *HostDevice().Allocate(bytes);
  EXPECT_TRUE(kernel->Run({const_cast<void* const*>(inputs), outputs, scratch}).ok());
  HostDevice().Free(scratch, bytes);
  return c;
}

// Expects the result within a rounding to bf16, and the elements between the rows as they were.
void ExpectProduct(const Bf16Product& p) {
  const MatmulGeometry& g = p.geometry;
  SCOPED_TRACE(::testing::Message() << g.m << " " << g.k << " " << g.n << " a " << g.a.row << "," << g.a.column << " b "
                                    << g.b.row << "," << g.b.column);
  const std::vector<uint16_t> result = Multiply(p, 1);
  ASSERT_EQ(result.size(), p.c.size()) << "no kernel was made";
  constexpr double kEpsilon = 1.0 / 256;  // of bf16
  std::vector<uint16_t> expected = p.c;
  for (int64_t item = 0; item < g.BatchSize(); ++item) {
    const BatchLoop& loop = g.batch[0];
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < g.k; ++k) {
          const double product =
              static_cast<double>(
                  BFloat16ToFloat(p.a[static_cast<size_t>(item * loop.a + i * g.a.row + k * g.a.column)])) *
              static_cast<double>(
                  BFloat16ToFloat(p.b[static_cast<size_t>(item * loop.b + k * g.b.row + j * g.b.column)]));
          sum += product;
          magnitude += std::abs(product);
        }
        const auto at = static_cast<size_t>(item * loop.c + i * g.c.row + j);
        const double tolerance =
            kEpsilon * std::abs(sum) + testing::kMatmul * std::numeric_limits<float>::epsilon() * magnitude;
        ASSERT_NEAR(static_cast<double>(BFloat16ToFloat(result[at])), sum, tolerance) << item << " " << i << " " << j;
        expected[at] = result[at];
      }
    }
  }
  EXPECT_EQ(result, expected) << "elements between the rows changed";
  for (const int threads : {2, 5}) EXPECT_EQ(Multiply(p, threads), result) << threads << " threads";
}

class Avx512Bf16GemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Multiply(MakeBf16Product(2, 16, 2, 16, false, false, 0, random_), 1).empty()) {
      GTEST_SKIP() << "the processor has no AVX512_BF16";
    }
  }
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(Avx512Bf16GemmTest, RandomSizesAndStorages) {
  for (int i = 0; i < 300; ++i) {
    const auto size = [&](uint64_t least, uint64_t most) {
      return static_cast<int64_t>(least + random_() % (most - least + 1));
    };
    ExpectProduct(MakeBf16Product(size(2, 5), size(12, 90), 2 * size(1, 40), size(1, 150), random_() % 2 == 0,
                                  random_() % 2 == 0, size(0, 3), random_));
  }
}

TEST_F(Avx512Bf16GemmTest, OtherProductsAreLeftToALibrary) {
  const auto is_made = [&](int64_t m, int64_t k, int64_t n, Addend addend) {
    return MakeAvx512Bf16Gemm(MakeBf16Product(2, m, k, n, false, false, 0, random_).geometry, addend, 1) != nullptr;
  };
  EXPECT_TRUE(is_made(64, 32, 64, Addend::kNone));
  EXPECT_FALSE(is_made(64, 32, 64, Addend::kBias));
  EXPECT_FALSE(is_made(64, 33, 64, Addend::kNone));      // an odd number of terms
  EXPECT_FALSE(is_made(4, 32, 64, Addend::kNone));       // too few rows for packing
  EXPECT_FALSE(is_made(512, 1024, 512, Addend::kNone));  // not in cache
}

}  // namespace
}  // namespace cotan::cpu
