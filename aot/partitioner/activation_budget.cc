// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/activation_budget.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aot/partitioner/knapsack.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Number of choices that are tried between budget 1 and 0, each with a minimum cut.
constexpr int kMaxChoices = 64;

RecomputeLimits LimitsUpTo(RecomputeClass first_saved, const std::vector<RecomputeClass>& classes) {
  RecomputeLimits limits;
  for (const RecomputeClass own : classes) {
    limits.may.push_back(own < first_saved);
    limits.must.push_back(own == RecomputeClass::kAlways);
  }
  return limits;
}

// A saved value that could be recomputed.
struct Item {
  std::vector<size_t> chain;  // the nodes that compute it from other saved values, inputs and states
  KnapsackItem size;
};

class Budget {
 public:
  Budget(const JointFacts& facts, const std::vector<RecomputeClass>& classes) : facts_(facts), classes_(classes) {
    for (size_t i = 0; i < facts.nodes.size(); ++i) index_[facts.nodes[i]] = i;
  }

  absl::StatusOr<SavedChoice> Choose(double budget) {
    COTAN_ASSIGN_OR_RETURN(SavedChoice most, SavedUpTo(RecomputeClass::kAvoided, facts_, classes_));
    if (budget == 1) return most;
    COTAN_ASSIGN_OR_RETURN(SavedChoice least, SavedUpTo(RecomputeClass::kNever, facts_, classes_));
    const auto range = static_cast<double>(most.saved_bytes - least.saved_bytes);
    const int64_t limit = least.saved_bytes + static_cast<int64_t>(std::floor(budget * range));
    if (most.saved_bytes <= limit) return most;
    const std::vector<Item> items = ItemsOf(most);
    std::vector<KnapsackItem> sizes;
    for (const Item& item : items) sizes.push_back(item.size);
    for (const KnapsackChoice& kept : KnapsackChoices(sizes, kMaxChoices)) {
      COTAN_ASSIGN_OR_RETURN(SavedChoice choice, MinimumCut(facts_, LimitsWithout(items, kept.items)));
      if (choice.saved_bytes <= limit) return choice;
    }
    return least;
  }

 private:
  std::vector<Item> ItemsOf(const SavedChoice& most) const {
    std::vector<Item> items;
    for (ValueId id = 0; id < facts_.joint->num_values(); ++id) {
      if (!most.saved[JointFacts::At(id)]) continue;
      std::optional<Item> item = ItemOf(id, most);
      if (item.has_value()) items.push_back(*std::move(item));
    }
    return items;
  }

  // Returns the item of a saved value; none if it is an input or depends on a node that is never repeated.
  std::optional<Item> ItemOf(ValueId value, const SavedChoice& most) const {
    if (facts_.producer[JointFacts::At(value)] == nullptr) return std::nullopt;
    Item item;
    item.size.weight = EstimatedBytes(facts_.TypeOf(value));
    std::vector<bool> is_in_chain(facts_.nodes.size(), false);
    std::vector<ValueId> pending = {value};
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      const Node* producer = facts_.producer[JointFacts::At(id)];
      const bool is_start = producer == nullptr || (id != value && most.saved[JointFacts::At(id)]);
      if (is_start) continue;
      const size_t node = index_.at(producer);
      if (is_in_chain[node]) continue;
      is_in_chain[node] = true;
      if (classes_[node] == RecomputeClass::kNever) return std::nullopt;
      item.chain.push_back(node);
      item.size.value += NodeCost(*facts_.joint, *producer);
      for (const ValueId operand : TensorOperands(*producer)) {
        if (operand != kNoValue) pending.push_back(operand);
      }
    }
    return item;
  }

  // Returns the limits under which the chains of all items but `kept` may be recomputed.
  RecomputeLimits LimitsWithout(const std::vector<Item>& items, const std::vector<int>& kept) const {
    RecomputeLimits limits = LimitsUpTo(RecomputeClass::kAvoided, classes_);
    std::vector<bool> is_kept(items.size(), false);
    for (const int item : kept) is_kept[static_cast<size_t>(item)] = true;
    for (size_t i = 0; i < items.size(); ++i) {
      if (is_kept[i]) continue;
      for (const size_t node : items[i].chain) limits.may[node] = true;
    }
    return limits;
  }

  const JointFacts& facts_;
  const std::vector<RecomputeClass>& classes_;
  absl::flat_hash_map<const Node*, size_t> index_;
};

}  // namespace

absl::StatusOr<SavedChoice> SavedUpTo(RecomputeClass first_saved, const JointFacts& facts,
                                      const std::vector<RecomputeClass>& classes) {
  return MinimumCut(facts, LimitsUpTo(first_saved, classes));
}

absl::StatusOr<SavedChoice> SavedWithin(double budget, const JointFacts& facts,
                                        const std::vector<RecomputeClass>& classes) {
  return Budget(facts, classes).Choose(budget);
}

}  // namespace cotan::aot
