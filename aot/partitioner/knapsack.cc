// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/knapsack.h"

#include <algorithm>
#include <utility>

namespace cotan::aot {
namespace {

// A set of items as a list that shares its tail with others.
struct Partial {
  int64_t weight = 0;
  double value = 0;
  int item = -1;  // the last one; -1: none
  int rest = -1;  // index of the set without it, among all sets made so far
};

// Keeps, in ascending order of weight, the sets that are worth more than all lighter ones.
std::vector<Partial> Undominated(std::vector<Partial> sets) {
  std::stable_sort(sets.begin(), sets.end(), [](const Partial& a, const Partial& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.value > b.value;
  });
  std::vector<Partial> kept;
  for (const Partial& set : sets) {
    if (kept.empty() || set.value > kept.back().value) kept.push_back(set);
  }
  return kept;
}

// Keeps the lightest, the heaviest, and of the others the most valuable of each interval of weight.
std::vector<Partial> Thinned(const std::vector<Partial>& sets, int max_sets) {
  if (static_cast<int>(sets.size()) <= max_sets) return sets;
  const int64_t lightest = sets.front().weight;
  const auto width = static_cast<double>(sets.back().weight - lightest) / (max_sets - 1);
  std::vector<Partial> kept = {sets.front()};
  int interval = 0;  // of the last kept set
  for (size_t i = 1; i < sets.size(); ++i) {
    const int own = 1 + static_cast<int>(static_cast<double>(sets[i].weight - lightest) / width);
    const bool is_heaviest_of_interval =
        i + 1 == sets.size() || 1 + static_cast<int>(static_cast<double>(sets[i + 1].weight - lightest) / width) != own;
    if (!is_heaviest_of_interval) continue;
    if (own == interval && i + 1 == sets.size()) kept.pop_back();
    kept.push_back(sets[i]);
    interval = own;
  }
  if (static_cast<int>(kept.size()) > max_sets) kept.erase(kept.begin() + 1);
  return kept;
}

}  // namespace

std::vector<KnapsackChoice> KnapsackChoices(const std::vector<KnapsackItem>& items, int max_choices) {
  std::vector<Partial> made = {Partial()};  // all sets that others refer to
  std::vector<Partial> sets = {Partial()};
  std::vector<int> index = {0};  // of each set among `made`
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<Partial> all = sets;
    // A set that goes on unchanged is found again among `made` by its own item and rest.
    for (size_t s = 0; s < sets.size(); ++s) {
      all[s].rest = index[s];
      all[s].item = -1;
    }
    for (size_t s = 0; s < sets.size(); ++s) {
      all.push_back({sets[s].weight + items[i].weight, sets[s].value + items[i].value, static_cast<int>(i), index[s]});
    }
    sets = Thinned(Undominated(std::move(all)), max_choices);
    index.clear();
    for (const Partial& set : sets) {
      if (set.item < 0) {
        index.push_back(set.rest);
        continue;
      }
      index.push_back(static_cast<int>(made.size()));
      made.push_back(set);
    }
  }
  std::vector<KnapsackChoice> choices;
  for (size_t s = sets.size(); s-- > 0;) {
    KnapsackChoice& choice = choices.emplace_back(KnapsackChoice{sets[s].weight, sets[s].value, {}});
    for (int at = index[s]; at > 0; at = made[static_cast<size_t>(at)].rest) {
      choice.items.push_back(made[static_cast<size_t>(at)].item);
    }
    std::reverse(choice.items.begin(), choice.items.end());
  }
  return choices;
}

}  // namespace cotan::aot
