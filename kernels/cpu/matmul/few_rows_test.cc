// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/few_rows.h"

#include <random>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/matmul/avx512_gemm.h"
#include "kernels/cpu/matmul/product_cases.h"

namespace cotan::cpu {
namespace {

using testing::TestSeed;

class FewRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasAvx512Gemm()) GTEST_SKIP() << "no AVX-512";
  }
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(FewRowsTest, RandomSizesStoragesAndAddends) {
  for (int i = 0; i < 400; ++i) {
    const auto size = [&](uint64_t least, uint64_t most) {
      return static_cast<int64_t>(least + random_() % (most - least + 1));
    };
    const bool b_columns = i % 8 != 0;
    const ProductCase c = b_columns ? MakeProductCase(1, size(1, 4), size(1, 90), size(1, 200), random_() % 2 == 0,
                                                      true, size(0, 3), random_)
                                    : MakeProductCase(1, size(1, 4), size(250, 300), size(270, 300), random_() % 2 == 0,
                                                      false, size(0, 3), random_);
    ExpectProduct(c, static_cast<Addend>(random_() % 3), MakeFewRowsProduct);
  }
}

// More columns than stay in cache, and enough elements that threads share them.
TEST_F(FewRowsTest, LargeMatricesAreReadInParts) {
  for (const int64_t rows : {1, 3}) {
    ExpectProduct(MakeProductCase(1, rows, 67, 9001, false, false, 0, random_), Addend::kBias, MakeFewRowsProduct);
    ExpectProduct(MakeProductCase(1, rows, 2051, 301, true, true, 0, random_), Addend::kInOutput, MakeFewRowsProduct);
  }
}

TEST_F(FewRowsTest, AColumnIsComputedAsARow) {
  for (const bool a_columns : {false, true}) {
    ExpectProduct(MakeProductCase(1, 900, 75, 1, a_columns, false, 0, random_), Addend::kNone, MakeFewRowsProduct);
    ExpectProduct(MakeProductCase(1, 75, 900, 1, a_columns, true, 0, random_), Addend::kInOutput, MakeFewRowsProduct);
  }
}

TEST_F(FewRowsTest, MoreRowsBatchesAndSmallRowMajorMatricesAreLeftToOthers) {
  const auto takes = [&](int64_t batch, int64_t m, int64_t size, bool b_columns) {
    const ProductCase c = MakeProductCase(batch, m, size, size, false, b_columns, 0, random_);
    return MakeFewRowsProduct(c.geometry, Addend::kNone, 1) != nullptr;
  };
  EXPECT_TRUE(takes(1, 4, 64, true));
  EXPECT_FALSE(takes(1, 5, 64, true));
  EXPECT_FALSE(takes(2, 4, 64, true));
  EXPECT_TRUE(takes(1, 4, 256, false));
  EXPECT_FALSE(takes(1, 4, 64, false));
}

}  // namespace
}  // namespace cotan::cpu
