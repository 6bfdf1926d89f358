// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace cotan::training {
namespace {

TEST(InterruptTest, FirstSignalIsNotedAndTheSecondEndsTheProcess) {
  CatchInterrupts();
  EXPECT_FALSE(Interrupted());
  std::raise(SIGINT);
  EXPECT_TRUE(Interrupted());
  EXPECT_EXIT(std::raise(SIGINT), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace cotan::training
