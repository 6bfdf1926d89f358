// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/amx_bf16_gemm.h"

#include <limits>
#include <random>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/matmul/product_cases.h"
#include "kernels/cpu/simd/amx_tiles.h"

namespace cotan::cpu {
namespace {

using testing::TestSeed;

class AmxBf16GemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!amx::IsAvailable()) {
      GTEST_SKIP() << "the processor has no AMX";
    }
  }

  ProductCase MakeCase(int64_t batch, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns, int64_t gap) {
    return MakeProductCase(batch, m, k, n, a_columns, b_columns, gap, random_, DType::kBFloat16);
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_F(AmxBf16GemmTest, RandomSizesStoragesAndAddends) {
  for (int i = 0; i < 400; ++i) {
    const auto size = [&](uint64_t least, uint64_t most) {
      return static_cast<int64_t>(least + random_() % (most - least + 1));
    };
    const ProductCase p = MakeCase(size(1, 9), size(2, 90), size(5, 140), size(1, 150), random_() % 2 == 0,
                                   random_() % 2 == 0, size(0, 3));
    ExpectProduct(p, static_cast<Addend>(random_() % 3), MakeAmxBf16Gemm);
  }
}

TEST_F(AmxBf16GemmTest, WholeTilesAreReadInPlace) {
  for (const Addend addend : {Addend::kNone, Addend::kBias, Addend::kInOutput}) {
    for (const int64_t m : {32, 48, 65})
      ExpectProduct(MakeCase(2, m, 64, 96, false, true, 32), addend, MakeAmxBf16Gemm);
  }
}

TEST_F(AmxBf16GemmTest, LongSumsAreMadeInParts) {
  for (const bool a_columns : {false, true}) {
    ExpectProduct(MakeCase(1, 65, 515, 300, a_columns, false, 0), Addend::kInOutput, MakeAmxBf16Gemm);
    // More than a packed panel has, of more rows than whose sums are kept.
    ExpectProduct(MakeCase(1, 530, 2100, 70, a_columns, true, 0), Addend::kBias, MakeAmxBf16Gemm);
  }
}

TEST_F(AmxBf16GemmTest, ManyRowsOfFewColumnsAreShared) {
  ExpectProduct(MakeCase(1, 1000, 64, 10, false, true, 0), Addend::kNone, MakeAmxBf16Gemm);
  ExpectProduct(MakeCase(1, 1000, 64, 10, true, false, 0), Addend::kNone, MakeAmxBf16Gemm);
}

TEST_F(AmxBf16GemmTest, ColumnsAndTermsOutsideOfTheMatricesAreNotRead) {
  ProductCase p = MakeCase(1, 33, 40, 35, false, false, 5);
  const auto poison = [](std::vector<float>& values, int64_t row, int64_t columns) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (static_cast<int64_t>(i) % row >= columns) values[i] = std::numeric_limits<float>::quiet_NaN();
    }
  };
  poison(p.a, p.geometry.a.row, p.geometry.k);
  poison(p.b, p.geometry.b.row, p.geometry.n);
  ExpectProduct(p, Addend::kNone, MakeAmxBf16Gemm);
}

TEST_F(AmxBf16GemmTest, OneRowAndFewTermsAreLeftToALibrary) {
  const auto is_made = [&](int64_t batch, int64_t m, int64_t k, int64_t n) {
    return MakeAmxBf16Gemm(MakeCase(batch, m, k, n, false, false, 0).geometry, Addend::kNone, 1) != nullptr;
  };
  EXPECT_TRUE(is_made(1, 64, 32, 64));
  EXPECT_TRUE(is_made(8, 1, 4, 64));
  EXPECT_FALSE(is_made(1, 1, 32, 64));
  EXPECT_FALSE(is_made(1, 64, 4, 64));
}

}  // namespace
}  // namespace cotan::cpu
