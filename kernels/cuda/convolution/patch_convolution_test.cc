// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/patch_convolution.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/convolution/convolution_case.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/convolution/sim_plan_runner.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::ErrorInUnits;
using cotan::testing::GapsAreUntouched;
using cotan::testing::TestSeed;
using testing::ConvolutionCase;
using testing::ConvolutionOperands;
using testing::Gradient;
using testing::Layouts;
using testing::MakeOperands;
using testing::RandomConvolution;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;
using testing::SimPlanRunner;

constexpr Gradient kAllProducts[] = {Gradient::kNone, Gradient::kInput, Gradient::kWeight};

absl::StatusOr<KernelPlan> Plan(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ConvolutionProblem problem, DescribeConvolution(request));
  std::optional<KernelPlan> plan = PlanPatchConvolution(problem, request.guarded_outputs);
  if (!plan) return absl::UnimplementedError("not taken");
  return *std::move(plan);
}

RunResult ExpectReference(const ConvolutionCase& c, Gradient gradient, DType dtype, Layouts layouts, bool has_bias,
                          std::mt19937_64& random, RunOptions options = {}) {
  options.seed = random();
  const ConvolutionOperands operands = MakeOperands(c, gradient, dtype, layouts, has_bias, random);
  SCOPED_TRACE(absl::StrCat(c.ToString(), " ", DTypeName(dtype), " product ", static_cast<int>(gradient)));
  const absl::StatusOr<RunResult> result =
      RunPlan(Plan, operands.op, operands.Inputs(), {operands.output.get()}, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_LE(ErrorInUnits(*operands.output, operands.expected), cotan::testing::kMatmul);
  EXPECT_TRUE(GapsAreUntouched(*operands.output));
  EXPECT_EQ(result->launches, 1);
  return *result;
}

bool IsTaken(const ConvolutionCase& c) { return c.op.groups() == 1 && c.input.size() < 5 && c.input[0] > 0; }

TEST(PatchConvolutionTest, RandomGeometriesEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 24;) {
    const ConvolutionCase c = RandomConvolution(random);
    if (!IsTaken(c) || c.op.stride(0) * c.op.stride(c.op.stride_size() - 1) > 4) continue;
    ++i;
    const DType dtype = i % 4 == 0 ? DType::kFloat64 : DType::kFloat32;
    for (const Gradient gradient : kAllProducts) {
      ExpectReference(c, gradient, dtype, Layouts::kRandom, random() % 2 == 0, random);
    }
  }
}

TEST(PatchConvolutionTest, ResultsOfSeveralTilesEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase cases[] = {
      ConvolutionCase::Of({2, 20, 9, 17}, {36, 20, 3, 3}, 1, 1),
      ConvolutionCase::Of({2, 16, 14, 14}, {32, 16, 3, 3}, 2, 1),
      ConvolutionCase::Of({3, 24, 8, 8}, {40, 24, 1, 1}, 2, 0),
      ConvolutionCase::Of({2, 8, 7, 7}, {12, 8, 5, 5}, 1, 2),
      ConvolutionCase::Of({2, 6, 40}, {10, 6, 7}, 1, 3),
      ConvolutionCase::Transposed({2, 10, 6, 6}, {10, 20, 3, 3}, 2, 1, 1),
  };
  for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
    for (const ConvolutionCase& c : cases) {
      for (const Gradient gradient : kAllProducts) ExpectReference(c, gradient, DType::kFloat32, layouts, true, random);
    }
  }
}

TEST(PatchConvolutionTest, FewChannelsAndLongSumsEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t channels : {1, 2, 3}) {
    const ConvolutionCase c = ConvolutionCase::Of({4, channels, 28, 28}, {16, channels, 3, 3}, 1, 1);
    for (const Gradient gradient : kAllProducts) {
      ExpectReference(c, gradient, DType::kFloat32, Layouts::kRowMajor, true, random);
    }
  }
}

// Elements of the input that no window covers have the gradient zero.
TEST(PatchConvolutionTest, DilationAndStrideShareNoFactorOrOne) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t dilation : {1, 2, 3}) {
    const ConvolutionCase c = ConvolutionCase::Of({2, 5, 15, 12}, {7, 5, 3, 2}, 2, 2, dilation);
    for (const Gradient gradient : kAllProducts) {
      ExpectReference(c, gradient, DType::kFloat32, Layouts::kChannelsLast, false, random);
    }
  }
}

