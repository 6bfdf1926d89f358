// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/avx512_gemm.h"

#include <random>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/matmul/product_cases.h"

namespace cotan::cpu {
namespace {

using testing::TestSeed;

class Avx512GemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasAvx512Gemm()) {
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
    const ProductCase p = MakeProductCase(size(1, 3), size(1, 90), size(1, 66), size(1, 150), random_() % 2 == 0,
                                          random_() % 2 == 0, size(0, 3), random_);
    ExpectProduct(p, static_cast<Addend>(random_() % 3), MakeAvx512Gemm);
  }
}

TEST_F(Avx512GemmTest, LongSumsAreMadeInParts) {
  for (const bool a_columns : {false, true}) {
    for (const bool b_columns : {false, true}) {
      ExpectProduct(MakeProductCase(1, 205, 1100, 70, a_columns, b_columns, 0, random_), Addend::kBias, MakeAvx512Gemm);
      ExpectProduct(MakeProductCase(1, 205, 515, 70, a_columns, b_columns, 0, random_), Addend::kInOutput,
                    MakeAvx512Gemm);
    }
  }
}

TEST_F(Avx512GemmTest, FewRowsAreComputedAsColumnsInGroups) {
  for (const Addend addend : {Addend::kNone, Addend::kBias, Addend::kInOutput}) {
    for (const bool a_columns : {false, true}) {
      ExpectProduct(MakeProductCase(1, 32, 530, 400, a_columns, true, 1, random_), addend, MakeAvx512Gemm);
      ExpectProduct(MakeProductCase(2, 15, 40, 205, a_columns, true, 0, random_), addend, MakeAvx512Gemm);
    }
  }
}

TEST_F(Avx512GemmTest, FewRowsAndTermsAreLeftToALibrary) {
  const auto is_fast = [&](int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns) {
    return IsFastAvx512Gemm(MakeProductCase(1, m, k, n, a_columns, b_columns, 0, random_).geometry);
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
