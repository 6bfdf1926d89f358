// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/measure.h"

#include <gtest/gtest.h>

#include <string>

namespace cotan::testing {
namespace {

TEST(SummarizeTest, TakesMedianAndMinimum) {
  const Timing odd = Summarize({5, 1, 3});
  EXPECT_EQ(odd.median_us, 3);
  EXPECT_EQ(odd.min_us, 1);
  EXPECT_EQ(Summarize({4, 2}).median_us, 3);
}

TEST(MeasureInTurnsTest, AlternatesBetweenBoth) {
  std::string calls;
  const MeasureOptions options = {.seconds = 0, .block_seconds = 0, .min_calls = 2};
  const auto timings = MeasureInTurns(
      options,
      [&] {
        calls += 'a';
        return absl::OkStatus();
      },
      [&] {
        calls += 'b';
        return absl::OkStatus();
      });
  ASSERT_TRUE(timings.ok());
  EXPECT_EQ(calls, "aabbaabb");  // the first of each pair is not timed
  EXPECT_LE(timings->first.min_us, timings->first.median_us);
}

TEST(MeasureInTurnsTest, StopsAtTheFirstError) {
  int calls = 0;
  const auto timings = MeasureInTurns(
      {},
      [&] {
        ++calls;
        return absl::OkStatus();
      },
      [] { return absl::InternalError("broken"); });
  EXPECT_EQ(timings.status().message(), "broken");
}

}  // namespace
}  // namespace cotan::testing
