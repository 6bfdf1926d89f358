#include "aot/memory/saved_values.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aot/memory/test_programs.h"
#include "gtest/gtest.h"
#include "runtime/session.h"

namespace cotan::aot {
namespace {

using cotan::testing::ProgramBuilder;
using cotan::testing::TestKernels;
using serialization::Artifact;

constexpr int kDepth = 12;

std::vector<float> RunTwice(ProgramBuilder program) {
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  std::vector<float> x(1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 512 - 1;
  std::vector<float> results;
  for (int step = 0; step < 2; ++step) {
    const auto outputs = session.Run("forward", {*Tensor::From<float>(x, {1024})});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    const auto gradients = session.Run("backward", *outputs);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    const std::vector<float> values = *(*gradients)[0].ToVector<float>();
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

TEST(SavedValuesTest, GradientsAreTheSameWithLessSaved) {
  const std::vector<float> expected = RunTwice(DeepPair(kDepth));
  ProgramBuilder program = DeepPair(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto saved = SavedValues::Start(*artifact.mutable_methods(0), *artifact.mutable_methods(1), planner);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const int64_t before = saved->memory().Total();
  EXPECT_EQ(saved->memory().saved, kDepth * 4096);
  const auto reached = saved->Reach(before * 2 / 3);
  ASSERT_TRUE(reached.ok()) << reached.status();
  EXPECT_TRUE(*reached);
  EXPECT_LE(saved->memory().Total(), before * 2 / 3);
  EXPECT_LT(artifact.methods(0).num_saved(), static_cast<uint32_t>(kDepth));
  EXPECT_GT(saved->repeated_ops(), 0);
  EXPECT_EQ(RunTwice(std::move(program)), expected);
}

TEST(SavedValuesTest, GetsAsSmallAsItCan) {
  const std::vector<float> expected = RunTwice(DeepPair(kDepth));
  ProgramBuilder program = DeepPair(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto saved = SavedValues::Start(*artifact.mutable_methods(0), *artifact.mutable_methods(1), planner);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_FALSE(*saved->Reach(64));
  EXPECT_EQ(RunTwice(std::move(program)), expected);
}

}  // namespace
}  // namespace cotan::aot
