// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/convolution.h"

#include <algorithm>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/convolution/convolution_case.h"
#include "kernels/cuda/convolution/cudnn_convolution.h"
#include "kernels/cuda/convolution/sim_plan_runner.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::ErrorInUnits;
using cotan::testing::HostTensor;
using cotan::testing::TestSeed;
using testing::ConvolutionCase;
using testing::ConvolutionOperands;
using testing::ConvolutionSpecs;
using testing::Gradient;
using testing::Layouts;
using testing::MakeOperands;
using testing::MakeSpecs;
using testing::RandomConvolution;
using testing::SimPlanRunner;

constexpr Gradient kAllProducts[] = {Gradient::kNone, Gradient::kInput, Gradient::kWeight};
constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

absl::StatusOr<KernelPlan> PlanOf(const ConvolutionOperands& operands, Gradient gradient, bool guarded = false) {
  const ConvolutionSpecs specs = operands.Specs();
  const KernelRequest request = specs.Request(guarded);
  if (gradient == Gradient::kNone) return PlanConvolution(request);
  return gradient == Gradient::kInput ? PlanConvolutionBackwardInput(request) : PlanConvolutionBackwardWeight(request);
}

int NumLibraryCalls(const KernelPlan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(), [](const PlanStep& step) {
    return std::holds_alternative<LibraryCall>(step);
  }));
}

double Bound(DType dtype) {
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return is_half ? cotan::testing::kRounding : cotan::testing::kMatmul;
}

class ConvolutionTest : public ::testing::Test {
 protected:
  void ExpectReference(const ConvolutionCase& c, Gradient gradient, DType dtype, Layouts layouts, bool has_bias,
                       bool guarded = false, const SimPlanRunner::Options& options = {}) {
    const ConvolutionOperands operands = MakeOperands(c, gradient, dtype, layouts, has_bias, random_);
    std::string trace =
        c.ToString() + " " + std::string(DTypeName(dtype)) + " product " + std::to_string(static_cast<int>(gradient));
    for (const auto& input : operands.inputs) trace += " " + cotan::ToString(input->layout());
    SCOPED_TRACE(trace + " -> " + cotan::ToString(operands.output->layout()));
    const absl::StatusOr<KernelPlan> plan = PlanOf(operands, gradient, guarded);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Status status = runner_.Run(*plan, operands.Inputs(), *operands.output, options);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_LE(ErrorInUnits(*operands.output, operands.expected), Bound(dtype));
  }

  std::mt19937_64 random_{TestSeed()};
  SimPlanRunner runner_;
};

TEST_F(ConvolutionTest, EveryDTypeProductAndLayoutIsSupportedByCudnn) {
  const ConvolutionCase cases[] = {
      ConvolutionCase::Of({2, 8, 9}, {12, 8, 3}, 1, 1),
      ConvolutionCase::Of({2, 8, 9, 10}, {12, 8, 3, 3}, 2, 1),
      ConvolutionCase::Of({2, 8, 9, 10}, {12, 4, 3, 2}, 1, 2, 2, 2),
      ConvolutionCase::Of({2, 6, 9, 9}, {6, 1, 3, 3}, 1, 1, 1, 6),
      ConvolutionCase::Of({1, 4, 5, 6, 7}, {8, 4, 3, 3, 3}, 1, 1),
      ConvolutionCase::Transposed({2, 6, 5, 5}, {6, 8, 3, 3}, 2, 1, 1),
      ConvolutionCase::Transposed({2, 6, 5}, {6, 4, 3}, 2, 0, 0, 2),
  };
  for (const ConvolutionCase& c : cases) {
    for (const DType dtype : kAllDTypes) {
      for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
        for (const Gradient gradient : kAllProducts) ExpectReference(c, gradient, dtype, layouts, true);
      }
    }
  }
  EXPECT_EQ(runner_.sim_cudnn().num_executions(), 7 * 4 * 2 * 3);
}

TEST_F(ConvolutionTest, RandomGeometriesAndStridesEqualTheReference) {
  for (int i = 0; i < 30; ++i) {
    const ConvolutionCase c = RandomConvolution(random_);
    const DType dtype = kAllDTypes[random_() % 4];
    for (const Gradient gradient : kAllProducts) {
      ExpectReference(c, gradient, dtype, Layouts::kRandom, random_() % 2 == 0, random_() % 2 == 0);
    }
  }
}

TEST_F(ConvolutionTest, UnalignedOperandsHaveAnEngineOfTheirOwn) {
  for (const DType dtype : kAllDTypes) {
    const ConvolutionCase c = ConvolutionCase::Of({2, 16, 9, 10}, {32, 16, 3, 3}, 1, 1);
    for (const Gradient gradient : kAllProducts) {
      ExpectReference(c, gradient, dtype, Layouts::kChannelsLast, false, false,
                      {.shift_bytes = static_cast<int64_t>(ByteSize(dtype))});
    }
  }
}

TEST_F(ConvolutionTest, GuardedOutputsAreKeptAfterAnError) {
  const ConvolutionCase c = ConvolutionCase::Of({2, 8, 9, 10}, {12, 8, 3, 3}, 1, 1);
  for (const Gradient gradient : kAllProducts) {
    const ConvolutionOperands operands =
        MakeOperands(c, gradient, DType::kFloat32, Layouts::kChannelsLast, true, random_);
    const absl::StatusOr<KernelPlan> plan = PlanOf(operands, gradient, /*guarded=*/true);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Status status = runner_.Run(*plan, operands.Inputs(), *operands.output, {.failed_before = true});
    ASSERT_TRUE(status.ok()) << status;
    const absl::Span<const char> bytes = operands.output->bytes();
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\xff'; }));
  }
}

