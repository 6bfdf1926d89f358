// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/parallel.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/denormal_mode.h"
#include "gtest/gtest.h"
#include "kernels/cpu/threading/run_without_team.h"
#include "kernels/cpu/threading/team.h"

namespace cotan::cpu {
namespace {

std::set<std::pair<int64_t, int64_t>> Chunks(int threads, int64_t count, int64_t grain) {
  std::mutex mutex;
  std::multiset<std::pair<int64_t, int64_t>> chunks;
  ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    chunks.insert({begin, end});
  });
  std::set<std::pair<int64_t, int64_t>> unique(chunks.begin(), chunks.end());
  EXPECT_EQ(unique.size(), chunks.size()) << "a chunk ran twice";
  return unique;
}

TEST(ParallelForTest, ChunksDependOnTheGrainAlone) {
  const std::set<std::pair<int64_t, int64_t>> expected = {{0, 4}, {4, 8}, {8, 10}};
  for (int threads : {1, 2, 3, 8}) EXPECT_EQ(Chunks(threads, 10, 4), expected) << threads << " threads";
}

TEST(ParallelForTest, NothingToDoMakesNoCall) { EXPECT_TRUE(Chunks(4, 0, 16).empty()); }

TEST(ParallelForTest, LastChunkOfAHugeRangeDoesNotOverflow) {
  constexpr int64_t kHuge = INT64_MAX - 1;
  EXPECT_EQ(Chunks(1, kHuge, INT64_MAX / 2),
            (std::set<std::pair<int64_t, int64_t>>{{0, INT64_MAX / 2}, {INT64_MAX / 2, kHuge}}));
}

TEST(ParallelForTest, LoneChunkRunsOnTheCaller) {
  ParallelFor(8, 5, 5, [](int64_t, int64_t) { EXPECT_FALSE(InTeam()); });
}

TEST(ParallelForTest, WorkersAreNumberedBelowTheThreadCountAndRunOneChunkAtATime) {
  constexpr int kThreads = 3;
  std::vector<std::atomic<int>> busy(kThreads);
  ParallelForWorker(kThreads, 1000, 1, [&](int worker, int64_t, int64_t) {
    ASSERT_GE(worker, 0);
    ASSERT_LT(worker, kThreads);
    EXPECT_EQ(busy[static_cast<size_t>(worker)].fetch_add(1), 0);
    busy[static_cast<size_t>(worker)].fetch_sub(1);
  });
}

TEST(ParallelForTest, NestedCallRunsSerially) {
  std::atomic<int64_t> sum = 0;
  ParallelFor(2, 4, 1, [&](int64_t outer, int64_t) {
    ParallelForWorker(2, 4, 1, [&](int worker, int64_t inner, int64_t) {
      EXPECT_EQ(worker, 0);
      sum += outer * 4 + inner;
    });
  });
  EXPECT_EQ(sum, 120);
}

TEST(ParallelForTest, AThreadThatIsDoneTakesChunksOfOthers) {
  constexpr int64_t kCount = 10;
  std::atomic<int64_t> done = 0;
  std::atomic<bool> began = false;
  // The first thread to begin a chunk waits until another has run all others.
  const auto run = [&](int64_t, int64_t) {
    if (!began.exchange(true)) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (done != kCount - 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_EQ(done, kCount - 1);
    }
    ++done;
  };
  // A new thread, whose team is not suspended because of what loops before have lost.
  std::thread([&] { ParallelFor(2, kCount, 1, run); }).join();
  EXPECT_EQ(done, kCount);
}

TEST(ParallelForTest, LoopsRunOnTheCallerWhileItsTeamIsSuspended) {
  RunWithoutTeam([] {
    ASSERT_TRUE(RunsAlone());
    ParallelFor(2, 8, 1, [](int64_t, int64_t) { EXPECT_FALSE(InTeam()); });
    EXPECT_EQ(Chunks(2, 10, 4), (std::set<std::pair<int64_t, int64_t>>{{0, 4}, {4, 8}, {8, 10}}));
  });
  RunWithoutTeam([] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (RunsAlone() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_FALSE(RunsAlone()) << "the team is not tried again";
  });
}

// Returns for how many of kMembers threads of a team the product of two normal numbers is subnormal.
constexpr int kMembers = 3;
int CountSubnormal() {
  volatile float small = 0x1p-126F;
  volatile float half = 0.5F;
  std::atomic<int> count = 0;
  std::atomic<int> arrived = 0;
  RunTeam(kMembers, [&](int, int) {
    ++arrived;
    if (small * half != 0) ++count;
  });
  EXPECT_EQ(arrived, kMembers);
  return count;
}

TEST(DenormalModeTest, ThreadsOfALoopFlushIfTheCallerDoesAndNoLonger) {
  volatile float small = 0x1p-126F;
  volatile float half = 0.5F;
  // A new thread, whose team is not suspended because of what loops before have lost.
  std::thread([&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(CountSubnormal(), kMembers);
      const ScopedDenormalMode flush(true);
      std::atomic<int> flushed = 0;
      std::atomic<int> arrived = 0;
      // Each thread waits for the others, so that all take part.
      ParallelFor(kMembers, kMembers, 1, [&](int64_t, int64_t) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        ++arrived;
        while (arrived != kMembers && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        if (small * half == 0) ++flushed;
      });
      EXPECT_EQ(flushed, kMembers);
      EXPECT_EQ(CountSubnormal(), kMembers - 1);  // the caller still flushes
    }
  }).join();
}

TEST(ScopedTeamModeTest, TheTeamFlushesIfTheCallerDoesAndNoLonger) {
  {
    const ScopedTeamMode without(kMembers);
    EXPECT_EQ(CountSubnormal(), kMembers);
  }
  {
    const ScopedDenormalMode flush(true);
    {
      const ScopedTeamMode team(kMembers);
      EXPECT_EQ(CountSubnormal(), 0);
    }
    EXPECT_EQ(CountSubnormal(), kMembers - 1);
  }
  EXPECT_EQ(CountSubnormal(), kMembers);
}

TEST(ThreadsWorthwhileTest, SmallWorkStaysOnOneThread) {
  EXPECT_EQ(ThreadsWorthwhile(8, 0), 1);
  EXPECT_EQ(ThreadsWorthwhile(8, 3.5e6), 3);
  EXPECT_EQ(ThreadsWorthwhile(8, 1e18), 8);
}

}  // namespace
}  // namespace cotan::cpu
