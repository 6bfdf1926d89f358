// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/avx512_bf16_gemm.h"

#include <random>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/matmul/product_cases.h"

namespace cotan::cpu {
namespace {

using testing::TestSeed;

class Avx512Bf16GemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!IsMade(16, 2, 16, Addend::kNone)) {
      GTEST_SKIP() << "the processor has no AVX512_BF16";
    }
  }

  bool IsMade(int64_t m, int64_t k, int64_t n, Addend addend) {
    const ProductCase p = MakeProductCase(2, m, k, n, false, false, 0, random_, DType::kBFloat16);
    return MakeAvx512Bf16Gemm(p.geometry, addend, 1) != nullptr;
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_F(Avx512Bf16GemmTest, RandomSizesAndStorages) {
  for (int i = 0; i < 300; ++i) {
    const auto size = [&](uint64_t least, uint64_t most) {
      return static_cast<int64_t>(least + random_() % (most - least + 1));
    };
    const ProductCase p = MakeProductCase(size(2, 5), size(12, 90), 2 * size(1, 40), size(1, 150), random_() % 2 == 0,
                                          random_() % 2 == 0, size(0, 3), random_, DType::kBFloat16);
    ExpectProduct(p, Addend::kNone, MakeAvx512Bf16Gemm);
  }
}

TEST_F(Avx512Bf16GemmTest, OtherProductsAreLeftToALibrary) {
  EXPECT_TRUE(IsMade(64, 32, 64, Addend::kNone));
  EXPECT_FALSE(IsMade(64, 32, 64, Addend::kBias));
  EXPECT_FALSE(IsMade(64, 33, 64, Addend::kNone));      // an odd number of terms
  EXPECT_FALSE(IsMade(4, 32, 64, Addend::kNone));       // too few rows for packing
  EXPECT_FALSE(IsMade(512, 1024, 512, Addend::kNone));  // not in cache
}

}  // namespace
}  // namespace cotan::cpu
