// SPDX-License-Identifier: Apache-2.0

#include "base/tasks.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(TasksTest, EachCallIsMadeOnce) {
  for (int threads : {1, 2, 7}) {
    for (size_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      RunTasks(threads, count, [&](size_t i) { ++calls[i]; });
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(calls[i], 1) << i << " of " << count;
    }
  }
}

TEST(TasksTest, OneThreadIsTheCaller) {
  RunTasks(1, 10, [caller = std::this_thread::get_id()](size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

// With less than two threads this would never end.
TEST(TasksTest, LongTasksRunAtOnce) {
  absl::Notification both[2];
  RunTasks(2, 3, [&](size_t i) {
    if (i == 0) return std::this_thread::sleep_for(std::chrono::milliseconds(3));
    both[i - 1].Notify();
    both[2 - i].WaitForNotification();
  });
}

TEST(TasksTest, ShortTasksStayOnTheCaller) {
  RunTasks(8, 1, [caller = std::this_thread::get_id()](size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

TEST(TasksTest, PopulatedMemoryCanBeUsed) {
  for (size_t bytes : {0, 1, 5 << 20, (9 << 20) + 1}) {
    const auto memory = std::make_unique<char[]>(bytes + 1);
    memory[bytes] = 7;
    PopulatePages(memory.get(), bytes);
    std::memset(memory.get(), 1, bytes);
    EXPECT_EQ(memory[bytes], 7);
  }
}

TEST(TasksTest, ThereIsAProcessor) { EXPECT_GE(UsableProcessors(), 1); }

}  // namespace
}  // namespace cotan
