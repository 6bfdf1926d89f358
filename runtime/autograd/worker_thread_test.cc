// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/worker_thread.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <thread>
#include <vector>

namespace cotan::autograd {
namespace {

std::thread::id IdOfCall() {
  std::thread::id id;
  EXPECT_TRUE(CallOnWorker([&] {
                id = std::this_thread::get_id();
                return absl::OkStatus();
              }).ok());
  return id;
}

// Calls `depth` workers inside of one another and returns their threads.
std::set<std::thread::id> NestedCalls(int depth) {
  std::set<std::thread::id> threads;
  std::function<absl::Status()> enter = [&]() -> absl::Status {
    threads.insert(std::this_thread::get_id());
    if (static_cast<int>(threads.size()) == depth) return absl::OkStatus();
    return CallOnWorker([&] { return enter(); });
  };
  EXPECT_TRUE(CallOnWorker([&] { return enter(); }).ok());
  return threads;
}

TEST(WorkerThreadTest, TheCallRunsOnAnotherThreadAndItsErrorIsReturned) {
  EXPECT_NE(IdOfCall(), std::thread::id());
  EXPECT_NE(IdOfCall(), std::this_thread::get_id());
  EXPECT_EQ(CallOnWorker([] { return absl::NotFoundError("x"); }), absl::NotFoundError("x"));
  EXPECT_TRUE(CallOnWorker([] { return absl::OkStatus(); }).ok());
}

TEST(WorkerThreadTest, AThreadThatHasFinishedServesTheNextCall) {
  const std::thread::id first = IdOfCall();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(IdOfCall(), first);
}

TEST(WorkerThreadTest, NestedCallsHaveThreadsOfTheirOwnOfWhichSomeAreKept) {
  EXPECT_EQ(NestedCalls(10).size(), 10);
  const std::set<std::thread::id> kept = NestedCalls(kMaxIdleWorkers);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NestedCalls(kMaxIdleWorkers), kept);
}

TEST(WorkerThreadTest, CallsOfSeveralThreadsDoNotMeet) {
  std::vector<int> sums(8, 0);
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < sums.size(); ++caller) {
    callers.emplace_back([&sums, caller] {
      for (int i = 0; i < 200; ++i) {
        const auto add = [&] {
          ++sums[caller];
          return absl::OkStatus();
        };
        EXPECT_TRUE(CallOnWorker(add).ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<int>(8, 200));
}

}  // namespace
}  // namespace cotan::autograd
