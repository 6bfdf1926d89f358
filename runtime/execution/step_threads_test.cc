// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/step_threads.h"

#include "base/tasks.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(StepThreadsTest, DefaultIsOneForEachCore) {
  EXPECT_GE(StepThreads(0), 1);
  EXPECT_LE(StepThreads(0), UsableProcessors());
}

TEST(StepThreadsTest, AreAsManyAsRequestedButNotMoreThanProcessors) {
  EXPECT_EQ(StepThreads(1), 1);
  EXPECT_EQ(StepThreads(UsableProcessors()), UsableProcessors());
  EXPECT_EQ(StepThreads(UsableProcessors() + 1), UsableProcessors());
}

}  // namespace
}  // namespace cotan
