// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/recompute.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aot/memory/test_programs.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using cotan::testing::ProgramBuilder;
using cotan::testing::TestKernels;
using serialization::Artifact;

constexpr int kDepth = 12;
const std::vector<std::string> kMethods = {"step"};

TEST(RecomputeTest, AStepIsTheSameInLessMemory) {
  const std::vector<float> expected = RunTwice(DeepStep(kDepth), kMethods);
  ProgramBuilder program = DeepStep(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  const int64_t before = recomputation->arena_bytes();
  EXPECT_GE(before, (kDepth - 1) * 4096);
  const auto reached = recomputation->FitBudget(before / 2);
  ASSERT_TRUE(reached.ok()) << reached.status();
  EXPECT_TRUE(*reached);
  EXPECT_LE(recomputation->arena_bytes(), before / 2);
  EXPECT_GT(recomputation->repeated_ops(), 0);
  std::vector<int64_t> scratch;
  EXPECT_EQ(planner.Plan(artifact.methods(0), scratch)->arena_bytes, recomputation->arena_bytes());
  EXPECT_EQ(RunTwice(std::move(program), kMethods), expected);
}

TEST(RecomputeTest, WhatFitsStaysAsItIs) {
  ProgramBuilder program = DeepStep(kDepth);
  Artifact& artifact = program.artifact();
  const std::string method = artifact.methods(0).SerializeAsString();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  EXPECT_TRUE(*recomputation->FitBudget(recomputation->arena_bytes()));
  EXPECT_EQ(recomputation->repeated_ops(), 0);
  EXPECT_EQ(artifact.methods(0).SerializeAsString(), method);
}

TEST(RecomputeTest, GetsAsSmallAsItCan) {
  const std::vector<float> expected = RunTwice(DeepStep(kDepth), kMethods);
  ProgramBuilder program = DeepStep(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  const int64_t before = recomputation->arena_bytes();
  EXPECT_FALSE(*recomputation->FitBudget(64));
  EXPECT_LT(recomputation->arena_bytes(), before / 2);
  EXPECT_EQ(RunTwice(std::move(program), kMethods), expected);
}

}  // namespace
}  // namespace cotan::aot
