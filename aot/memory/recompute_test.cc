#include "aot/memory/recompute.h"

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
    const auto outputs = session.Run("step", {*Tensor::From<float>(x, {1024})});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    const std::vector<float> values = *(*outputs)[0].ToVector<float>();
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

TEST(RecomputeTest, AStepIsTheSameInLessMemory) {
  const std::vector<float> expected = RunTwice(DeepStep(kDepth));
  ProgramBuilder program = DeepStep(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  const int64_t before = recomputation->arena_bytes();
  EXPECT_GE(before, (kDepth - 1) * 4096);
  const auto reached = recomputation->Reach(before / 2);
  ASSERT_TRUE(reached.ok()) << reached.status();
  EXPECT_TRUE(*reached);
  EXPECT_LE(recomputation->arena_bytes(), before / 2);
  EXPECT_GT(recomputation->repeated_ops(), 0);
  std::vector<int64_t> scratch;
  EXPECT_EQ(planner.Plan(artifact.methods(0), scratch)->arena_bytes, recomputation->arena_bytes());
  EXPECT_EQ(RunTwice(std::move(program)), expected);
}

TEST(RecomputeTest, WhatFitsStaysAsItIs) {
  ProgramBuilder program = DeepStep(kDepth);
  Artifact& artifact = program.artifact();
  const std::string method = artifact.methods(0).SerializeAsString();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  EXPECT_TRUE(*recomputation->Reach(recomputation->arena_bytes()));
  EXPECT_EQ(recomputation->repeated_ops(), 0);
  EXPECT_EQ(artifact.methods(0).SerializeAsString(), method);
}

TEST(RecomputeTest, GetsAsSmallAsItCan) {
  const std::vector<float> expected = RunTwice(DeepStep(kDepth));
  ProgramBuilder program = DeepStep(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  const int64_t before = recomputation->arena_bytes();
  EXPECT_FALSE(*recomputation->Reach(64));
  EXPECT_LT(recomputation->arena_bytes(), before / 2);
  EXPECT_EQ(RunTwice(std::move(program)), expected);
}

}  // namespace
}  // namespace cotan::aot
