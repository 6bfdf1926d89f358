// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/simd/amx_tiles.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan::cpu::amx {
namespace {

using testing::TestSeed;

struct alignas(64) Packed {
  uint16_t elements[3 * kStepElements];
};

std::vector<uint16_t> Random(size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<uint16_t> values(count);
  for (uint16_t& x : values) x = FloatToBFloat16(value(random));
  return values;
}

class AmxTilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!IsAvailable()) {
      GTEST_SKIP() << "the processor has no AMX";
    }
  }
  std::mt19937_64 random_{TestSeed()};
};

// Both storages of both matrices, in blocks with missing rows, columns and terms.
TEST_F(AmxTilesTest, ProductsOfPackedLines) {
  for (const int64_t depths : {1, 31, 33, 70}) {
    for (const int64_t rows : {5, 16, 17, 32}) {
      for (const int64_t columns : {3, 32}) {
        for (const bool contiguous_depth : {false, true}) {
          const std::vector<uint16_t> a = Random(static_cast<size_t>(rows * depths), random_);
          const std::vector<uint16_t> b = Random(static_cast<size_t>(columns * depths), random_);
          const auto lines_of = [&](const std::vector<uint16_t>& matrix, int64_t lines) {
            return contiguous_depth ? Lines{matrix.data(), depths, 1} : Lines{matrix.data(), 1, lines};
          };
          const Lines left = lines_of(a, rows), right = lines_of(b, columns);
          Packed packed_left, packed_right;
          PackLines(left, rows, depths, /*pairs_are_rows=*/false, packed_left.elements);
          PackLines(right, columns, depths, /*pairs_are_rows=*/true, packed_right.elements);
          std::vector<float> sums(kBlock * 40, 1);
          Block block = BlockOfPacked(packed_left.elements, packed_right.elements, (depths + kDepth - 1) / kDepth);
          block.continues = true;
          block.sums = sums.data();
          block.sums_row = 40;
          const Config config = ConfigOf(rows);
          {
            Registers registers;
            registers.Use(config);
            Multiply(block, rows, columns);
          }
          for (int64_t i = 0; i < kBlock; ++i) {
            for (int64_t j = 0; j < 40; ++j) {
              double sum = 1;
              for (int64_t k = 0; k < depths && i < rows && j < columns; ++k) {
                sum += static_cast<double>(BFloat16ToFloat(left.data[i * left.line + k * left.depth])) *
                       static_cast<double>(BFloat16ToFloat(right.data[j * right.line + k * right.depth]));
              }
              if (i >= rows ? i < (rows > kLines ? kBlock : kLines) : j >= columns && j < kBlock) continue;
              ASSERT_NEAR(sums[static_cast<size_t>(i * 40 + j)], sum, 1e-5)
                  << rows << " " << depths << " " << i << " " << j;
            }
          }
        }
      }
    }
  }
}

