// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/memory_plan.h"

#include <memory>

#include "aot/memory/test_programs.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
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

int kernels_made = 0;

absl::StatusOr<std::unique_ptr<Kernel>> CountAndMakeExpr(const KernelRequest& request) {
  ++kernels_made;
  COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                         TestKernels().Find(DeviceType::kCpu, serialization::Op::kExpr, request.outputs[0].dtype));
  return factory(request);
}

TEST(MemoryPlanTest, EqualOpsOnEqualOperandsHaveOneKernelMade) {
  KernelRegistry kernels;
  for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
    ASSERT_TRUE(kernels.Register(DeviceType::kCpu, serialization::Op::kExpr, dtype, CountAndMakeExpr).ok());
  }
  const auto made_for = [&kernels](int depth) {
    ProgramBuilder program = DeepStep(depth);
    const MemoryPlanner planner(program.artifact(), {}, {.kernels = &kernels});
    kernels_made = 0;
    std::vector<int64_t> scratch;
    EXPECT_TRUE(planner.Plan(program.artifact().methods(0), scratch).ok());
    return kernels_made;
  };
  EXPECT_GT(made_for(6), 0);
  EXPECT_EQ(made_for(6), made_for(24));
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
