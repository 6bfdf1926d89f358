// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/new_thread.h"

#include <gtest/gtest.h>

#include <thread>

namespace cotan::autograd {
namespace {

TEST(NewThreadTest, TheCallRunsOnAnotherThreadAndItsErrorIsReturned) {
  std::thread::id id = std::this_thread::get_id();
  EXPECT_TRUE(CallOnNewThread([&] {
                id = std::this_thread::get_id();
                return absl::OkStatus();
              }).ok());
  EXPECT_NE(id, std::this_thread::get_id());
  EXPECT_EQ(CallOnNewThread([] { return absl::NotFoundError("x"); }), absl::NotFoundError("x"));
}

}  // namespace
}  // namespace cotan::autograd
