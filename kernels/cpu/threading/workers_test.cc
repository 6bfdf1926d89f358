// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/workers.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

// Returns how often each member ran.
std::vector<int> RunsOf(Workers& workers, int team) {
  std::vector<int> runs(static_cast<size_t>(team));
  workers.Run(team, [&](int member, int members) {
    EXPECT_EQ(members, team);
    ++runs[static_cast<size_t>(member)];
  });
  return runs;
}

TEST(WorkersTest, EachMemberRunsOnce) {
  Workers workers;
  for (int team : {1, 4, 2, 1, 7, 3}) EXPECT_EQ(RunsOf(workers, team), std::vector<int>(static_cast<size_t>(team), 1));
}

TEST(WorkersTest, TheCallerIsMemberZeroAndTheOthersHaveThreads) {
  Workers workers;
  std::vector<std::thread::id> first(3), second(3);
  for (std::vector<std::thread::id>* threads : {&first, &second}) {
    workers.Run(3, [&](int member, int) { (*threads)[static_cast<size_t>(member)] = std::this_thread::get_id(); });
  }
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 3U);
  EXPECT_EQ(first, second);
}

TEST(WorkersTest, ManyJobsOfRandomTeamsWithPauses) {
  std::mt19937 random(static_cast<uint32_t>(cotan::testing::TestSeed()));
  Workers workers;
  std::atomic<int64_t> calls = 0;
  int64_t expected = 0;
  for (int job = 0; job < 3000; ++job) {
    const int team = static_cast<int>(random() % 5) + 1;
    // Workers poll, are about to sleep, or sleep.
    if (job % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    workers.Run(team, [&](int, int) { ++calls; });
    expected += team;
    ASSERT_EQ(calls, expected) << "job " << job;
  }
}

TEST(WorkersTest, ResultsOfMembersAreVisibleToTheCaller) {
  Workers workers;
  std::vector<int64_t> sums(4);
  for (int64_t job = 0; job < 1000; ++job) {
    workers.Run(4, [&](int member, int) { sums[static_cast<size_t>(member)] += job; });
    ASSERT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), 4 * job * (job + 1) / 2);
  }
}

TEST(WorkersTest, ThreadsOfACallerHaveTheirOwnWorkers) {
  std::atomic<int> calls = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      Workers workers;
      for (int job = 0; job < 200; ++job) workers.Run(3, [&](int, int) { ++calls; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(calls, 3 * 200 * 3);
}

TEST(WorkersTest, WithoutMoreThreadsTheTeamIsSmaller) {
  Workers workers;
  RunsOf(workers, 2);
  pthread_attr_t old, huge;
  ASSERT_EQ(pthread_getattr_default_np(&old), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 60), 0);  // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  std::atomic<int> calls = 0;
  int found = 0;
  workers.Run(5, [&](int member, int members) {
    ++calls;
    if (member == 0) found = members;
  });
  ASSERT_EQ(pthread_setattr_default_np(&old), 0);
  EXPECT_EQ(found, 2);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(RunsOf(workers, 3), std::vector<int>(3, 1));
}

}  // namespace
}  // namespace cotan::cpu