TEST(PatchConvolutionTest, GuardedOutputsAreKeptAfterAnError) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase c = ConvolutionCase::Of({6, 3, 20, 20}, {8, 3, 3, 3}, 1, 1);
  for (const Gradient gradient : kAllProducts) {
    ExpectReference(c, gradient, DType::kFloat32, Layouts::kRowMajor, true, random, {.guarded_outputs = true});
    const ConvolutionOperands operands = MakeOperands(c, gradient, DType::kFloat32, Layouts::kRowMajor, true, random);
    const absl::StatusOr<RunResult> result = RunPlan(Plan, operands.op, operands.Inputs(), {operands.output.get()},
                                                     {.guarded_outputs = true, .failed_before = true});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(operands.output->bytes()[0], static_cast<char>(0xa5));
  }
}

// Blocks that share a sum count in memory that the module keeps; the order in which they end is drawn for each launch.
TEST(PatchConvolutionTest, EachLaunchGivesTheSameBitsAtAnyAlignment) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase c = ConvolutionCase::Of({8, 8, 16, 16}, {12, 8, 3, 3}, 1, 1);
  SimPlanRunner runner;
  for (const Gradient gradient : kAllProducts) {
    const ConvolutionOperands operands =
        MakeOperands(c, gradient, DType::kFloat32, Layouts::kChannelsLast, true, random);
    const testing::ConvolutionSpecs specs = operands.Specs();
    const absl::StatusOr<KernelPlan> plan = Plan(specs.Request());
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<double> first;
    for (const int64_t shift_bytes : {0, 0, 4, 8}) {
      const absl::Status status = runner.Run(*plan, operands.Inputs(), *operands.output, {.shift_bytes = shift_bytes});
      ASSERT_TRUE(status.ok()) << status;
      if (first.empty()) first = operands.output->Values();
      EXPECT_EQ(operands.output->Values(), first) << shift_bytes;
    }
    EXPECT_LE(ErrorInUnits(*operands.output, operands.expected), cotan::testing::kMatmul);
  }
}

// Tiles of windows reach beyond the result, but what only these windows would cover is not read.
TEST(PatchConvolutionTest, InfinitiesThatNoWindowCoversChangeNothing) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase c = ConvolutionCase::Of({1, 4, 36, 36}, {4, 4, 3, 3}, 2, 0);  // 17 x 17 windows cover 35 x 35
  for (const Gradient gradient : {Gradient::kNone, Gradient::kWeight}) {
    const ConvolutionOperands operands = MakeOperands(c, gradient, DType::kFloat32, Layouts::kRowMajor, false, random);
    const auto wide = std::find_if(operands.inputs.begin(), operands.inputs.end(),
                                   [](const auto& input) { return input->layout().sizes[2] == 36; });
    ASSERT_NE(wide, operands.inputs.end());
    std::vector<double> values = (*wide)->Values();
    values[35] = std::numeric_limits<double>::infinity();
    (*wide)->SetValues(values);
    const absl::StatusOr<RunResult> result = RunPlan(Plan, operands.op, operands.Inputs(), {operands.output.get()}, {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LE(ErrorInUnits(*operands.output, operands.expected), cotan::testing::kMatmul);
  }
}

TEST(PatchConvolutionTest, OthersAreNotTaken) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase cases[] = {
      ConvolutionCase::Of({2, 8, 9, 9}, {8, 4, 3, 3}, 1, 1, 1, 2),  // groups
      ConvolutionCase::Of({1, 4, 5, 6, 7}, {8, 4, 3, 3, 3}, 1, 1),  // three dimensions
      ConvolutionCase::Of({2, 0, 9, 9}, {8, 0, 3, 3}, 1, 1),        // no channels
      ConvolutionCase::Of({1, 3, 20, 20}, {2, 3, 9, 9}, 1, 1),      // a large kernel
  };
  for (const ConvolutionCase& c : cases) {
    const ConvolutionOperands operands =
        MakeOperands(c, Gradient::kNone, DType::kFloat32, Layouts::kRowMajor, false, random);
    const testing::ConvolutionSpecs specs = operands.Specs();
    EXPECT_EQ(Plan(specs.Request()).status().code(), absl::StatusCode::kUnimplemented) << c.ToString();
  }
}

}  // namespace
}  // namespace cotan::cuda
