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

using cotan::testing::ExprBuilder;
using cotan::testing::MethodBuilder;
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

// Returns the method step(x) -> gradient, of layers that subtract the mean of each row and multiply matrices of 256
// KiB. For the gradient they are read from the last to the first.
ProgramBuilder CenteredStep(int depth) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("step");
  const std::vector<std::string> sizes = {"256", "256"};
  const uint32_t input = m.Input("x", DType::kFloat32, sizes);
  std::vector<uint32_t> products = {input}, centered;
  for (int i = 0; i < depth; ++i) {
    const int reduce[] = {1};
    ExprBuilder b({256, 256}, reduce);
    const int loaded = b.Input(0, DType::kFloat32);
    const int mean = b.Mul(b.Sum(loaded), b.Constant(DType::kFloat32, 1.0 / 256));
    b.Output(b.Sub(loaded, mean));
    b.Output(mean);
    centered.push_back(m.AddValue(DType::kFloat32, sizes));
    m.AddOp(b.Build(), {products.back()}, {centered.back(), m.AddValue(DType::kFloat32, {"256", "1"})});
    const uint32_t product = m.Matmul(centered.back(), input, sizes);
    products.push_back(
        m.Pointwise(sizes, {product}, [](ExprBuilder& e) { return e.Mul(0, e.Constant(DType::kFloat32, 1.0 / 64)); }));
  }
  uint32_t gradient = products.back();
  for (size_t i = centered.size(); i-- > 0;) {
    gradient = m.Pointwise(sizes, {gradient, centered[i]}, [](ExprBuilder& e) { return e.Mul(0, 1); });
    gradient = m.Pointwise(sizes, {gradient, products[i]}, [](ExprBuilder& e) { return e.Add(0, 1); });
  }
  m.Output("gradient", gradient);
  return program;
}

std::vector<float> Gradient(ProgramBuilder program) {
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  std::vector<float> x(256 * 256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  return *(*session.Run("step", {*Tensor::From<float>(x, {256, 256})}))[0].ToVector<float>();
}

TEST(RecomputeTest, WhatIsCheapForItsMemoryIsRepeatedFromKnownMeans) {
  const std::vector<float> expected = Gradient(CenteredStep(4));
  ProgramBuilder program = CenteredStep(4);
  Artifact& artifact = program.artifact();
  const int num_ops = artifact.methods(0).ops_size();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  const int64_t before = recomputation->arena_bytes();
  ASSERT_TRUE(recomputation->RepeatCheapOps().ok());
  EXPECT_LT(recomputation->arena_bytes(), before * 9 / 10);
  EXPECT_GT(recomputation->repeated_ops(), 0);
  int sums = 0;
  for (const serialization::Op& op : artifact.methods(0).ops()) {
    for (const auto& instruction : op.expr().instructions()) sums += instruction.fn() == serialization::FN_REDUCE_SUM;
  }
  EXPECT_EQ(sums, 4);
  EXPECT_EQ(artifact.methods(0).ops_size(), num_ops + recomputation->repeated_ops());
  EXPECT_EQ(Gradient(std::move(program)), expected);
}

// Returns the method step(x) -> gradient, of layers that subtract the mean of each row, scale the result and multiply
// matrices of 256 KiB. The gradient reads what was scaled and after that the operand of the scaling, but not their
// input.
ProgramBuilder ScaledStep(int depth) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("step");
  const std::vector<std::string> sizes = {"256", "256"};
  const uint32_t input = m.Input("x", DType::kFloat32, sizes);
  uint32_t x = input;
  std::vector<uint32_t> centered, scaled;
  for (int i = 0; i < depth; ++i) {
    const int reduce[] = {1};
    ExprBuilder b({256, 256}, reduce);
    const int loaded = b.Input(0, DType::kFloat32);
    const int difference = b.Sub(loaded, b.Mul(b.Sum(loaded), b.Constant(DType::kFloat32, 1.0 / 256)));
    b.Output(difference);
    b.Output(b.Mul(difference, b.Constant(DType::kFloat32, 0.125)));
    centered.push_back(m.AddValue(DType::kFloat32, sizes));
    scaled.push_back(m.AddValue(DType::kFloat32, sizes));
    m.AddOp(b.Build(), {x}, {centered.back(), scaled.back()}).set_source("scaled");
    x = m.Matmul(scaled.back(), input, sizes);
  }
  uint32_t gradient = x;
  for (size_t i = scaled.size(); i-- > 0;) {
    gradient = m.Matmul(gradient, scaled[i], sizes);
    gradient = m.Pointwise(sizes, {gradient, centered[i]}, [](ExprBuilder& e) { return e.Add(0, 1); });
  }
  m.Output("gradient", gradient);
  return program;
}

