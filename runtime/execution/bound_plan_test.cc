// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/bound_plan.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Op;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::ExprBuilder;
using ::testing::Ge;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::TestKernels;

ExecutionTarget Target() { return {.kernels = &TestKernels(), .device = &HostDevice(), .threads = 1}; }

// y = (x + 1) + (x + 1)^T over [2,2]; the first sum is used twice.
std::shared_ptr<const Program> AddTransposed() {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "2"});
  const uint32_t a =
      m.Pointwise({"2", "2"}, {x}, [](ExprBuilder& b) { return b.Add(0, b.Constant(DType::kFloat32, 1)); });
  m.Output("y", m.Pointwise({"2", "2"}, {a, m.Permute(a, {1, 0})}, [](ExprBuilder& b) { return b.Add(0, 1); }));
  return program.Load();
}

TEST(BoundPlanTest, ABoundPlanRunsOnWhateverItIsGiven) {
  const auto program = AddTransposed();
  const auto plan = *MakePlan(*program, 0, {}, Target());
  BoundPlan bound(*plan, HostDevice());
  int failed = -1;
  // The arena and the tensors move between calls.
  for (int i = 0; i < 2; ++i) {
    std::vector<char> memory(static_cast<size_t>(plan->arena_bytes) + 64);
    void* arena = memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64;
    std::vector<float> x = {1, 2, 3, 4};
    std::vector<float> y(4);
    bound.Bind({.arena = arena, .states = {}});
    bound.SetInput(0, x.data());
    bound.SetOutput(0, y.data());
    ASSERT_TRUE(bound.Execute(failed).ok());
    EXPECT_THAT(y, ElementsAre(4, 7, 7, 10));
    EXPECT_THAT(x, ElementsAre(1, 2, 3, 4));
  }
}

TEST(BoundPlanTest, EveryStepOfATimedRunHasATime) {
  const auto program = AddTransposed();
  const auto plan = *MakePlan(*program, 0, {}, Target());
  BoundPlan bound(*plan, HostDevice());
  std::vector<char> memory(static_cast<size_t>(plan->arena_bytes) + 64);
  bound.Bind({.arena = memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64, .states = {}});
  std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y(4);
  bound.SetInput(0, x.data());
  bound.SetOutput(0, y.data());
  std::vector<int64_t> nanoseconds(plan->steps.size(), -1);
  int failed = -1;
  ASSERT_TRUE(bound.ExecuteTimed(absl::MakeSpan(nanoseconds), failed).ok());
  EXPECT_THAT(y, ElementsAre(4, 7, 7, 10));
  EXPECT_THAT(nanoseconds, Each(Ge(0)));
}

TEST(BoundPlanTest, TheFailingStepIsTold) {
  ProgramBuilder builder;
  MethodBuilder m = builder.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"3"});
  const uint32_t index = m.Input("index", DType::kInt64, {"1"});
  const uint32_t a = m.Pointwise({"3"}, {x}, [](ExprBuilder& b) { return b.Mul(0, 0); });
  const uint32_t row = m.AddValue(DType::kFloat32, {"1"});
  Op gather;
  gather.mutable_gather();
  m.AddOp(gather, {a, index}, {row}).set_source("embedding");
  m.Output("row", row);
  const auto program = builder.Load();
  const auto plan = *MakePlan(*program, 0, {}, Target());
  BoundPlan bound(*plan, HostDevice());
  std::vector<char> memory(static_cast<size_t>(plan->arena_bytes) + 64);
  bound.Bind({.arena = memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64, .states = {}});
  float values[3] = {1, 2, 3};
  int64_t bad = 5;
  float result = 0;
  bound.SetInput(0, values);
  bound.SetInput(1, &bad);
  bound.SetOutput(0, &result);
  int failed = -1;
  EXPECT_FALSE(bound.Execute(failed).ok());
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(StepName(*program, *plan, plan->steps[1]), "method 'run', op 1 (gather) from embedding");
}

}  // namespace
}  // namespace cotan
