// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/edit_script.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::tools {
namespace {

using Lines = std::vector<std::string>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Returns the length of a longest common subsequence, from the table of all prefixes.
size_t LongestLength(const Lines& a, const Lines& b) {
  std::vector<std::vector<size_t>> longest(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      longest[i + 1][j + 1] = a[i] == b[j] ? longest[i][j] + 1 : std::max(longest[i][j + 1], longest[i + 1][j]);
    }
  }
  return longest[a.size()][b.size()];
}

TEST(EditScriptTest, MatchesAscendAndAreAsManyAsPossible) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&] {
      Lines lines(random() % 14);
      for (std::string& line : lines) line = std::string(1, static_cast<char>('a' + random() % 4));
      return lines;
    };
    const Lines a = draw();
    const Lines b = draw();
    const auto matches = CommonSubsequence(a, b);
    EXPECT_EQ(matches.size(), LongestLength(a, b));
    int last_a = -1;
    int last_b = -1;
    for (const auto& [in_a, in_b] : matches) {
      EXPECT_GT(in_a, last_a);
      EXPECT_GT(in_b, last_b);
      EXPECT_EQ(a.at(static_cast<size_t>(in_a)), b.at(static_cast<size_t>(in_b)));
      last_a = in_a;
      last_b = in_b;
    }
  }
}

TEST(EditScriptTest, TooManyDifferencesLeaveTheEnds) {
  EXPECT_THAT(CommonSubsequence(Lines{"a", "b", "c", "d", "z"}, Lines{"a", "x", "c", "y", "z"}, /*max_edits=*/1),
              ElementsAre(Pair(0, 0), Pair(4, 4)));
}

TEST(EditScriptTest, EmptySequencesHaveNothingInCommon) {
  EXPECT_THAT(CommonSubsequence(Lines{}, Lines{"a"}), IsEmpty());
  EXPECT_THAT(CommonSubsequence(Lines{}, Lines{}), IsEmpty());
}

}  // namespace
}  // namespace cotan::tools
