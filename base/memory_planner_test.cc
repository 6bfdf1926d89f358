// SPDX-License-Identifier: Apache-2.0

#include "base/memory_planner.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;

TEST(MemoryPlannerTest, BuffersThatNeverMeetShareMemory) {
  const absl::StatusOr<ArenaLayout> layout = PlanArena({{100, 0, 1}, {100, 2, 3}});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(layout->offsets, ElementsAre(0, 0));
  EXPECT_EQ(layout->bytes, 128);
}

TEST(MemoryPlannerTest, BuffersOfOneStepDoNot) {
  const absl::StatusOr<ArenaLayout> layout = PlanArena({{64, 0, 1}, {128, 1, 2}});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(layout->offsets, ElementsAre(128, 0));
  EXPECT_EQ(layout->bytes, 192);
}

TEST(MemoryPlannerTest, TheSmallestGapThatFitsIsTaken) {
  // Two gaps at step 1: 256 bytes after the first buffer, 128 at a higher offset.
  const std::vector<BufferLifetime> buffers = {
      {1024, 0, 9}, {512, 0, 0}, {512, 0, 9}, {256, 0, 0}, {256, 0, 9}, {128, 1, 1},
  };
  const absl::StatusOr<ArenaLayout> layout = PlanArena(buffers);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->offsets[5], layout->offsets[3]);
}

TEST(MemoryPlannerTest, EmptyBuffersTakeNothing) {
  const absl::StatusOr<ArenaLayout> layout = PlanArena({{0, 0, 5}, {64, 0, 5}});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->bytes, 64);
  EXPECT_EQ(PlanArena({})->bytes, 0);
}

TEST(MemoryPlannerTest, TooLargeArenasAreRejected) {
  constexpr int64_t kHuge = int64_t{1} << 61;
  EXPECT_EQ(PlanArena({{kHuge, 0, 1}, {kHuge, 0, 1}, {kHuge, 0, 1}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(PlanArena({{std::numeric_limits<int64_t>::max(), 0, 1}}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(MemoryPlannerTest, RandomLifetimesNeverOverlapAndStayNearTheBound) {
  std::mt19937_64 random(testing::TestSeed());
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<BufferLifetime> buffers(1 + random() % 60);
    for (BufferLifetime& buffer : buffers) {
      buffer.bytes = static_cast<int64_t>(random() % 5000);
      buffer.first = static_cast<int>(random() % 50);
      buffer.last = buffer.first + static_cast<int>(random() % 10);
    }
    const absl::StatusOr<ArenaLayout> layout = PlanArena(buffers);
    ASSERT_TRUE(layout.ok());
    ASSERT_GE(layout->bytes, PeakBytes(buffers));
    ASSERT_LE(layout->bytes, 2 * PeakBytes(buffers) + kArenaAlignment);
    for (size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_EQ(layout->offsets[i] % kArenaAlignment, 0);
      ASSERT_LE(layout->offsets[i] + buffers[i].bytes, layout->bytes);
      for (size_t j = 0; j < i; ++j) {
        if (buffers[i].first > buffers[j].last || buffers[j].first > buffers[i].last) continue;
        ASSERT_TRUE(layout->offsets[i] + buffers[i].bytes <= layout->offsets[j] ||
                    layout->offsets[j] + buffers[j].bytes <= layout->offsets[i])
            << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace cotan
