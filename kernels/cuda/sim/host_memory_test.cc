// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/host_memory.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan::cuda::sim {
namespace {

void ExpectError(const absl::Status& status, absl::StatusCode code, absl::string_view text) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
}

class HostMemoryTest : public ::testing::Test {
 protected:
  char* Allocate(size_t bytes, absl::string_view label) {
    return static_cast<char*>(memory_.Allocate(bytes, label).value());
  }

  HostMemory memory_{[](absl::string_view) {}};
};

TEST_F(HostMemoryTest, DistinguishesPinnedFromPageableMemory) {
  char* pinned = Allocate(100, "slot");
  EXPECT_TRUE(memory_.Check(pinned + 10, 90, false).ok());
  char pageable[8] = {};
  EXPECT_TRUE(memory_.Check(pageable, 8, true).ok());
  ExpectError(memory_.Check(pageable, 8, false), absl::StatusCode::kFailedPrecondition, "not pinned");
}

TEST_F(HostMemoryTest, FindsBytesBehindTheEnd) {
  char* pinned = Allocate(100, "slot");
  ExpectError(memory_.Check(pinned + 10, 91, true), absl::StatusCode::kOutOfRange,
              "91 bytes at offset 10 of the pinned block 'slot' of 100 bytes");
}

TEST_F(HostMemoryTest, FindsChangesWhileACopyIsQueued) {
  char* pinned = Allocate(100, "slot");
  const HostMemory::Snapshot snapshot = memory_.Take(pinned + 10, 20).value();
  pinned[30] = 1;  // Behind what the copy reads.
  EXPECT_TRUE(memory_.CheckUnchanged(snapshot).ok());
  pinned[12] = 1;
  ExpectError(memory_.CheckUnchanged(snapshot), absl::StatusCode::kFailedPrecondition,
              "changed the pinned block 'slot' of 100 bytes at offset 12");
}

TEST_F(HostMemoryTest, AcceptsChangesByTheDevice) {
  char* pinned = Allocate(100, "slot");
  const HostMemory::Snapshot snapshot = memory_.Take(pinned, 20).value();
  pinned[12] = 1;
  memory_.NoteDeviceWrite(pinned + 12);
  EXPECT_TRUE(memory_.CheckUnchanged(snapshot).ok());
}

TEST_F(HostMemoryTest, FindsMemoryFreedWhileACopyIsQueued) {
  char* pinned = Allocate(100, "slot");
  const HostMemory::Snapshot snapshot = memory_.Take(pinned, 20).value();
  EXPECT_TRUE(memory_.Free(pinned).ok());
  ExpectError(memory_.CheckUnchanged(snapshot), absl::StatusCode::kOutOfRange, "of the freed pinned block 'slot'");
}

TEST_F(HostMemoryTest, HostUseAfterFreeFaults) {
  char* pinned = Allocate(100, "slot");
  EXPECT_TRUE(memory_.Free(pinned).ok());
  EXPECT_DEATH({ *static_cast<volatile char*>(pinned) = 1; }, "");
}

TEST_F(HostMemoryTest, RefusesInvalidFrees) {
  char* pinned = Allocate(100, "slot");
  ExpectError(memory_.Free(pinned + 1), absl::StatusCode::kInvalidArgument, "no live pinned block starts");
  EXPECT_TRUE(memory_.Free(pinned).ok());
  ExpectError(memory_.Free(pinned), absl::StatusCode::kInvalidArgument, "no live pinned block starts");
}

TEST(HostMemoryLeakTest, ReportsLeaks) {
  std::string leaks;
  {
    HostMemory memory([&](absl::string_view text) { leaks = std::string(text); });
    EXPECT_TRUE(memory.Allocate(16, "forgotten").ok());
  }
  EXPECT_EQ(leaks, "1 blocks of pinned host memory leak: 'forgotten' of 16 bytes");
}

}  // namespace
}  // namespace cotan::cuda::sim
