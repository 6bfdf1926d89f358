// SPDX-License-Identifier: Apache-2.0

// Tries every registered op of ATen that takes tensors, or those named on the command line, and prints
// the verdict of each.
#include <iostream>
#include <map>

#include "testing/ops/op_trial.h"

int main(int argc, char** argv) {
  constexpr uint64_t kSeed = 13;
  constexpr int kSecondsPerOp = 60;
  std::vector<std::string> ops(argv + 1, argv + argc);
  if (ops.empty()) ops = cotan::testing::OpsOfTensors();
  std::map<std::string, int> counts;
  int not_allowed = 0;
  for (const std::string& op : ops) {
    if (const std::string why = cotan::testing::WhyNotTried(op); argc == 1 && !why.empty()) {
      ++counts["not tried"];
      std::cout << op << ": not tried: " << why << std::endl;
      continue;
    }
    const cotan::testing::OpTrial trial = cotan::testing::TryOp(op, kSeed, kSecondsPerOp);
    const std::string verdict = cotan::testing::VerdictName(trial.verdict);
    ++counts[verdict];
    not_allowed += !cotan::testing::IsAllowed(trial.verdict);
    std::cout << op << ": " << verdict << (trial.message.empty() ? "" : ": " + trial.message) << std::endl;
  }
  std::cout << "seed " << kSeed << ", " << ops.size() << " ops";
  for (const auto& [verdict, count] : counts) std::cout << ", " << count << " " << verdict;
  std::cout << std::endl;
  return not_allowed == 0 ? 0 : 1;
}
