// SPDX-License-Identifier: Apache-2.0

#include "planning/lifetimes.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

Operand Of(int buffer) { return {.buffer = buffer, .geometry = {}}; }

TEST(LifetimesTest, BuffersLiveFromTheFirstToTheLastStepThatTouchesThem) {
  Schedule schedule;
  schedule.buffers = {{BufferKind::kInput, 0, 64}, {BufferKind::kArena, 0, 8}, {BufferKind::kArena, 0, 16}};
  schedule.steps = {{.op = 0, .inputs = {Of(0)}, .outputs = {Of(1)}},
                    {.op = 1, .inputs = {Of(0)}, .outputs = {Of(2)}},
                    {.op = 2, .inputs = {Of(1)}, .outputs = {Of(2)}}};
  const std::vector<BufferLifetime> lifetimes = ArenaLifetimes(schedule, {0, 5, 0});
  ASSERT_EQ(lifetimes.size(), 6u);
  EXPECT_EQ(lifetimes[0].bytes, 0);
  EXPECT_EQ(lifetimes[1].bytes, 8);
  EXPECT_EQ(lifetimes[1].first, 0);
  EXPECT_EQ(lifetimes[1].last, 2);
  EXPECT_EQ(lifetimes[2].bytes, 16);
  EXPECT_EQ(lifetimes[2].first, 1);
  EXPECT_EQ(lifetimes[2].last, 2);
  EXPECT_EQ(lifetimes[4].bytes, 5);  // scratch of the second step
  EXPECT_EQ(lifetimes[4].first, 1);
  EXPECT_EQ(lifetimes[4].last, 1);
  EXPECT_EQ(PeakBytes(lifetimes), 3 * kArenaAlignment);
}

}  // namespace
}  // namespace cotan
