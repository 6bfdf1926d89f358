// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/physical_cores.h"

#include <thread>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(PhysicalCoresTest, AreAtLeastOneAndNoMoreThanHyperthreads) {
  EXPECT_GE(PhysicalCores(), 1);
  EXPECT_LE(PhysicalCores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace cotan
