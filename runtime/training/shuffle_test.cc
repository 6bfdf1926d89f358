// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/shuffle.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

TEST(ShuffledOrderTest, IsAPermutationOfItsOwnForEachSeedAndEpoch) {
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int64_t> first = ShuffledOrder(1000, 5, 0);
  EXPECT_THAT(first, UnorderedElementsAreArray(all));
  EXPECT_NE(first, all);
  EXPECT_NE(first, ShuffledOrder(1000, 5, 1));
  EXPECT_NE(first, ShuffledOrder(1000, 6, 0));
  EXPECT_EQ(first, ShuffledOrder(1000, 5, 0));
}

TEST(ShuffledOrderTest, StaysTheSameInLaterVersions) {
  EXPECT_THAT(ShuffledOrder(8, 1, 0), ElementsAre(1, 3, 6, 0, 5, 2, 7, 4));
}

TEST(ShuffledOrderTest, OneExampleAndNone) {
  EXPECT_THAT(ShuffledOrder(1, 3, 4), ElementsAre(0));
  EXPECT_THAT(ShuffledOrder(0, 3, 4), IsEmpty());
}

TEST(ShuffledOrderTest, EachExampleComesToEachPlaceEquallyOften) {
  constexpr int kCount = 5, kEpochs = 10000;
  int times[kCount][kCount] = {};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<int64_t> order = ShuffledOrder(kCount, 7, static_cast<uint64_t>(epoch));
    for (size_t place = 0; place < kCount; ++place) ++times[place][order[place]];
  }
  // Five standard deviations of a binomial distribution: 5 * sqrt(10000 * 0.2 * 0.8) = 200.
  for (const auto& row : times) {
    for (const int time : row) EXPECT_NEAR(time, kEpochs / kCount, 200);
  }
}

}  // namespace
}  // namespace cotan::training
