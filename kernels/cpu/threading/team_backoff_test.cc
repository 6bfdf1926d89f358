// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/team_backoff.h"

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

constexpr int64_t kMicrosecond = 1'000;
constexpr int64_t kMillisecond = 1'000'000;

// Two members ran two chunks of 50 us each, and one waited for the other for `idle`, until `end`.
TeamLoop Loop(int64_t idle, int64_t end) { return {4, 2, 100 * kMicrosecond, idle, end}; }

TEST(TeamBackoffTest, ATeamThatLosesNothingStays) {
  TeamBackoff backoff;
  for (int64_t now = 0; now < 1000 * kMillisecond; now += kMillisecond) {
    ASSERT_FALSE(backoff.IsActive(now));
    backoff.Record(Loop(20 * kMicrosecond, now));
  }
}

TEST(TeamBackoffTest, WaitsForALongChunkAreNoLoss) {
  TeamBackoff backoff;
  for (int i = 0; i < 100; ++i) backoff.Record({3, 2, 20 * kMillisecond, 10 * kMillisecond, i});
  EXPECT_FALSE(backoff.IsActive(100));
}

TEST(TeamBackoffTest, OneLostSliceIsAllowed) {
  TeamBackoff backoff;
  backoff.Record(Loop(4 * kMillisecond, 0));
  EXPECT_FALSE(backoff.IsActive(1));
}

TEST(TeamBackoffTest, LossesThatExceedTheGainSuspendTheTeamForLongerAndLonger) {
  TeamBackoff backoff;
  int64_t now = 0;
  for (const int64_t pause : {20, 40, 80, 160, 320, 640, 640}) {
    while (!backoff.IsActive(now)) backoff.Record(Loop(4 * kMillisecond, now));
    EXPECT_TRUE(backoff.IsActive(now + pause * kMillisecond - 1)) << pause;
    EXPECT_FALSE(backoff.IsActive(now + pause * kMillisecond)) << pause;
    now += pause * kMillisecond;
  }
}

TEST(TeamBackoffTest, RareLossesArePaidByTheGain) {
  TeamBackoff backoff;
  for (int i = 0; i < 5000; ++i) {
    backoff.Record(Loop(i % 50 == 0 ? 4 * kMillisecond : 0, i));
    ASSERT_FALSE(backoff.IsActive(i)) << i;
  }
}

TEST(TeamBackoffTest, ThePauseIsShortAgainAfterATimeWithoutLosses) {
  TeamBackoff backoff;
  const auto lose = [&](int64_t now) {
    while (!backoff.IsActive(now)) backoff.Record(Loop(4 * kMillisecond, now));
  };
  lose(0);
  lose(1000 * kMillisecond);  // 40 ms
  for (int i = 0; i < 100; ++i) backoff.Record(Loop(0, 2000 * kMillisecond));
  lose(3000 * kMillisecond);
  EXPECT_FALSE(backoff.IsActive(3020 * kMillisecond));
}

}  // namespace
}  // namespace cotan::cpu