// Terms at places of their own, of which the right matrix begins some k later than the left one.
TEST_F(AmxTilesTest, ProductsOfTermsAtPlaces) {
  constexpr int64_t kSteps = 2, kTerms = kSteps * kDepth, kMaxShift = 5;
  for (const int64_t lines : {3, 16, 17, 32}) {
    const std::vector<uint16_t> a = Random(static_cast<size_t>(kTerms * kBlock), random_);
    const std::vector<uint16_t> b = Random(static_cast<size_t>((kTerms + kMaxShift + 1) * kBlock), random_);
    std::vector<const uint16_t*> a_places, b_places;
    for (int64_t k = 0; k < kTerms; ++k) a_places.push_back(&a[static_cast<size_t>((k * 7) % kTerms * kBlock)]);
    for (int64_t k = 0; k <= kTerms + kMaxShift; ++k) b_places.push_back(&b[static_cast<size_t>(k * kBlock)]);
    constexpr int64_t kPairs = (kTerms + kMaxShift) / 2;
    Packed left;
    struct alignas(64) {
      uint16_t elements[kPairs * 2 * kBlock];
    } even, odd, only_even;
    for (int64_t step = 0; step < kSteps; ++step) {
      PackRowsOf({a_places.data() + step * kDepth, 0}, lines, left.elements + step * kStepElements);
    }
    PackColumnsOf({b_places.data(), 0}, kPairs, lines, even.elements, odd.elements);
    PackColumnsOf({b_places.data(), 0}, kPairs, lines, only_even.elements, nullptr);
    EXPECT_EQ(std::memcmp(&even, &only_even, sizeof(even)), 0);
    for (const int64_t shift : {int64_t{0}, int64_t{1}, int64_t{2}, kMaxShift - 1}) {
      const uint16_t* const right = (shift % 2 == 0 ? even : odd).elements + shift / 2 * 2 * kBlock;
      std::vector<float> sums(kBlock * kBlock);
      Block block = BlockOfPacked(left.elements, right, kSteps);
      block.b_row = 4 * kBlock;
      block.b_right = kDepth;
      block.sums = sums.data();
      const Config config = ConfigOf(lines);
      {
        Registers registers;
        registers.Use(config);
        Multiply(block, lines, lines);
      }
      for (int64_t i = 0; i < lines; ++i) {
        for (int64_t j = 0; j < lines; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < kTerms; ++k) {
            sum += static_cast<double>(BFloat16ToFloat(a_places[static_cast<size_t>(k)][i])) *
                   static_cast<double>(BFloat16ToFloat(b_places[static_cast<size_t>(k + shift)][j]));
          }
          ASSERT_NEAR(sums[static_cast<size_t>(i * kBlock + j)], sum, 1e-5) << lines << " " << shift << " " << i;
        }
      }
    }
  }
}

TEST_F(AmxTilesTest, TransposedSumsAreRoundedAsScalarsAre) {
  std::normal_distribution<float> normal;
  std::vector<float> from(16 * 40);
  for (float& x : from) x = normal(random_);
  for (const int64_t rows : {1, 9, 16}) {
    for (const int64_t columns : {1, 7, 20}) {
      std::vector<uint16_t> to(16 * 20, 0xffff);
      RoundTransposed(from.data(), 40, rows, columns, to.data(), 20);
      for (int64_t c = 0; c < 16; ++c) {
        for (int64_t r = 0; r < 20; ++r) {
          const bool is_written = c < columns && r < rows;
          EXPECT_EQ(to[static_cast<size_t>(c * 20 + r)],
                    is_written ? FloatToBFloat16(from[static_cast<size_t>(r * 40 + c)]) : 0xffff)
              << rows << " " << columns << " " << r << " " << c;
        }
      }
    }
  }
}

TEST_F(AmxTilesTest, SumsApartAreRoundedAsScalarsAre) {
  std::normal_distribution<float> normal;
  for (const int64_t stride : {1, 3, 5}) {
    for (const int64_t count : {1, 16, 21}) {
      std::vector<float> from(static_cast<size_t>((count - 1) * stride + 1));
      for (float& x : from) x = normal(random_);
      std::vector<uint16_t> to(static_cast<size_t>(count + 1), 0xffff);
      RoundStrided(from.data(), stride, count, to.data());
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(to[static_cast<size_t>(i)], FloatToBFloat16(from[static_cast<size_t>(i * stride)])) << stride << i;
      }
      EXPECT_EQ(to.back(), 0xffff);
    }
  }
}

TEST_F(AmxTilesTest, RowsAreRoundedAsScalarsAreAndPadded) {
  std::normal_distribution<float> normal;
  std::vector<float> from(2 * 50);
  for (float& x : from) x = normal(random_);
  from[3] = std::numeric_limits<float>::infinity();
  from[4] = 1 + 1.0F / 256;  // a tie
  std::vector<uint16_t> to(2 * 64, 0xffff);
  RoundRows(from.data(), 50, 2, 45, 64, to.data(), 64);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t e = 0; e < 64; ++e) {
      EXPECT_EQ(to[i * 64 + e], e < 45 ? FloatToBFloat16(from[i * 50 + e]) : 0) << i << " " << e;
    }
  }
}

}  // namespace
}  // namespace cotan::cpu::amx
