// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/plan.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using testing::ExprBuilder;
using ::testing::HasSubstr;
using testing::LinearRegression;
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

TEST(PlanTest, StepsAddressArgumentsArenaAndResults) {
  const auto program = AddTransposed();
  const auto plan = MakePlan(*program, 0, {}, Target());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ((*plan)->steps.size(), 2u);
  std::vector<BufferKind> kinds;
  for (const PlannedPointer& pointer : (*plan)->pointers) kinds.push_back(pointer.kind);
  EXPECT_THAT(kinds, ElementsAre(BufferKind::kInput, BufferKind::kArena, BufferKind::kArena, BufferKind::kArena,
                                 BufferKind::kOutput));
  EXPECT_EQ((*plan)->steps[1].first_pointer, 2);
  EXPECT_EQ((*plan)->steps[1].num_inputs, 2);
  EXPECT_GE((*plan)->arena_bytes, 16);
  EXPECT_EQ((*plan)->arena_bytes % 64, 0);
}

TEST(PlanTest, SizesOfDynamicDimensionsMakeDifferentPlans) {
  const auto program = LinearRegression().Load();
  const auto small = *MakePlan(*program, 0, {2}, Target());
  const auto large = *MakePlan(*program, 0, {64}, Target());
  EXPECT_THAT(small->inputs[0].layout.sizes, ElementsAre(2, 3));
  EXPECT_THAT(large->inputs[0].layout.sizes, ElementsAre(64, 3));
}

// y = 2 * (2 * (x + x)) and z = 3 * y over [2,2]: the first two products compute the same.
TEST(PlanTest, StepsThatComputeTheSameShareAKernel) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const auto times = [&m](uint32_t value, double factor) {
    return m.Pointwise({"2", "2"}, {value},
                       [&](ExprBuilder& b) { return b.Mul(0, b.Constant(DType::kFloat32, factor)); });
  };
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "2"});
  const uint32_t sum = m.Pointwise({"2", "2"}, {x}, [](ExprBuilder& b) { return b.Add(0, 0); });
  const uint32_t y = times(times(sum, 2), 2);
  m.Output("y", y);
  m.Output("z", times(y, 3));
  const auto loaded = program.Load();
  const auto plan = *MakePlan(*loaded, 0, {}, Target());
  ASSERT_EQ(plan->steps.size(), 4u);
  EXPECT_EQ(plan->kernels.size(), 3u);
  EXPECT_EQ(plan->steps[1].kernel, plan->steps[2].kernel);
  EXPECT_NE(plan->steps[0].kernel, plan->steps[1].kernel);
  EXPECT_NE(plan->steps[3].kernel, plan->steps[1].kernel);
}

TEST(PlanTest, DonatedArgumentsSaveMemory) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"1024"});
  m.Output("y", m.Sum(m.Pointwise({"1024"}, {x}, [](ExprBuilder& b) { return b.Add(0, 0); }), 0));
  const auto loaded = program.Load();
  const auto kept = *MakePlan(*loaded, 0, {}, Target());
  const auto donated = *MakePlan(*loaded, 0, {}, Target(), {.results = {}, .donated = {0}});
  EXPECT_LE(donated->peak_bytes + 4096, kept->peak_bytes);
}

TEST(PlanTest, AnOpWithoutKernelIsNamed) {
  const KernelRegistry empty;
  const auto program = AddTransposed();
  const absl::Status status =
      MakePlan(*program, 0, {}, {.kernels = &empty, .device = &HostDevice(), .threads = 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("method 'run', op 0 (expr): no cpu kernel for expr of f32"));
}

TEST(PlanTest, CopiesOfEqualLayoutNeedNoKernel) {
  const KernelRegistry empty;
  const ExecutionTarget bare = {.kernels = &empty, .device = &HostDevice(), .threads = 1};
  const TensorSpec rows = {DType::kFloat32, {.sizes = {2, 2}, .strides = {2, 1}, .offset = 0}};
  const TensorSpec columns = {DType::kFloat32, {.sizes = {2, 2}, .strides = {1, 2}, .offset = 0}};
  EXPECT_TRUE(PrepareCopy(rows, rows, bare).ok());
  EXPECT_EQ(PrepareCopy(rows, columns, bare).status().code(), absl::StatusCode::kNotFound);
  const auto copy = PrepareCopy(rows, columns, Target());
  ASSERT_TRUE(copy.ok()) << copy.status();
  const float from[4] = {1, 2, 3, 4};
  float to[4] = {};
  void* input = const_cast<float*>(from);
  void* output = to;
  ASSERT_TRUE((*copy)->Run({.inputs = &input, .outputs = &output}).ok());
  EXPECT_THAT(to, ElementsAre(1, 3, 2, 4));
}

}  // namespace
}  // namespace cotan
