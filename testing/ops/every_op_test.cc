// SPDX-License-Identifier: Apache-2.0

// Compiles a sample of all registered ops (`./bazelw run //testing/ops:every_op` tries all of them).
// No op may crash the compiler, make it throw, or give other results than LibTorch; the status of a
// rejected op names it.
#include <algorithm>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "testing/ops/op_trial.h"

namespace cotan::testing {
namespace {

constexpr size_t kSample = 300;
// Seed of all arguments. The sample is drawn with the seed of the test.
constexpr uint64_t kArguments = 13;
constexpr int kSecondsPerOp = 60;

TEST(EveryOpTest, IsCompiledOrRejectedByName) {
  std::vector<std::string> ops = OpsOfTensors();
  EXPECT_GT(ops.size(), 2000u);
  const uint64_t seed = TestSeed();
  std::shuffle(ops.begin(), ops.end(), std::mt19937_64(seed));
  ops.resize(std::min(ops.size(), kSample));
  std::map<std::string, int> counts;
  for (const std::string& op : ops) {
    if (!WhyNotTried(op).empty()) continue;
    const OpTrial trial = TryOp(op, kArguments, kSecondsPerOp);
    ++counts[VerdictName(trial.verdict)];
    EXPECT_TRUE(IsAllowed(trial.verdict)) << op << " " << VerdictName(trial.verdict) << ": " << trial.message;
  }
  for (const auto& [verdict, count] : counts) std::cout << verdict << ": " << count << "\n";
  EXPECT_GT(counts["agrees"], 50);
}

TEST(EveryOpTest, UnsupportedOpsAreRejected) {
  EXPECT_EQ(TryOp("aten.nonzero.default", kArguments, kSecondsPerOp).verdict, OpTrial::Verdict::kRefused);
}

TEST(EveryOpTest, SupportedOpsAgreeWithLibTorch) {
  EXPECT_EQ(TryOp("aten.add.Tensor", kArguments, kSecondsPerOp).verdict, OpTrial::Verdict::kAgrees);
}

}  // namespace
}  // namespace cotan::testing
