// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/memory_plan.h"

#include "aot/memory/test_programs.h"
#include "gtest/gtest.h"
#include "runtime/session.h"

namespace cotan::aot {
namespace {

using cotan::testing::LinearRegression;
using cotan::testing::ProgramBuilder;
using cotan::testing::TestKernels;

TEST(MemoryPlanTest, IsWhatASessionAllocates) {
  ProgramBuilder program = DeepStep(6);
  const MemoryPlanner planner(program.artifact(), {}, {.kernels = &TestKernels()});
  std::vector<int64_t> scratch;
  const auto plan = planner.Plan(program.artifact().methods(0), scratch);
  ASSERT_TRUE(plan.ok()) << plan.status();
  int64_t peak = 0;
  for (const int64_t bytes : plan->BytesByStep()) peak = std::max(peak, bytes);
  EXPECT_LE(peak, plan->arena_bytes);
  EXPECT_EQ(peak, PeakBytes(plan->lifetimes));
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  ASSERT_TRUE(session.Run("step", {*Tensor::From<float>(std::vector<float>(1024), {1024})}).ok());
  EXPECT_EQ(session.arena_bytes(), plan->arena_bytes);
}

TEST(MemoryPlanTest, DynamicSizesAreThoseOfTheSymbols) {
  ProgramBuilder program = LinearRegression();
  const MemoryPlanner small(program.artifact(), {2}, {.kernels = &TestKernels()});
  const MemoryPlanner large(program.artifact(), {64}, {.kernels = &TestKernels()});
  const serialization::TensorType type = cotan::testing::TypeOf(DType::kFloat32, {"s0", "3"});
  EXPECT_EQ(*small.BytesOf(type), 2 * 3 * 4);
  EXPECT_EQ(*large.BytesOf(type), 64 * 3 * 4);
}

TEST(MemoryPlanTest, NamesTheOpThatTheKernelsLack) {
  ProgramBuilder program = DeepStep(6);
  const KernelRegistry none;
  const DimVector no_symbols;
  const MemoryPlanner planner(program.artifact(), no_symbols, {.kernels = &none});
  std::vector<int64_t> scratch;
  EXPECT_EQ(planner.Plan(program.artifact().methods(0), scratch).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cotan::aot
