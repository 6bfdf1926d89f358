// SPDX-License-Identifier: Apache-2.0

// A sample of all registered ops through the compiler (`./bazelw run
// //testing/ops:every_op` tries them all): none may crash it, throw out of it, or be
// compiled to something else than LibTorch computes; what is refused is named.
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
// Seed of all arguments; that of the sample is the test's.
constexpr uint64_t kArguments = 13;
constexpr int kSecondsPerOp = 60;

TEST(EveryOpTest, IsCompiledOrRefusedByName) {
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

TEST(EveryOpTest, AnOpThatIsNotSupportedIsRefused) {
  EXPECT_EQ(TryOp("aten.nonzero.default", kArguments, kSecondsPerOp).verdict, OpTrial::Verdict::kRefused);
}

TEST(EveryOpTest, AnOpThatIsSupportedAgrees) {
  EXPECT_EQ(TryOp("aten.add.Tensor", kArguments, kSecondsPerOp).verdict, OpTrial::Verdict::kAgrees);
}

}  // namespace
}  // namespace cotan::testing
