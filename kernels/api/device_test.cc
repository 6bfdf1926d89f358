// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/device.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(DeviceTest, HostMemoryIsAlignedAndHoldsWhatIsCopied) {
  Device& host = HostDevice();
  EXPECT_EQ(host.type(), DeviceType::kCpu);
  const absl::StatusOr<void*> memory = host.Allocate(100);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 64, 0u);
  const int sent = 42;
  int received = 0;
  EXPECT_TRUE(host.CopyFromHost(*memory, &sent, sizeof(sent)).ok());
  EXPECT_TRUE(host.CopyToHost(&received, *memory, sizeof(received)).ok());
  EXPECT_EQ(received, 42);
  EXPECT_TRUE(host.Synchronize().ok());
  host.Free(*memory, 100);
}

TEST(DeviceTest, TooMuchMemoryIsAStatus) {
  EXPECT_EQ(HostDevice().Allocate(size_t{1} << 62).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(DeviceTest, TypesHaveNames) {
  EXPECT_EQ(DeviceTypeName(DeviceType::kCpu), "cpu");
  EXPECT_EQ(DeviceTypeName(DeviceType::kCuda), "cuda");
}

}  // namespace
}  // namespace cotan
