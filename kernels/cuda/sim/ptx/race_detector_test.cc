// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/race_detector.h"

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace cotan::cuda::ptx {
namespace {

using Kind = RaceDetector::Kind;

AccessPoint At(uint64_t block, uint32_t thread, uint32_t block_epoch = 1, uint32_t warp_epoch = 0) {
  return {.block = block, .thread = thread, .block_epoch = block_epoch, .warp_epoch = warp_epoch, .line = 9};
}

AccessPoint Strong(AccessPoint point) {
  point.strong = true;
  return point;
}

TEST(RaceDetectorTest, FindsConflictsOfTwoThreads) {
  for (const Kind first : {Kind::kRead, Kind::kWrite}) {
    for (const Kind second : {Kind::kRead, Kind::kWrite}) {
      RaceDetector races;
      EXPECT_TRUE(races.Access(64, 4, first, At(0, 1)).ok());
      const bool conflict = first == Kind::kWrite || second == Kind::kWrite;
      EXPECT_EQ(races.Access(64, 4, second, At(0, 2)).ok(), !conflict);
      EXPECT_TRUE(races.Access(68, 4, second, At(0, 2)).ok());
    }
  }
}

TEST(RaceDetectorTest, BytesOfAWordAreSeparate) {
  RaceDetector races;
  EXPECT_TRUE(races.Access(64, 2, Kind::kWrite, At(0, 1)).ok());
  EXPECT_TRUE(races.Access(66, 2, Kind::kWrite, At(0, 2)).ok());
  EXPECT_FALSE(races.Access(64, 4, Kind::kRead, At(0, 1)).ok());
}

TEST(RaceDetectorTest, WordsAreSplitAfterAWrite) {
  RaceDetector races;
  EXPECT_TRUE(races.Access(64, 16, Kind::kWrite, At(0, 1)).ok());
  EXPECT_FALSE(races.Access(79, 1, Kind::kRead, At(0, 2)).ok());
  EXPECT_TRUE(races.Access(80, 1, Kind::kRead, At(0, 2)).ok());
}

TEST(RaceDetectorTest, BarriersOrder) {
  RaceDetector races;
  EXPECT_TRUE(races.Access(64, 4, Kind::kWrite, At(0, 1, 1, 0)).ok());
  EXPECT_TRUE(races.Access(64, 4, Kind::kRead, At(0, 2, 1, 1)).ok());    // The same warp, after its barrier.
  EXPECT_FALSE(races.Access(64, 4, Kind::kRead, At(0, 40, 1, 1)).ok());  // Another warp.
  EXPECT_TRUE(races.Access(64, 4, Kind::kRead, At(0, 40, 2, 1)).ok());   // After a block barrier.
  EXPECT_FALSE(races.Access(64, 4, Kind::kRead, At(1, 1, 5, 5)).ok());   // Another block.
}

// Many threads read; a write races with those of other warps even if its own thread read last.
TEST(RaceDetectorTest, RemembersReadersOfOtherWarps) {
  RaceDetector races;
  for (uint32_t thread = 0; thread < 64; ++thread) {
    EXPECT_TRUE(races.Access(64, 4, Kind::kRead, At(0, thread)).ok());
  }
  EXPECT_TRUE(races.Access(64, 4, Kind::kRead, At(0, 0)).ok());
  EXPECT_FALSE(races.Access(64, 4, Kind::kWrite, At(0, 0)).ok());
}

TEST(RaceDetectorTest, StrongAccessesDoNotRaceWithEachOther) {
  RaceDetector races;
  EXPECT_TRUE(races.Access(64, 4, Kind::kWrite, Strong(At(0, 1))).ok());
  EXPECT_TRUE(races.Access(64, 4, Kind::kWrite, Strong(At(1, 2))).ok());
  EXPECT_FALSE(races.Access(64, 4, Kind::kRead, At(2, 1)).ok());
}

TEST(RaceDetectorTest, FencesAndAtomicsOrderBlocks) {
  for (const bool fence_before : {true, false}) {
    for (const bool fence_after : {true, false}) {
      RaceDetector races;
      EXPECT_TRUE(races.Access(64, 4, Kind::kWrite, At(0, 1)).ok());
      if (fence_before) races.Fence(0);
      races.Synchronize(128, 0, true, true);
      races.Synchronize(128, 1, true, true);
      if (fence_after) races.Fence(1);
      EXPECT_EQ(races.Access(64, 4, Kind::kRead, At(1, 1)).ok(), fence_before && fence_after);
    }
  }
}

TEST(RaceDetectorTest, AReadBeforeTheWriteOrdersNothing) {
  for (const bool reads_first : {true, false}) {
    RaceDetector races;
    EXPECT_TRUE(races.Access(64, 4, Kind::kWrite, At(0, 1)).ok());
    races.Fence(0);
    if (reads_first) races.Synchronize(128, 1, true, false);
    races.Synchronize(128, 0, false, true);
    if (!reads_first) races.Synchronize(128, 1, true, false);
    races.Fence(1);
    EXPECT_EQ(races.Access(64, 4, Kind::kRead, At(1, 1)).ok(), !reads_first);
  }
}

TEST(RaceDetectorTest, ReadOnlyLoadsExcludeWrites) {
  RaceDetector races;
  EXPECT_TRUE(races.Access(64, 4, Kind::kReadOnly, At(0, 1)).ok());
  EXPECT_FALSE(races.Access(64, 4, Kind::kWrite, At(0, 1)).ok());
  EXPECT_TRUE(races.Access(68, 4, Kind::kWrite, At(0, 1)).ok());
  EXPECT_FALSE(races.Access(68, 4, Kind::kReadOnly, At(0, 1)).ok());
  races.Clear();
  EXPECT_TRUE(races.Access(68, 4, Kind::kReadOnly, At(0, 1)).ok());
}

// A run is recorded for whole pages where that is possible; what is found must be the same.
TEST(RaceDetectorTest, RunsAreLikeTheirLanes) {
  std::mt19937 random(3);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  int races_found = 0;
  for (int round = 0; round < 2000; ++round) {
    RaceDetector by_run, by_lane;
    bool failed = false;
    for (uint64_t block = 0; block < 4 && !failed; ++block) {
      for (uint32_t step = 0; step < 6 && !failed; ++step) {
        const uint32_t size = 1u << below(5), lanes = below(3) == 0 ? 1 + below(32) : 32;
        const AccessPoint first = At(block, 32 * below(2), 1 + step / 2);
        const uint64_t address = 4096 + (below(3) == 0 ? below(64) * size : below(4) * 32 * size + first.thread * size);
        const Kind kind = below(24) == 0 ? Kind::kWrite : below(2) == 0 ? Kind::kReadOnly : Kind::kRead;
        int lane = -1;
        const absl::Status run = by_run.AccessRun(address, size, static_cast<int>(lanes), kind, first, lane);
        absl::Status one;
        uint32_t failing = 0;
        for (uint32_t i = 0; i < lanes && one.ok(); ++i) {
          AccessPoint point = first;
          point.thread += i;
          one = by_lane.Access(address + i * size, size, kind, point);
          failing = i;
        }
        ASSERT_EQ(run, one) << round;
        failed = !one.ok();
        if (failed) {
          EXPECT_EQ(lane, static_cast<int>(failing));
        }
      }
    }
    races_found += failed ? 1 : 0;
  }
  EXPECT_GT(races_found, 100);
  EXPECT_LT(races_found, 1900);
}

// What is kept of the reads is enough for threads that only block barriers order.
TEST(RaceDetectorTest, LanesRaceWhereTwoAccessesAreUnordered) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  struct Access {
    uint64_t address;
    uint32_t thread, epoch;
    bool writes;
  };
  int races_found = 0;
  for (int round = 0; round < 1000; ++round) {
    RaceDetector races;
    std::vector<Access> before;
    bool expected = false, found = false;
    for (uint32_t step = 0, epoch = 1; step < 24 && !found && !expected; ++step) {
      if (below(4) == 0) ++epoch;
      const bool writes = below(6) == 0;
      const AccessPoint first = At(0, 32 * below(3), epoch);
      const uint32_t lanes = writes ? 1u << below(32) : random();
      const uint32_t stride = writes ? 1 : 1u << below(3);
      uint64_t addresses[32];
      for (uint32_t i = 0; i < 32; ++i) addresses[i] = 4096 + 4 * ((i / stride + below(2)) % 24);
      std::vector<Access> now;
      for (uint32_t i = 0; i < 32; ++i) {
        if ((lanes >> i & 1) != 0) now.push_back({addresses[i], first.thread + i, epoch, writes});
      }
      for (const Access& a : now) {
        for (const Access& b : before) {
          expected = expected ||
                     (a.address == b.address && a.thread != b.thread && a.epoch == b.epoch && (a.writes || b.writes));
        }
      }
      before.insert(before.end(), now.begin(), now.end());
      int lane = 0;
      found = !races.AccessLanes(addresses, 4, lanes, writes ? Kind::kWrite : Kind::kRead, first, lane).ok();
      ASSERT_EQ(found, expected) << "round " << round << ", step " << step;
    }
    races_found += found ? 1 : 0;
  }
  EXPECT_GT(races_found, 100);
  EXPECT_LT(races_found, 990);
}

TEST(RaceDetectorTest, ClearForgets) {
  RaceDetector races;
  int lane = 0;
  EXPECT_TRUE(races.AccessRun(64, 4, 32, Kind::kWrite, At(0, 0), lane).ok());
  EXPECT_FALSE(races.AccessRun(64, 4, 32, Kind::kRead, At(0, 1), lane).ok());
  races.Clear();
  EXPECT_TRUE(races.AccessRun(64, 4, 32, Kind::kRead, At(0, 1), lane).ok());
}

}  // namespace
}  // namespace cotan::cuda::ptx
