// SPDX-License-Identifier: Apache-2.0

#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "capi/test_handles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace cotan::capi {
namespace {

TEST(CThreadsTest, EachThreadHasItsOwnLastError) {
  EXPECT_EQ(cotan_check_abi(77), COTAN_FAILED_PRECONDITION);
  const std::string here = cotan_last_error();
  std::barrier both(2);
  const auto fail = [&both](const char* path) {
    EXPECT_STREQ(cotan_last_error(), "");
    EXPECT_EQ(cotan_last_error_code(), COTAN_OK);
    for (int i = 0; i < 100; ++i) {
      cotan_program* program = nullptr;
      EXPECT_EQ(cotan_program_load(path, &program), COTAN_NOT_FOUND);
      both.arrive_and_wait();  // both have failed
      EXPECT_THAT(cotan_last_error(), ::testing::HasSubstr(path));
      EXPECT_EQ(cotan_last_error_code(), COTAN_NOT_FOUND);
      both.arrive_and_wait();
    }
  };
  std::thread first(fail, "/nowhere/first.cotan");
  std::thread second(fail, "/nowhere/second.cotan");
  first.join();
  second.join();
  EXPECT_EQ(cotan_last_error(), here);
}

TEST(CThreadsTest, SessionsOfOneProgramTrainOnTheirOwnThreads) {
  const ProgramHandle program = LoadLinearRegression();
  std::vector<std::vector<float>> weights(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& weight : weights) {
    threads.emplace_back([&] {
      const SessionHandle session = MakeSession(program.get());
      for (int step = 0; step < 20; ++step) TrainOnce(session.get());
      weight = StateOf(session.get(), "weight");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& weight : weights) EXPECT_EQ(weight, weights[0]);
}

TEST(CThreadsTest, ASessionRunsOneCallAtATime) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  std::atomic<int> succeeded = 0;
  std::atomic<bool> unexpected = false;
  const auto use = [&] {
    for (int i = 0; i < 2000; ++i) {
      double lr = 0;
      const cotan_status status = cotan_session_get_hyperparameter(session.get(), "lr", 0, &lr);
      if (status == COTAN_OK) ++succeeded;
      if (status != COTAN_OK && status != COTAN_FAILED_PRECONDITION) unexpected = true;
      if (status == COTAN_OK && lr != 0.125) unexpected = true;
    }
  };
  std::thread first(use);
  std::thread second(use);
  first.join();
  second.join();
  EXPECT_GT(succeeded, 0);
  EXPECT_FALSE(unexpected);
  // No call remains marked as running.
  EXPECT_GT(TrainOnce(session.get()), 0);
}

}  // namespace
}  // namespace cotan::capi
