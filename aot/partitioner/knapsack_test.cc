// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/knapsack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace cotan::aot {
namespace {

// Returns the first choice of at most `capacity`.
KnapsackChoice ChoiceFor(int64_t capacity, const std::vector<KnapsackChoice>& choices) {
  return *std::find_if(choices.begin(), choices.end(),
                       [capacity](const KnapsackChoice& choice) { return choice.weight <= capacity; });
}

TEST(KnapsackTest, OfThreeEqualItemsOneFitsIntoItsOwnWeight) {
  const auto choices = KnapsackChoices({{1, 1}, {1, 1}, {1, 1}}, 100);
  EXPECT_EQ(ChoiceFor(1, choices).weight, 1);
  EXPECT_EQ(ChoiceFor(1, choices).items.size(), 1u);
  EXPECT_EQ(ChoiceFor(0, choices).items.size(), 0u);
  EXPECT_EQ(ChoiceFor(3, choices).items, (std::vector<int>{0, 1, 2}));
}

TEST(KnapsackTest, ValueCountsMoreThanWeight) {
  // 28 of 40: the two that are worth more; 12: the most valuable.
  const auto choices = KnapsackChoices({{16, 64}, {12, 72}, {12, 24}}, 100);
  EXPECT_EQ(ChoiceFor(28, choices).items, (std::vector<int>{0, 1}));
  EXPECT_EQ(ChoiceFor(16, choices).items, (std::vector<int>{1}));
}

TEST(KnapsackTest, RandomChoicesAreTheBestOfEveryCapacity) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<KnapsackItem> items(random() % 9);
    for (KnapsackItem& item : items) item = {static_cast<int64_t>(random() % 12), static_cast<double>(random() % 9)};
    const auto choices = KnapsackChoices(items, 1 << 10);
    for (int64_t capacity = 0; capacity < 110; ++capacity) {
      double best = 0;
      for (uint32_t set = 0; set < 1u << items.size(); ++set) {
        int64_t weight = 0;
        double value = 0;
        for (size_t i = 0; i < items.size(); ++i) {
          if ((set >> i & 1) == 0) continue;
          weight += items[i].weight;
          value += items[i].value;
        }
        if (weight <= capacity) best = std::max(best, value);
      }
      const KnapsackChoice choice = ChoiceFor(capacity, choices);
      ASSERT_EQ(choice.value, best) << trial << " " << capacity;
      int64_t weight = 0;
      double value = 0;
      for (const int item : choice.items) {
        weight += items[static_cast<size_t>(item)].weight;
        value += items[static_cast<size_t>(item)].value;
      }
      ASSERT_EQ(weight, choice.weight);
      ASSERT_EQ(value, choice.value);
    }
  }
}

TEST(KnapsackTest, ThinnedChoicesStayPossibleAndInOrder) {
  std::mt19937 random(5);
  std::vector<KnapsackItem> items(60);
  for (KnapsackItem& item : items) {
    item = {static_cast<int64_t>(random() % 1000000), 1 + static_cast<double>(random() % 1000)};
  }
  const auto choices = KnapsackChoices(items, 16);
  EXPECT_LE(choices.size(), 16u);
  EXPECT_GE(choices.size(), 8u);
  EXPECT_EQ(choices.front().items.size(), items.size());
  EXPECT_EQ(choices.back().items.size(), 0u);
  for (size_t i = 1; i < choices.size(); ++i) {
    EXPECT_LT(choices[i].weight, choices[i - 1].weight);
    EXPECT_LT(choices[i].value, choices[i - 1].value);
  }
}

}  // namespace
}  // namespace cotan::aot
