// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/edit_script.h"

#include <algorithm>
#include <cstddef>

namespace cotan::tools {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

// A diagonal x - y = k is element (k + d) / 2 of the frontier after d edits: only every second one is reached.
struct Frontiers {
  std::vector<std::vector<int>> furthest;  // x, by number of edits
  int At(int d, int k) const { return furthest[static_cast<size_t>(d)][static_cast<size_t>((k + d) / 2)]; }
  // Returns whether the best path with d edits to diagonal k ends with an insertion (a step down in `b`).
  bool IsInsertion(int d, int k) const { return k == -d || (k != d && At(d - 1, k - 1) < At(d - 1, k + 1)); }
};

// Walks back from the end; appends matches in descending order.
Pairs WalkBack(const Frontiers& frontiers, int d, int n, int m) {
  Pairs matches;
  int x = n;
  int y = m;
  for (; d >= 0; --d) {
    const int k = x - y;
    int previous_x = 0;
    int previous_y = 0;
    int start_x = 0;  // after the edit, before the diagonal
    if (d > 0) {
      const bool insertion = frontiers.IsInsertion(d, k);
      const int previous_k = insertion ? k + 1 : k - 1;
      previous_x = frontiers.At(d - 1, previous_k);
      previous_y = previous_x - previous_k;
      start_x = insertion ? previous_x : previous_x + 1;
    }
    for (; x > start_x; --x, --y) matches.emplace_back(x - 1, y - 1);
    x = previous_x;
    y = previous_y;
  }
  return matches;
}

// Returns the matches in descending order; none if there are more than `max_edits` edits.
Pairs Myers(absl::Span<const std::string> a, absl::Span<const std::string> b, int max_edits) {
  const int n = static_cast<int>(a.size());
  const int m = static_cast<int>(b.size());
  Frontiers frontiers;
  for (int d = 0; d <= std::min(n + m, max_edits); ++d) {
    std::vector<int> frontier;
    for (int k = -d; k <= d; k += 2) {
      int x = 0;
      if (d > 0) x = frontiers.IsInsertion(d, k) ? frontiers.At(d - 1, k + 1) : frontiers.At(d - 1, k - 1) + 1;
      int y = x - k;
      while (x < n && y >= 0 && y < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(y)]) ++x, ++y;
      frontier.push_back(x);
      if (x < n || y < m || x - y != n - m) continue;
      frontiers.furthest.push_back(std::move(frontier));
      return WalkBack(frontiers, d, n, m);
    }
    frontiers.furthest.push_back(std::move(frontier));
  }
  return {};
}

}  // namespace

Pairs CommonSubsequence(absl::Span<const std::string> a, absl::Span<const std::string> b, int max_edits) {
  Pairs pairs;
  const size_t least = std::min(a.size(), b.size());
  size_t prefix = 0;
  while (prefix < least && a[prefix] == b[prefix]) ++prefix;
  size_t suffix = 0;
  while (suffix < least - prefix && a[a.size() - 1 - suffix] == b[b.size() - 1 - suffix]) ++suffix;
  for (size_t i = 0; i < prefix; ++i) pairs.emplace_back(i, i);
  const Pairs middle =
      Myers(a.subspan(prefix, a.size() - prefix - suffix), b.subspan(prefix, b.size() - prefix - suffix), max_edits);
  for (auto match = middle.rbegin(); match != middle.rend(); ++match) {
    pairs.emplace_back(match->first + static_cast<int>(prefix), match->second + static_cast<int>(prefix));
  }
  for (size_t i = suffix; i > 0; --i) pairs.emplace_back(a.size() - i, b.size() - i);
  return pairs;
}

}  // namespace cotan::tools
