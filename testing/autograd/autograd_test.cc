// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/random_program.h"

namespace cotan::testing {
namespace {

int num_programs = 600;
uint64_t first_seed = 1;

// Runs the programs and expects no difference to LibTorch.
void RunPrograms() {
  std::printf("seeds %llu ... %llu\n", static_cast<unsigned long long>(first_seed),
              static_cast<unsigned long long>(first_seed + static_cast<uint64_t>(num_programs) - 1));
  int steps = 0;
  int refused = 0;
  int backwards = 0;
  int failed = 0;
  for (int i = 0; i < num_programs && failed < 5; ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    const ProgramReport report = RunRandomProgram(seed);
    steps += report.steps;
    refused += report.refused;
    backwards += report.backwards;
    if (report.difference.empty()) continue;
    ++failed;
    const ProgramReport smallest = ShrinkRandomProgram(seed);
    ADD_FAILURE() << "seed " << seed << "\n" << smallest.text << smallest.difference;
  }
  std::printf("%d steps, %d refused by both, %d backwards\n", steps, refused, backwards);
  if (failed != 0 || num_programs < 100) return;
  // Checks the coverage of the programs: most steps run, many are refused.
  EXPECT_GT(backwards, num_programs / 2);
  EXPECT_GT(refused, num_programs / 2);
  EXPECT_LT(refused, steps / 2);
}

TEST(AutogradTest, RandomProgramsAgreeWithLibTorch) { RunPrograms(); }

TEST(AutogradTest, RandomProgramsWithCapturedBackwardsAgreeWithLibTorch) {
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  CompiledAutograd scope;
  RunPrograms();
  const CaptureStats& stats = CompiledAutograd::Stats();
  std::printf("%lld captures, %lld hits, %lld segments, %lld of them walked\n", static_cast<long long>(stats.captures),
              static_cast<long long>(stats.hits), static_cast<long long>(stats.segments),
              static_cast<long long>(stats.walked_segments));
  EXPECT_GT(stats.segments, num_programs / 2);
  EXPECT_LT(stats.walked_segments, stats.segments / 20);
}

}  // namespace
}  // namespace cotan::testing

// --programs=N, --seed=FIRST.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--programs=", 0) == 0) cotan::testing::num_programs = std::atoi(argv[i] + 11);
    if (argument.rfind("--seed=", 0) == 0) cotan::testing::first_seed = std::strtoull(argv[i] + 7, nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
