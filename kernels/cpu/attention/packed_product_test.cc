// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/packed_product.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "testing/tolerance.h"

namespace cotan::cpu::attention {
namespace {

using testing::ErrorInEps;
using testing::TestSeed;

template <typename T>
class PackedProductTest : public ::testing::Test {};
using DTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PackedProductTest, DTypes);

// Elements beside the result keep their values.
TYPED_TEST(PackedProductTest, SetsOrAddsTheProductOfAnySize) {
  using T = TypeParam;
  constexpr T kGap = -7;
  std::mt19937_64 random(TestSeed());
  std::uniform_real_distribution<T> uniform(-1, 1);
  for (int round = 0; round < 200; ++round) {
    const auto pick = [&](uint64_t most) { return 1 + static_cast<int64_t>(random() % most); };
    const int64_t rows = pick(20), columns = pick(70), packed_depth = pick(40), c_row = columns + 3;
    const int64_t depth = pick(static_cast<uint64_t>(packed_depth));
    const bool is_transposed = random() % 2 == 0, adds = random() % 2 == 0;
    std::vector<T> a(static_cast<size_t>(rows * packed_depth)), b(static_cast<size_t>(packed_depth * columns));
    for (T& x : a) x = uniform(random);
    for (T& x : b) x = uniform(random);
    const int64_t a_row = is_transposed ? 1 : packed_depth, a_column = is_transposed ? rows : 1;
    std::vector<T> panels(static_cast<size_t>(PackedSize<T>(packed_depth, columns)));
    PackPanels(b.data(), columns, 1, packed_depth, columns, panels.data());
    std::vector<T> c(static_cast<size_t>(rows * c_row), kGap), expected = c;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = adds ? double{kGap} : 0;
        for (int64_t k = 0; k < depth; ++k) sum += double{a[i * a_row + k * a_column]} * double{b[k * columns + j]};
        expected[i * c_row + j] = static_cast<T>(sum);
      }
    }
    MultiplyTilePacked<T>(a.data(), a_row, a_column, panels.data(), packed_depth, rows, columns, depth, c.data(), c_row,
                          adds);
    EXPECT_LE(ErrorInEps<T>(c, expected), testing::kMatmul) << rows << " x " << columns << " x " << depth;
    for (int64_t i = 0; i < rows; ++i) EXPECT_EQ(c[i * c_row + columns], kGap);
  }
}

}  // namespace
}  // namespace cotan::cpu::attention
