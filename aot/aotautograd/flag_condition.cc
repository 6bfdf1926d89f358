// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/flag_condition.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace cotan::aot {
namespace {

bool Contains(const FlagSet& whole, const FlagSet& part) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

FlagSet Union(const FlagSet& a, const FlagSet& b) {
  FlagSet all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

// Removes the sets that contain another one.
FlagCondition WithoutSupersets(const FlagCondition& condition) {
  FlagCondition least;
  for (const FlagSet& set : condition) {
    const auto is_less = [&](const FlagSet& other) { return other.size() < set.size() && Contains(set, other); };
    if (std::none_of(condition.begin(), condition.end(), is_less)) least.insert(set);
  }
  return least;
}

// Returns a set that lacks a flag of a group, if the condition is true with any flag of this group in its place: each
// of them is in a set of its own, since no set contains another one.
std::optional<FlagSet> MergedSet(const FlagCondition& condition, absl::Span<const FlagSet> groups) {
  for (const FlagSet& set : condition) {
    for (const FlagSet& group : groups) {
      if (group.size() > condition.size()) continue;  // no set for each flag
      for (const ValueId flag : group) {
        if (!std::binary_search(set.begin(), set.end(), flag)) continue;
        FlagSet rest = set;
        rest.erase(std::find(rest.begin(), rest.end(), flag));
        const auto is_true_with = [&](ValueId other) { return Implies(AllOf(Union(rest, FlagSet{other})), condition); };
        if (std::all_of(group.begin(), group.end(), is_true_with)) return rest;
      }
    }
  }
  return std::nullopt;
}

FlagCondition Simplified(FlagCondition condition, absl::Span<const FlagSet> groups) {
  condition = WithoutSupersets(condition);
  while (std::optional<FlagSet> merged = MergedSet(condition, groups)) {
    condition.insert(*std::move(merged));
    condition = WithoutSupersets(condition);
  }
  return condition;
}

}  // namespace

FlagCondition Always() { return AllOf(FlagSet()); }

FlagCondition AllOf(const FlagSet& flags) {
  FlagCondition condition;
  condition.insert(flags);
  return condition;
}

bool Implies(const FlagCondition& condition, const FlagCondition& other) {
  if (condition == other) return true;
  return std::all_of(condition.begin(), condition.end(), [&](const FlagSet& set) {
    return std::any_of(other.begin(), other.end(), [&](const FlagSet& part) { return Contains(set, part); });
  });
}

FlagCondition Both(const FlagCondition& a, const FlagCondition& b, absl::Span<const FlagSet> groups) {
  if (Implies(a, b)) return a;
  if (Implies(b, a)) return b;
  FlagCondition both;
  for (const FlagSet& of_a : a) {
    for (const FlagSet& of_b : b) both.insert(Union(of_a, of_b));
  }
  return Simplified(std::move(both), groups);
}

FlagCondition Either(const FlagCondition& a, const FlagCondition& b, absl::Span<const FlagSet> groups) {
  if (Implies(a, b)) return b;
  if (Implies(b, a)) return a;
  FlagCondition either = a;
  either.insert(b.begin(), b.end());
  return Simplified(std::move(either), groups);
}

FlagCondition RestrictedTo(const FlagSet& group, const FlagCondition& condition) {
  FlagCondition restricted;
  for (const FlagSet& set : condition) {
    FlagSet kept;
    std::set_intersection(set.begin(), set.end(), group.begin(), group.end(), std::back_inserter(kept));
    restricted.insert(std::move(kept));
  }
  return WithoutSupersets(restricted);
}

}  // namespace cotan::aot