TEST_F(ConvolutionTest, EnginesAreDeterministicAndKeepThePrecision) {
  const ConvolutionCase cases[] = {
      ConvolutionCase::Of({32, 64, 16, 16}, {64, 64, 3, 3}, 1, 1),
      ConvolutionCase::Of({32, 64, 16, 16}, {128, 64, 1, 1}, 2, 0),
      ConvolutionCase::Of({32, 3, 32, 32}, {64, 3, 7, 7}, 2, 3),
  };
  const absl::StatusOr<Cudnn*> cudnn = runner_.cudnn();
  ASSERT_TRUE(cudnn.ok());
  for (const ConvolutionCase& c : cases) {
    for (const DType dtype : kAllDTypes) {
      const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
      for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
        for (const Gradient gradient : kAllProducts) {
          const ConvolutionSpecs specs = MakeSpecs(c, gradient, dtype, layouts);
          const absl::StatusOr<ConvolutionProblem> problem = DescribeConvolution(specs.Request());
          ASSERT_TRUE(problem.ok()) << problem.status();
          const absl::StatusOr<ExecutionPlan> plan = CudnnConvolution(*problem).MakePlan(**cudnn, 16);
          ASSERT_TRUE(plan.ok()) << plan.status();
          EXPECT_TRUE(IsEngineAllowed(plan->notes(), {.keep_input_precision = !is_half}));
          EXPECT_LE(plan->workspace_bytes(), EnginePolicy().max_workspace_bytes);
        }
      }
    }
  }
}

TEST_F(ConvolutionTest, WorkspaceIsSharedAndOldOnesStayAllocated) {
  const absl::StatusOr<Cudnn*> cudnn = runner_.cudnn();
  ASSERT_TRUE(cudnn.ok());
  EXPECT_EQ((*cudnn)->workspace(), nullptr);
  ASSERT_TRUE((*cudnn)->ReserveWorkspace(1000).ok());
  void* const first = (*cudnn)->workspace();
  EXPECT_NE(first, nullptr);
  ASSERT_TRUE((*cudnn)->ReserveWorkspace(100000).ok());
  EXPECT_EQ((*cudnn)->workspace(), first);
  ASSERT_TRUE((*cudnn)->ReserveWorkspace((size_t{2} << 20) + 1).ok());
  EXPECT_NE((*cudnn)->workspace(), first);
  EXPECT_EQ((*cudnn)->workspace_bytes(), size_t{4} << 20);
  char byte = 0;
  EXPECT_EQ(runner_.driver().cuMemcpyHtoD_v2(reinterpret_cast<driver::CUdeviceptr>(first), &byte, 1),
            driver::CUDA_SUCCESS);
}

TEST_F(ConvolutionTest, UnsupportedPlansAreUnimplemented) {
  const ConvolutionOperands operands = MakeOperands(ConvolutionCase::Of({2, 8, 9}, {12, 8, 3}, 1, 1), Gradient::kNone,
                                                    DType::kFloat32, Layouts::kRowMajor, false, random_);
  const absl::StatusOr<KernelPlan> plan = PlanOf(operands, Gradient::kNone);
  ASSERT_TRUE(plan.ok()) << plan.status();
  runner_.sim_cudnn().RefusePlans(true);
  const absl::Status status = runner_.Run(*plan, operands.Inputs(), *operands.output);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "no engine of cuDNN supports")) << status;
}

TEST_F(ConvolutionTest, ProductsOverNothingNeedNoLibrary) {
  const ConvolutionCase no_channels = ConvolutionCase::Of({2, 0, 5}, {3, 0, 2}, 1, 0);
  const ConvolutionOperands operands =
      MakeOperands(no_channels, Gradient::kNone, DType::kFloat32, Layouts::kRowMajor, true, random_);
  EXPECT_EQ(NumLibraryCalls(*PlanOf(operands, Gradient::kNone)), 0);
  ExpectReference(no_channels, Gradient::kNone, DType::kFloat32, Layouts::kRowMajor, true);
}

TEST_F(ConvolutionTest, PlansOfDensePackedOperandsAreOneCall) {
  const ConvolutionCase c = ConvolutionCase::Of({2, 8, 9, 10}, {12, 8, 3, 3}, 1, 1);
  for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
    const ConvolutionOperands operands = MakeOperands(c, Gradient::kNone, DType::kFloat32, layouts, false, random_);
    const absl::StatusOr<KernelPlan> plan = PlanOf(operands, Gradient::kNone);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->steps.size(), 1);
    EXPECT_EQ(plan->scratch_bytes, 0);
  }
}

// After a violation the simulated GPU is of no use, as a real one.
TEST(ConvolutionFaultTest, ShrunkenOperandIsFound) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionOperands operands = MakeOperands(ConvolutionCase::Of({2, 8, 9}, {12, 8, 3}, 1, 1), Gradient::kNone,
                                                    DType::kFloat32, Layouts::kRowMajor, false, random);
  const absl::StatusOr<KernelPlan> plan = PlanOf(operands, Gradient::kNone);
  ASSERT_TRUE(plan.ok()) << plan.status();
  SimPlanRunner runner;
  runner.ExpectViolation();
  EXPECT_FALSE(runner.Run(*plan, operands.Inputs(), *operands.output, {.missing_input_bytes = 4}).ok());
}

}  // namespace
}  // namespace cotan::cuda
