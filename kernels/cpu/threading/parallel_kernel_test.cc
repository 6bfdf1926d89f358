// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/parallel_kernel.h"

#include <memory>

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

// Computes output = 2 * input through its own scratch; fails for negative input.
class DoubleKernel final : public Kernel {
 public:
  DoubleKernel() { scratch_bytes_ = sizeof(int); }
  absl::Status Run(const KernelArgs& args) override {
    auto* scratch = static_cast<int*>(args.scratch);
    *scratch = *static_cast<int*>(args.inputs[0]);
    if (*scratch < 0) return absl::InternalError("negative");
    *static_cast<int*>(args.outputs[0]) = 2 * *scratch;
    return absl::OkStatus();
  }
};

absl::Status RunTeam(int threads, int* inputs, int* outputs, size_t count) {
  ParallelKernel team(threads);
  for (size_t i = 0; i < count; ++i) {
    team.Add(std::make_unique<DoubleKernel>(), {Slot::Input(0, i * sizeof(int))}, {Slot::Output(0, i * sizeof(int))});
  }
  EXPECT_EQ(team.scratch_bytes(), 64U * static_cast<size_t>(threads));
  alignas(64) char scratch[256];
  void* in = inputs;
  void* out = outputs;
  return team.Run({&in, &out, scratch});
}

TEST(TeamTest, EachPartRunsOnceOnItsOwnScratch) {
  for (int threads : {1, 2, 4}) {
    int inputs[] = {1, 2, 3, 4, 5};
    int outputs[5] = {};
    ASSERT_TRUE(RunTeam(threads, inputs, outputs, 5).ok());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(outputs[i], 2 * inputs[i]);
  }
}

TEST(TeamTest, ErrorOfAPartIsReported) {
  int inputs[] = {1, -2, 3};
  int outputs[3] = {};
  EXPECT_EQ(RunTeam(2, inputs, outputs, 3).message(), "negative");
}

}  // namespace
}  // namespace cotan::cpu
