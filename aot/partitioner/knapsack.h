// SPDX-License-Identifier: Apache-2.0

// The 0/1 knapsack problem for all capacities at once.
#ifndef COTAN_AOT_PARTITIONER_KNAPSACK_H_
#define COTAN_AOT_PARTITIONER_KNAPSACK_H_

#include <cstdint>
#include <vector>

namespace cotan::aot {

struct KnapsackItem {
  int64_t weight = 0;  // at least 0
  double value = 0;    // at least 0
};

// A set of items such that no lighter or equally heavy set is worth more, and no set of equal value is lighter.
struct KnapsackChoice {
  int64_t weight = 0;
  double value = 0;
  std::vector<int> items;  // ascending indexes
};

// Returns the choices of all capacities, from the heaviest, which has all items that weigh nothing or are worth
// something, to the lightest. The choice for a capacity is the first that is not heavier; hence a smaller capacity
// never has a heavier choice. If more than `max_choices` (at least 2) would remain after an item, the choices are
// thinned evenly by weight: those that are returned are then possible, but maybe not the best.
std::vector<KnapsackChoice> KnapsackChoices(const std::vector<KnapsackItem>& items, int max_choices);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_KNAPSACK_H_
