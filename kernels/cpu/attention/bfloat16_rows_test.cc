// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/bfloat16_rows.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan::cpu::attention {
namespace {

TEST(BFloat16RowsTest, EveryElementIsWidenedAndGapsAreKept) {
  constexpr int64_t kRows = 3, kColumns = 37, kFromRow = 40, kToRow = 41;
  std::vector<BFloat16> from(kRows * kFromRow);
  for (size_t i = 0; i < from.size(); ++i) from[i] = {static_cast<uint16_t>(0x3f00 + i)};
  std::vector<float> to(kRows * kToRow, -1);
  WidenRows(from.data(), kFromRow, kRows, kColumns, to.data(), kToRow);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t e = 0; e < kToRow; ++e) {
      EXPECT_EQ(to[i * kToRow + e], e < kColumns ? BFloat16ToFloat(from[i * kFromRow + e].bits) : -1);
    }
  }
}

TEST(BFloat16RowsTest, ProductsAreRoundedAsTheBaseRounds) {
  std::mt19937_64 random(testing::TestSeed());
  for (int64_t columns = 1; columns < 70; ++columns) {
    std::vector<float> from(static_cast<size_t>(columns));
    for (float& x : from) x = std::bit_cast<float>(static_cast<uint32_t>(random()));  // NaN and infinity included
    std::vector<BFloat16> to(static_cast<size_t>(columns + 1), BFloat16{0x1234});
    NarrowRow(from.data(), 0.5F, columns, to.data());
    for (int64_t e = 0; e < columns; ++e) {
      const float product = from[e] * 0.5F;
      const float stored = BFloat16ToFloat(to[e].bits);
      if (std::isnan(product)) {
        EXPECT_TRUE(std::isnan(stored));
      } else {
        EXPECT_EQ(to[e].bits, FloatToBFloat16(product)) << product;
      }
    }
    EXPECT_EQ(to[columns].bits, 0x1234);
  }
}

}  // namespace
}  // namespace cotan::cpu::attention
