// SPDX-License-Identifier: Apache-2.0

// Comparison of two sequences of lines.
#ifndef COTAN_RUNTIME_TOOLS_EDIT_SCRIPT_H_
#define COTAN_RUNTIME_TOOLS_EDIT_SCRIPT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace cotan::tools {

// Returns the pairs of indexes, ascending in both, of a longest common subsequence of `a` and `b`, by Myers' greedy
// algorithm ("An O(ND) difference algorithm and its variations", 1986). If more than `max_edits` lines differ, only the
// common beginning and end are returned; memory is quadratic in the number of differences.
std::vector<std::pair<int, int>> CommonSubsequence(absl::Span<const std::string> a, absl::Span<const std::string> b,
                                                   int max_edits = 4000);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_EDIT_SCRIPT_H_
