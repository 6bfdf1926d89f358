// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/convolution.h"

#include <algorithm>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "base/status_macros.h"
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

absl::StatusOr<KernelPlan> PlanOf(const ConvolutionOperands& operands, bool guarded = false) {
  const ConvolutionSpecs specs = operands.Specs();
  return PlanCudnnConvolution(specs.Request(guarded));
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
    const absl::StatusOr<KernelPlan> plan = PlanOf(operands, guarded);
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
    const absl::StatusOr<KernelPlan> plan = PlanOf(operands, /*guarded=*/true);
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

bool HasNote(const ExecutionPlan& plan, cudnn::cudnnBackendNumericalNote_t note) {
  return std::find(plan.notes().begin(), plan.notes().end(), note) != plan.notes().end();
}

TEST(ConvolutionPrecisionTest, TensorCoresRoundF32OnlyWithTheOption) {
  const ConvolutionCase c = ConvolutionCase::Of({32, 64, 16, 16}, {64, 64, 3, 3}, 1, 1);
  for (const bool tf32 : {false, true}) {
    SimPlanRunner runner(tf32);
    const absl::StatusOr<Cudnn*> cudnn = runner.cudnn();
    ASSERT_TRUE(cudnn.ok());
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      for (const Gradient gradient : kAllProducts) {
        const ConvolutionSpecs specs = MakeSpecs(c, gradient, dtype, Layouts::kChannelsLast);
        const absl::StatusOr<ConvolutionProblem> problem = DescribeConvolution(specs.Request());
        ASSERT_TRUE(problem.ok()) << problem.status();
        const absl::StatusOr<ExecutionPlan> plan = CudnnConvolution(*problem).MakePlan(**cudnn, 16);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_EQ(HasNote(*plan, cudnn::CUDNN_NUMERICAL_NOTE_TENSOR_CORE), tf32 && dtype == DType::kFloat32);
        EXPECT_FALSE(HasNote(*plan, cudnn::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
      }
    }
  }
}

TEST(ConvolutionPrecisionTest, Tf32RoundsFactorsButNotTheBias) {
  constexpr double kFine = 1 + 0x1p-12;  // 1 in TF32
  ConvolutionOperands operands;
  const ConvolutionCase c = ConvolutionCase::Of({2, 8, 9, 10}, {12, 8, 3, 3}, 1, 0);
  *operands.op.mutable_convolution() = c.op;
  const auto channels_last = [](const DimVector& sizes) {
    return StridedLayout{sizes, DenseStrides(sizes, {0, 2, 3, 1}), 0};
  };
  const auto add = [&](const StridedLayout& layout) {
    operands.inputs.push_back(std::make_unique<HostTensor>(DType::kFloat32, layout));
    operands.inputs.back()->SetValues(std::vector<double>(static_cast<size_t>(NumElements(layout.sizes)), kFine));
  };
  add(channels_last(c.input));
  add(channels_last(c.weight));
  add({{12}, {1}, 0});
  operands.output = std::make_unique<HostTensor>(DType::kFloat32, channels_last(c.output));
  for (const bool tf32 : {false, true}) {
    SimPlanRunner runner(tf32);
    const absl::StatusOr<KernelPlan> plan = PlanOf(operands);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(runner.Run(*plan, operands.Inputs(), *operands.output).ok());
    const double expected = 8 * 9 * (tf32 ? 1 : kFine * kFine) + kFine;
    for (const double value : operands.output->Values()) EXPECT_NEAR(value, expected, 0x1p-14);
  }
}

TEST_F(ConvolutionTest, BiasIsAPartOfTheCallUnlessTheProductIsTransposed) {
  const struct {
    ConvolutionCase c;
    bool guarded;
    size_t steps;
  } cases[] = {
      {ConvolutionCase::Of({2, 8, 9, 10}, {12, 8, 3, 3}, 1, 1), false, 1},
      {ConvolutionCase::Of({2, 8, 9, 10}, {12, 8, 3, 3}, 1, 1), true, 2},  // and the guarded copy
      {ConvolutionCase::Transposed({2, 6, 5, 5}, {6, 8, 3, 3}, 2, 1, 1), false, 2},
  };
  for (const auto& one : cases) {
    for (const DType dtype : kAllDTypes) {
      ConvolutionOperands operands = MakeOperands(one.c, Gradient::kNone, dtype, Layouts::kRowMajor, true, random_);
      operands.inputs[2] = std::make_unique<HostTensor>(dtype, DimVector{one.c.output[1]});
      const absl::StatusOr<KernelPlan> plan = PlanOf(operands, one.guarded);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->steps.size(), one.steps);
      EXPECT_EQ(NumLibraryCalls(*plan), 1);
    }
  }
}

TEST_F(ConvolutionTest, BiasWithGapsHasALaunchOfItsOwn) {
  const ConvolutionCase c = ConvolutionCase::Of({2, 8, 9}, {12, 8, 3}, 1, 1);
  ConvolutionOperands operands = MakeOperands(c, Gradient::kNone, DType::kFloat32, Layouts::kRowMajor, true, random_);
  operands.inputs[2] = std::make_unique<HostTensor>(DType::kFloat32, StridedLayout{{12}, {2}, 0});
  const absl::StatusOr<KernelPlan> plan = PlanOf(operands);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->steps.size(), 2);
}

