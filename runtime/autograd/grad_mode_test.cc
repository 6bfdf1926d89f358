// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/grad_mode.h"

#include <thread>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(GradModeTest, GuardsNestAndRestore) {
  EXPECT_TRUE(GradMode::enabled());
  {
    GradModeGuard off(false);
    EXPECT_FALSE(GradMode::enabled());
    {
      GradModeGuard on(true);
      EXPECT_TRUE(GradMode::enabled());
    }
    EXPECT_FALSE(GradMode::enabled());
  }
  EXPECT_TRUE(GradMode::enabled());
}

TEST(GradModeTest, BelongsToAThread) {
  GradModeGuard off(false);
  bool other = false;
  std::thread thread([&] { other = GradMode::enabled(); });
  thread.join();
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace cotan
