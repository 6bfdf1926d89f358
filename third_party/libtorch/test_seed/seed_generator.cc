// SPDX-License-Identifier: Apache-2.0

// Seeds LibTorch's default generator before each test of a program that links this file. LibTorch itself seeds it from
// the system, so that tests would see other numbers in each run.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "base/test_seed.h"

namespace cotan::testing {
namespace {

class GeneratorSeed : public ::testing::EmptyTestEventListener {
 public:
  void OnTestProgramStart(const ::testing::UnitTest& /*test*/) override { seed_ = TestSeed(); }
  void OnTestStart(const ::testing::TestInfo& /*test*/) override { at::manual_seed(seed_); }

 private:
  uint64_t seed_ = 0;
};

// GoogleTest owns the listener.
const bool is_appended = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new GeneratorSeed);
  return true;
}();

}  // namespace
}  // namespace cotan::testing