TEST_F(ConvolutionTest, BiasIsAddedBeforeTheResultIsRounded) {
  // 1 + 2^-8 is a tie of bf16, which rounds to 1; with the bias the sum is 1 + 2^-7, a bf16 number.
  ConvolutionOperands operands;
  *operands.op.mutable_convolution() = ConvolutionCase::Of({1, 2, 2, 2}, {1, 2, 1, 1}, 1, 0).op;
  const auto add = [&](const DimVector& sizes, const std::vector<double>& values) {
    operands.inputs.push_back(std::make_unique<HostTensor>(DType::kBFloat16, sizes));
    operands.inputs.back()->SetValues(values);
  };
  add({1, 2, 2, 2}, {1, 1, 1, 1, 0x1p-8, 0x1p-8, 0x1p-8, 0x1p-8});
  add({1, 2, 1, 1}, {1, 1});
  add({1}, {0x1p-8});
  operands.output = std::make_unique<HostTensor>(DType::kBFloat16, DimVector{1, 1, 2, 2});
  const absl::StatusOr<KernelPlan> plan = PlanOf(operands);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(runner_.Run(*plan, operands.Inputs(), *operands.output).ok());
  EXPECT_EQ(operands.output->Values(), std::vector<double>(4, 1 + 0x1p-7));
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

TEST_F(ConvolutionTest, EqualOpsShareAPlan) {
  const ConvolutionOperands operands = MakeOperands(ConvolutionCase::Of({2, 8, 9}, {12, 8, 3}, 1, 1), Gradient::kNone,
                                                    DType::kFloat32, Layouts::kRowMajor, false, random_);
  const ConvolutionOperands others = MakeOperands(ConvolutionCase::Of({2, 8, 9}, {12, 8, 3}, 1, 0), Gradient::kNone,
                                                  DType::kFloat32, Layouts::kRowMajor, false, random_);
  const auto prepare = [&](const ConvolutionOperands& of) -> absl::StatusOr<std::unique_ptr<LibraryOperation>> {
    COTAN_ASSIGN_OR_RETURN(const KernelPlan plan, PlanOf(of));
    return std::get<LibraryCall>(plan.steps.back()).spec->Prepare(runner_);
  };
  const auto first = prepare(operands);
  ASSERT_TRUE(first.ok()) << first.status();
  runner_.sim_cudnn().RefusePlans(true);
  EXPECT_TRUE(prepare(operands).ok());
  EXPECT_EQ(prepare(others).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ConvolutionTest, UnsupportedPlansAreUnimplemented) {
  const ConvolutionOperands operands = MakeOperands(ConvolutionCase::Of({2, 8, 9}, {12, 8, 3}, 1, 1), Gradient::kNone,
                                                    DType::kFloat32, Layouts::kRowMajor, false, random_);
  const absl::StatusOr<KernelPlan> plan = PlanOf(operands);
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
  EXPECT_EQ(NumLibraryCalls(*PlanOf(operands)), 0);
  ExpectReference(no_channels, Gradient::kNone, DType::kFloat32, Layouts::kRowMajor, true);
}

TEST_F(ConvolutionTest, PlansOfDensePackedOperandsAreOneCall) {
  const ConvolutionCase c = ConvolutionCase::Of({2, 8, 9, 10}, {12, 8, 3, 3}, 1, 1);
  for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
    const ConvolutionOperands operands = MakeOperands(c, Gradient::kNone, DType::kFloat32, layouts, false, random_);
    const absl::StatusOr<KernelPlan> plan = PlanOf(operands);
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
  const absl::StatusOr<KernelPlan> plan = PlanOf(operands);
  ASSERT_TRUE(plan.ok()) << plan.status();
  SimPlanRunner runner;
  runner.ExpectViolation();
  EXPECT_FALSE(runner.Run(*plan, operands.Inputs(), *operands.output, {.missing_input_bytes = 4}).ok());
}

}  // namespace
}  // namespace cotan::cuda
