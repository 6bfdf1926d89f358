// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/device_memory.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan::cuda::sim {
namespace {

using Bytes = std::vector<std::byte>;

// Expects `status` to have `code` and a message that contains `text`.
void ExpectError(const absl::Status& status, absl::StatusCode code, absl::string_view text) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
}

class DeviceMemoryTest : public ::testing::Test {
 protected:
  uint64_t Allocate(uint64_t bytes, absl::string_view label) { return memory_.Allocate(bytes, label).value(); }

  DeviceMemory memory_{{.capacity_bytes = 4096, .on_leak = [](absl::string_view) {}}};
  Bytes buffer_ = Bytes(16, std::byte{7});
};

TEST_F(DeviceMemoryTest, ReadsWhatWasWritten) {
  const uint64_t address = Allocate(64, "x");
  EXPECT_TRUE(memory_.Write(address + 8, buffer_).ok());
  Bytes read(16);
  EXPECT_TRUE(memory_.Read(address + 8, absl::MakeSpan(read)).ok());
  EXPECT_EQ(read, buffer_);
}

TEST_F(DeviceMemoryTest, HostCannotReadDeviceAddresses) {
  const uint64_t address = Allocate(64, "x");
  EXPECT_TRUE(memory_.Write(address, buffer_).ok());
  EXPECT_DEATH({ EXPECT_EQ(*reinterpret_cast<volatile char*>(address), 7); }, "");
}

TEST_F(DeviceMemoryTest, BlocksHaveExactlyThePromisedAlignment) {
  for (const uint64_t bytes : {1, 300, 512}) {
    EXPECT_EQ(Allocate(bytes, "x") % (2 * DeviceMemory::kAlignment), DeviceMemory::kAlignment);
  }
}

TEST_F(DeviceMemoryTest, FindsOneByteBehindTheEnd) {
  const uint64_t address = Allocate(60, "weights");
  ExpectError(memory_.Write(address + 45, buffer_), absl::StatusCode::kOutOfRange,
              "writes 16 bytes outside of a block: the address is at offset 45 of the block 'weights' of 60 bytes");
  ExpectError(memory_.Write(address + 60, absl::MakeSpan(buffer_).first(1)), absl::StatusCode::kOutOfRange,
              "0 bytes behind the end of the block 'weights' of 60 bytes");
}

TEST_F(DeviceMemoryTest, FindsOneByteBeforeTheStart) {
  const uint64_t address = Allocate(60, "weights");
  ExpectError(memory_.Write(address - 1, absl::MakeSpan(buffer_).first(1)), absl::StatusCode::kOutOfRange,
              "1 bytes before the block 'weights'");
}

TEST_F(DeviceMemoryTest, NeighboursDoNotTouch) {
  const uint64_t first = Allocate(256, "first");
  const uint64_t second = Allocate(256, "second");
  EXPECT_GE(second - first, 256 + DeviceMemory::kRedzone);
}

TEST_F(DeviceMemoryTest, FindsReadsOfBytesNeverWritten) {
  const uint64_t address = Allocate(64, "x");
  EXPECT_TRUE(memory_.Write(address, absl::MakeSpan(buffer_).first(15)).ok());
  Bytes read(16);
  ExpectError(memory_.Read(address, absl::MakeSpan(read)), absl::StatusCode::kFailedPrecondition,
              "reads 16 bytes at offset 0 of the block 'x' of 64 bytes, of which nothing wrote the byte at offset 15");
}

TEST_F(DeviceMemoryTest, CopiesKeepWhatWasNeverWritten) {
  const uint64_t from = Allocate(32, "from");
  const uint64_t to = Allocate(32, "to");
  EXPECT_TRUE(memory_.Write(from, buffer_).ok());
  EXPECT_TRUE(memory_.Copy(to, from, 32).ok());
  Bytes read(16);
  EXPECT_TRUE(memory_.Read(to, absl::MakeSpan(read)).ok());
  EXPECT_EQ(read, buffer_);
  ExpectError(memory_.Read(to + 16, absl::MakeSpan(read)), absl::StatusCode::kFailedPrecondition, "'to'");
}

TEST_F(DeviceMemoryTest, FindsUseAfterFree) {
  const uint64_t address = Allocate(64, "x");
  EXPECT_TRUE(memory_.Write(address, buffer_).ok());
  EXPECT_TRUE(memory_.Free(address).ok());
  Bytes read(16);
  ExpectError(memory_.Read(address + 8, absl::MakeSpan(read)), absl::StatusCode::kOutOfRange,
              "after they were freed: the address is at offset 8 of the freed block 'x' of 64 bytes");
}

TEST_F(DeviceMemoryTest, NeverReusesAddresses) {
  const uint64_t first = Allocate(64, "x");
  EXPECT_TRUE(memory_.Free(first).ok());
  EXPECT_GT(Allocate(64, "y"), first + 64);
}

TEST_F(DeviceMemoryTest, RefusesInvalidFrees) {
  const uint64_t address = Allocate(64, "x");
  ExpectError(memory_.Free(address + 8), absl::StatusCode::kInvalidArgument, "at offset 8 of the block 'x'");
  EXPECT_TRUE(memory_.Free(address).ok());
  ExpectError(memory_.Free(address), absl::StatusCode::kInvalidArgument, "at offset 0 of the freed block 'x'");
  ExpectError(memory_.Free(16), absl::StatusCode::kInvalidArgument, "not device memory");
}

TEST_F(DeviceMemoryTest, FindsMisalignedElements) {
  const uint64_t address = Allocate(64, "x");
  ExpectError(memory_.Store(address + 8, buffer_), absl::StatusCode::kInvalidArgument,
              "misaligned store of 16 bytes: the address is at offset 8 of the block 'x'");
  ExpectError(memory_.Load(address + 4, absl::MakeSpan(buffer_)), absl::StatusCode::kInvalidArgument,
              "misaligned load of 16 bytes");
  EXPECT_TRUE(memory_.Store(address + 16, buffer_).ok());
  EXPECT_TRUE(memory_.Load(address + 16, absl::MakeSpan(buffer_)).ok());
}

TEST_F(DeviceMemoryTest, RefusesMoreThanItsCapacity) {
  Allocate(4000, "x");
  ExpectError(memory_.Allocate(97, "y").status(), absl::StatusCode::kResourceExhausted,
              "'y' needs 97 bytes of device memory, 96 of 4096 are free");
  EXPECT_EQ(memory_.peak_bytes(), 4000);
}

TEST(DeviceMemoryLeakTest, ReportsLeaks) {
  std::string leaks;
  {
    DeviceMemory memory({.on_leak = [&](absl::string_view text) { leaks = std::string(text); }});
    const uint64_t freed = memory.Allocate(8, "freed").value();
    EXPECT_TRUE(memory.Allocate(16, "forgotten").ok());
    EXPECT_TRUE(memory.Free(freed).ok());
  }
  EXPECT_EQ(leaks, "1 blocks of device memory leak: the block 'forgotten' of 16 bytes");
}

TEST(DeviceMemoryLeakTest, LeaksAbortByDefault) {
  EXPECT_DEATH(
      {
        DeviceMemory memory({});
        EXPECT_TRUE(memory.Allocate(16, "forgotten").ok());
      },
      "'forgotten' of 16 bytes");
}

}  // namespace
}  // namespace cotan::cuda::sim
