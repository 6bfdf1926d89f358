// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/score_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "testing/tolerance.h"

namespace cotan::cpu::attention {
namespace {

using testing::ErrorInEps;
using testing::TestSeed;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kScale = 0.5;
constexpr size_t kElements = kTileRows * kKeys;

template <typename T>
std::vector<T> RandomValues(size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<T> uniform(-3, 3);
  std::vector<T> values(count);
  for (T& value : values) value = uniform(random);
  return values;
}

ScoreTile RandomTile(int64_t rows, std::mt19937_64& random) {
  ScoreTile tile;
  tile.rows = rows;
  tile.keys = 1 + static_cast<int64_t>(random() % kKeys);
  tile.is_causal = random() % 2 == 0;
  tile.visible = tile.is_causal ? 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(tile.keys)) : tile.keys;
  return tile;
}

template <typename T>
class ScoreTileTest : public ::testing::Test {};
using DTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ScoreTileTest, DTypes);

TYPED_TEST(ScoreTileTest, SoftmaxOfSeveralTilesIsThatOfAllTheirKeys) {
  using T = TypeParam;
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    const auto rows = 1 + static_cast<int64_t>(random() % kTileRows);
    std::vector<T> max(kTileRows, static_cast<T>(-kInfinity)), total(kTileRows), corrections(kTileRows);
    std::vector<std::vector<double>> seen(kTileRows);
    for (int part = 0; part < 3; ++part) {
      const ScoreTile tile = RandomTile(rows, random);
      const std::vector<T> original = RandomValues<T>(kElements, random);
      std::vector<T> scores = original;
      const std::vector<T> old_max = max;
      SoftmaxOfTile<T>(tile, static_cast<T>(kScale), scores.data(), max.data(), total.data(), corrections.data());
      for (int64_t i = 0; i < rows; ++i) {
        const auto row = static_cast<size_t>(i * kKeys), keys = static_cast<size_t>(tile.keys);
        for (size_t j = row; j < row + static_cast<size_t>(tile.Visible(i)); ++j) seen[i].push_back(original[j]);
        const double largest = kScale * *std::max_element(seen[i].begin(), seen[i].end());
        std::vector<T> expected(keys);
        for (int64_t j = 0; j < tile.Visible(i); ++j) {
          expected[j] = static_cast<T>(std::exp(kScale * original[row + static_cast<size_t>(j)] - largest));
        }
        double sum = 0;
        for (const double score : seen[i]) sum += std::exp(kScale * score - largest);
        EXPECT_LE(ErrorInEps<T>({&scores[row], keys}, expected), testing::kTranscendental);
        EXPECT_EQ(max[i], static_cast<T>(largest));
        EXPECT_LE(ErrorInEps<T>({&total[i], 1}, {static_cast<T>(sum)}), testing::kReduction);
        if (part > 0) {
          const auto correction = static_cast<T>(std::exp(old_max[i] - largest));
          EXPECT_LE(ErrorInEps<T>({&corrections[i], 1}, {correction}), testing::kTranscendental);
        }
      }
    }
  }
}

TYPED_TEST(ScoreTileTest, GradientIsThatOfTheDefinitionAndZeroWhereMasked) {
  using T = TypeParam;
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    const ScoreTile tile = RandomTile(1 + static_cast<int64_t>(random() % kTileRows), random);
    const std::vector<T> old_scores = RandomValues<T>(kElements, random),
                         old_slopes = RandomValues<T>(kElements, random);
    const std::vector<T> dots = RandomValues<T>(kTileRows, random);
    std::vector<T> logsumexp(2 * kTileRows, T{2});  // every second element is read
    logsumexp[2 * (random() % kTileRows)] = static_cast<T>(-kInfinity);
    std::vector<T> scores = old_scores, slopes = old_slopes;
    SoftmaxGradientOfTile<T>(tile, static_cast<T>(kScale), T{3}, logsumexp.data(), 2, dots.data(), scores.data(),
                             slopes.data());
    for (int64_t i = 0; i < tile.rows; ++i) {
      const auto row = static_cast<size_t>(i * kKeys), keys = static_cast<size_t>(tile.keys);
      const double shift = logsumexp[2 * i];
      std::vector<T> probabilities(keys), expected(keys);
      for (size_t j = 0; j < static_cast<size_t>(tile.Visible(i)) && shift != -kInfinity; ++j) {
        const double p = std::exp(kScale * old_scores[row + j] - shift);
        probabilities[j] = static_cast<T>(p);
        expected[j] = static_cast<T>(p * (old_slopes[row + j] - dots[i]) * 3);
      }
      EXPECT_LE(ErrorInEps<T>({&scores[row], keys}, probabilities), testing::kTranscendental);
      EXPECT_LE(ErrorInEps<T>({&slopes[row], keys}, expected), testing::kTranscendental);
    }
  }
}

TYPED_TEST(ScoreTileTest, RowsThatSeeNothingYetHaveNoSumAndNanIsKept) {
  using T = TypeParam;
  const ScoreTile tile{.rows = 3, .keys = 20, .visible = 20, .is_causal = false};
  std::vector<T> scores(kElements, static_cast<T>(-kInfinity));
  scores[kKeys + 17] = std::numeric_limits<T>::quiet_NaN();
  scores[2 * kKeys + 17] = T{4};
  std::vector<T> max(kTileRows, static_cast<T>(-kInfinity)), total(kTileRows), corrections(kTileRows);
  SoftmaxOfTile<T>(tile, T{1}, scores.data(), max.data(), total.data(), corrections.data());
  EXPECT_EQ(max[0], -kInfinity);
  EXPECT_EQ(total[0], 0);
  EXPECT_EQ(scores[0], 0);
  EXPECT_TRUE(std::isnan(total[1]));
  EXPECT_TRUE(std::isnan(scores[kKeys + 17]));
  EXPECT_EQ(max[2], 4);
  EXPECT_EQ(total[2], 1);
}

TYPED_TEST(ScoreTileTest, DotProductsOfRowsOfAnySize) {
  using T = TypeParam;
  std::mt19937_64 random(TestSeed());
  for (const int64_t size : {1, 8, 16, 31, 70}) {
    for (const int64_t rows : {1, 8, 13}) {
      const std::vector<T> a = RandomValues<T>(static_cast<size_t>(rows * (size + 2)), random);
      const std::vector<T> b = RandomValues<T>(static_cast<size_t>(rows * (size + 5)), random);
      std::vector<T> dots(static_cast<size_t>(rows)), expected = dots;
      DotProductsOfRows<T>(a.data(), size + 2, b.data(), size + 5, rows, size, dots.data());
      for (int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        for (int64_t e = 0; e < size; ++e) sum += double{a[i * (size + 2) + e]} * double{b[i * (size + 5) + e]};
        expected[i] = static_cast<T>(sum);
      }
      // Terms are up to 9 in magnitude, and may cancel.
      EXPECT_LE(ErrorInEps<T>(dots, expected, /*floor=*/9), testing::kReduction) << rows << " x " << size;
    }
  }
}

}  // namespace
}  // namespace cotan::cpu::attention