TEST(RecomputeTest, AResultIsRepeatedFromAnotherThatIsAlive) {
  const std::vector<float> expected = Gradient(ScaledStep(4));
  ProgramBuilder program = ScaledStep(4);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  const int64_t before = recomputation->arena_bytes();
  ASSERT_TRUE(recomputation->RepeatCheapOps().ok());
  EXPECT_LT(recomputation->arena_bytes(), before * 3 / 4);
  int whole = 0, repeated = 0;
  for (const serialization::Op& op : artifact.methods(0).ops()) {
    if (op.source() != "scaled") continue;
    ++(op.outputs_size() == 2 ? whole : repeated);
  }
  EXPECT_EQ(whole, 4);
  EXPECT_GE(repeated, 2);
  EXPECT_EQ(repeated, recomputation->repeated_ops());
  EXPECT_EQ(Gradient(std::move(program)), expected);
}

// Returns the method step(x) -> gradient, of layers that multiply matrices of 256 KiB and apply tanh. The tanh and the
// first terms of its derivative, which one op computes, are read again for the gradient.
ProgramBuilder ActivatedStep(int depth) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("step");
  const std::vector<std::string> sizes = {"256", "256"};
  const uint32_t input = m.Input("x", DType::kFloat32, sizes);
  uint32_t x = input;
  std::vector<uint32_t> activated, derivatives;
  for (int i = 0; i < depth; ++i) {
    const uint32_t product = m.Matmul(x, input, sizes);
    ExprBuilder b({256, 256});
    const int scaled = b.Mul(b.Input(0, DType::kFloat32), b.Constant(DType::kFloat32, 0.125));
    b.Output(b.Apply(serialization::FN_TANH, {scaled}));
    b.Output(b.Sub(b.Constant(DType::kFloat32, 1), b.Mul(scaled, scaled)));
    x = m.AddValue(DType::kFloat32, sizes);
    activated.push_back(x);
    derivatives.push_back(m.AddValue(DType::kFloat32, sizes));
    m.AddOp(b.Build(), {product}, {activated.back(), derivatives.back()}).set_source("tanh");
  }
  uint32_t gradient = m.Matmul(x, input, sizes);
  for (size_t i = activated.size(); i-- > 0;) {
    gradient = m.Pointwise(sizes, {gradient, derivatives[i]}, [](ExprBuilder& e) { return e.Mul(0, 1); });
    gradient = m.Matmul(gradient, activated[i], sizes);
    gradient =
        m.Pointwise(sizes, {gradient}, [](ExprBuilder& e) { return e.Mul(0, e.Constant(DType::kFloat32, 0.125)); });
  }
  m.Output("gradient", gradient);
  return program;
}

TEST(RecomputeTest, ResultsOfOneOpAreRepeatedTogetherAndComputedOnceEach) {
  const std::vector<float> expected = Gradient(ActivatedStep(4));
  ProgramBuilder program = ActivatedStep(4);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  const int64_t before = recomputation->arena_bytes();
  ASSERT_TRUE(*recomputation->FitBudget(before * 3 / 4));
  int both = 0, one = 0;
  for (const serialization::Op& op : artifact.methods(0).ops()) {
    if (op.source() != "tanh") continue;
    ++(op.outputs_size() == 2 ? both : one);
  }
  EXPECT_GT(one, 0);  // without the derivative, in the first place
  EXPECT_EQ(both, 4);
  EXPECT_EQ(Gradient(std::move(program)), expected);
}

TEST(RecomputeTest, WhatCostsAsMuchAsItSavesIsNotRepeated) {
  ProgramBuilder program = DeepStep(kDepth);
  Artifact& artifact = program.artifact();
  const std::string method = artifact.methods(0).SerializeAsString();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto recomputation = Recomputation::Start(*artifact.mutable_methods(0), planner);
  ASSERT_TRUE(recomputation.ok()) << recomputation.status();
  ASSERT_TRUE(recomputation->RepeatCheapOps().ok());
  EXPECT_EQ(recomputation->repeated_ops(), 0);
  EXPECT_EQ(artifact.methods(0).SerializeAsString(), method);
}

}  // namespace
}  // namespace cotan::aot
