// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/call_plan.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using ::testing::HasSubstr;
using testing::LoadedFunction;
using testing::ProgramBuilder;
using testing::Square;
using testing::TestKernels;

TEST(CallPlanTest, RejectsMethodsWithoutMetadata) {
  ProgramBuilder builder = Square();
  builder.AddMethod("bare").Input("x", DType::kFloat32, {"2"});
  Session session = *Session::Create(builder.Load(), {.kernels = &TestKernels(), .device = nullptr, .threads = 1});
  EXPECT_THAT(Function::Create(session, "b").status().message(), HasSubstr("is the backward of 'f'"));
  EXPECT_THAT(Function::Create(session, "bare").status().message(), HasSubstr("has no metadata"));
  EXPECT_EQ(Function::Create(session, "no").status().code(), absl::StatusCode::kNotFound);
  builder = Square();
  builder.artifact().mutable_methods(1)->clear_gradient_inputs();
  Session other = *Session::Create(builder.Load(), {.kernels = &TestKernels(), .device = nullptr, .threads = 1});
  EXPECT_THAT(Function::Create(other, "f").status().message(),
              HasSubstr("has a backward with 0 gradient_inputs for 1 outputs"));
}

TEST(CallPlanTest, TextShowsTheStagesThatAMethodNeeds) {
  LoadedFunction program(Square());
  EXPECT_EQ(program.f.ToString(),
            "call of 'f'\n"
            "  check       1 arguments, 0 parameters and buffers\n"
            "  forward     1 ops, 1 results, 1 saved\n"
            "  record      backward 'b', 1 tangents, gradients of x\n"
            "  wrap        1 tensors\n"
            "  save        1 values, 1 with their versions, 0 donated, 0 states\n"
            "  results     output 0 new\n");
}

}  // namespace
}  // namespace cotan
