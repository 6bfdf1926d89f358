// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/global_memory.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/sim/access_log.h"

namespace cotan::cuda::sim {
namespace {

using ::testing::HasSubstr;

class GlobalMemoryTest : public ::testing::Test {
 protected:
  static ptx::GlobalAccess At(uint64_t address, uint32_t size = 4) { return {.address = address, .size = size}; }

  absl::StatusOr<uint32_t> Load(uint64_t address) {
    uint32_t value = 0;
    const absl::Status status = global_.Load(At(address), reinterpret_cast<std::byte*>(&value));
    if (!status.ok()) return status;
    return value;
  }
  absl::Status Store(uint64_t address, uint32_t value) {
    return global_.Store(At(address), reinterpret_cast<const std::byte*>(&value));
  }

  DeviceMemory memory_{{.on_leak = [](absl::string_view) {}}};
  DeviceGlobalMemory global_{memory_};
  uint64_t x_ = memory_.Allocate(64, "x").value();
  uint64_t y_ = memory_.Allocate(64, "y").value();
};

TEST_F(GlobalMemoryTest, AccessesBlocksInTurn) {
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(Store(x_ + 4 * i, i), absl::OkStatus());
    EXPECT_EQ(Store(y_ + 4 * i, 100 + i), absl::OkStatus());
  }
  EXPECT_EQ(Load(x_ + 20).value(), 5);
  EXPECT_EQ(Load(y_ + 20).value(), 105);
  const auto before = global_.Atomic(At(x_), [](uint64_t old) { return old + 7; });
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(*before, 0);
  EXPECT_EQ(Load(x_).value(), 7);
}

TEST_F(GlobalMemoryTest, ExplainsWrongAccesses) {
  EXPECT_EQ(Store(x_, 1), absl::OkStatus());
  EXPECT_EQ(Load(x_ + 4).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Store(x_ + 64, 1).message()), HasSubstr("0 bytes behind the end of the block 'x'"));
  std::byte bytes[16];
  EXPECT_EQ(global_.Load(At(x_ + 56, 16), bytes).code(), absl::StatusCode::kOutOfRange);
  ASSERT_EQ(memory_.Free(x_), absl::OkStatus());
  EXPECT_THAT(std::string(Load(x_).status().message()), HasSubstr("after they were freed"));
}

TEST_F(GlobalMemoryTest, LogsGetAllAccesses) {
  ptx::GlobalBlock block;
  EXPECT_TRUE(global_.FindBlock(x_ + 4, block));
  EXPECT_EQ(block.address, x_);
  EXPECT_EQ(Store(x_, 1), absl::OkStatus());
  AccessLog writes, reads;
  memory_.set_log(&writes);
  EXPECT_FALSE(global_.FindBlock(x_, block));
  EXPECT_EQ(Store(x_ + 4, 1), absl::OkStatus());
  memory_.set_log(&reads);
  EXPECT_EQ(Load(x_).status(), absl::OkStatus());
  memory_.set_log(nullptr);
  writes.Finish();
  reads.Finish();
  EXPECT_FALSE(AccessLog::FindConflict(writes, reads).has_value());
  reads.AddRead(x_ + 6, 1);
  reads.Finish();
  const auto conflict = AccessLog::FindConflict(writes, reads);
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->address, x_ + 6);
  EXPECT_TRUE(conflict->first_writes);
  EXPECT_FALSE(conflict->second_writes);
}

TEST(AccessLogTest, ManyScatteredRangesAreMerged) {
  AccessLog scattered, probe;
  for (uint64_t i = 0; i < 20000; ++i) scattered.AddWrite((i * 7919 % 20000) * 8, 4);
  scattered.Finish();
  probe.AddRead(15 * 8 + 4, 4);
  probe.Finish();
  EXPECT_FALSE(AccessLog::FindConflict(scattered, probe).has_value());
  probe.AddWrite(19999 * 8 + 3, 8);
  probe.Finish();
  EXPECT_EQ(AccessLog::FindConflict(scattered, probe)->address, 19999 * 8 + 3);
}

}  // namespace
}  // namespace cotan::cuda::sim
