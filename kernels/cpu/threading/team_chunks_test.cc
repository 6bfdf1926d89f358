// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/team_chunks.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

TEST(TeamChunksTest, AreTakenFromBothEnds) {
  TeamChunks chunks;
  chunks.Reset(3, 6);
  EXPECT_EQ(chunks.TakeFirst(), 3);
  EXPECT_EQ(chunks.TakeLast(), 5);
  EXPECT_EQ(chunks.TakeLast(), 4);
  EXPECT_EQ(chunks.TakeFirst(), std::nullopt);
  EXPECT_EQ(chunks.TakeLast(), std::nullopt);
}

TEST(TeamChunksTest, ALargestRangeHasItsFirstAndItsLast) {
  TeamChunks chunks;
  chunks.Reset(0, TeamChunks::kMax);
  EXPECT_EQ(chunks.TakeLast(), TeamChunks::kMax - 1);
  EXPECT_EQ(chunks.TakeFirst(), 0);
  chunks.Reset(TeamChunks::kMax, TeamChunks::kMax);
  EXPECT_EQ(chunks.TakeFirst(), std::nullopt);
}

TEST(TeamChunksTest, SeveralThreadsTakeEachOnce) {
  constexpr int64_t kCount = 20000;
  TeamChunks chunks;
  chunks.Reset(0, kCount);
  std::vector<std::atomic<int>> taken(kCount);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      while (const auto chunk = i % 2 == 0 ? chunks.TakeFirst() : chunks.TakeLast()) {
        ++taken[static_cast<size_t>(*chunk)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(taken[static_cast<size_t>(i)], 1) << i;
}

}  // namespace
}  // namespace cotan::cpu
