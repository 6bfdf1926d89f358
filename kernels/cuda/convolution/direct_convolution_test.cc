// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/direct_convolution.h"

#include <random>
#include <string>
#include <variant>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/convolution/convolution_case.h"
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

constexpr Gradient kAllProducts[] = {Gradient::kNone, Gradient::kInput, Gradient::kWeight};

double Bound(DType dtype) {
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return is_half ? cotan::testing::kRounding : cotan::testing::kMatmul;
}

RunResult ExpectReference(const ConvolutionCase& c, Gradient gradient, DType dtype, Layouts layouts, bool has_bias,
                          std::mt19937_64& random, const RunOptions& options = {}) {
  const ConvolutionOperands operands = MakeOperands(c, gradient, dtype, layouts, has_bias, random);
  SCOPED_TRACE(c.ToString() + " " + std::string(DTypeName(dtype)) + " product " +
               std::to_string(static_cast<int>(gradient)));
  const absl::StatusOr<RunResult> result =
      RunPlan(PlanDirectConvolution, operands.op, operands.Inputs(), {operands.output.get()}, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_LE(ErrorInUnits(*operands.output, operands.expected), Bound(dtype));
  EXPECT_TRUE(GapsAreUntouched(*operands.output));
  return *result;
}

TEST(DirectConvolutionTest, RandomGeometriesEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 16; ++i) {
    const ConvolutionCase c = RandomConvolution(random);
    for (const Gradient gradient : kAllProducts) {
      ExpectReference(c, gradient, DType::kFloat32, Layouts::kRandom, random() % 2 == 0, random, {.seed = random()});
    }
  }
}

TEST(DirectConvolutionTest, OtherDTypesAreRoundedOnce) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    for (int i = 0; i < 6; ++i) {
      const ConvolutionCase c = RandomConvolution(random);
      for (const Gradient gradient : kAllProducts) {
        ExpectReference(c, gradient, dtype, Layouts::kRandom, true, random);
      }
    }
  }
}

TEST(DirectConvolutionTest, ResultsOfSeveralTilesEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
    const ConvolutionCase cases[] = {
        ConvolutionCase::Of({2, 18, 9, 9}, {70, 18, 3, 3}, 1, 1),
        ConvolutionCase::Of({2, 40, 8, 8}, {24, 20, 3, 3}, 2, 1, 1, 2),
        ConvolutionCase::Transposed({2, 10, 6, 6}, {10, 20, 3, 3}, 2, 1, 1),
    };
    for (const ConvolutionCase& c : cases) {
      for (const Gradient gradient : kAllProducts) {
        ExpectReference(c, gradient, DType::kFloat32, layouts, true, random);
      }
    }
  }
}

// As many windows as the tile of 128 x 128 needs.
TEST(DirectConvolutionTest, ResultsOfLargeTilesEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase c = ConvolutionCase::Of({2, 1, 130, 130}, {65, 1, 1, 1}, 1, 0);
  ExpectReference(c, Gradient::kNone, DType::kFloat32, Layouts::kChannelsLast, true, random);
}

TEST(DirectConvolutionTest, DepthwiseConvolutionsEqualTheReference) {
  std::mt19937_64 random(TestSeed());
  for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
    const ConvolutionCase c = ConvolutionCase::Of({2, 12, 9, 9}, {12, 1, 3, 3}, 1, 1, 1, 12);
    for (const Gradient gradient : kAllProducts) {
      ExpectReference(c, gradient, DType::kFloat32, layouts, true, random);
    }
  }
}

TEST(DirectConvolutionTest, GradientsOfWeightsAreSummedInParts) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase c = ConvolutionCase::Of({6, 3, 20, 20}, {8, 3, 3, 3}, 1, 1);
  const RunResult result =
      ExpectReference(c, Gradient::kWeight, DType::kFloat32, Layouts::kChannelsLast, false, random);
  EXPECT_EQ(result.launches, 2);
}

TEST(DirectConvolutionTest, NoChannelsOrNoImagesGiveTheBiasAndZeros) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase no_channels = ConvolutionCase::Of({2, 0, 5}, {3, 0, 2}, 1, 0);
  ExpectReference(no_channels, Gradient::kNone, DType::kFloat32, Layouts::kRowMajor, true, random);
  EXPECT_EQ(ExpectReference(no_channels, Gradient::kInput, DType::kFloat32, Layouts::kRowMajor, true, random).launches,
            0);
  const ConvolutionCase no_images = ConvolutionCase::Of({0, 3, 5, 5}, {8, 3, 2, 2}, 1, 0);
  ExpectReference(no_images, Gradient::kWeight, DType::kFloat32, Layouts::kRowMajor, true, random);
  EXPECT_EQ(ExpectReference(no_images, Gradient::kNone, DType::kFloat32, Layouts::kRowMajor, true, random).launches, 0);
}

TEST(DirectConvolutionTest, GuardedOutputsAreKeptAfterAnError) {
  std::mt19937_64 random(TestSeed());
  const ConvolutionCase c = ConvolutionCase::Of({6, 3, 20, 20}, {8, 3, 3, 3}, 1, 1);
  for (const Gradient gradient : kAllProducts) {
    ExpectReference(c, gradient, DType::kFloat32, Layouts::kRowMajor, true, random, {.guarded_outputs = true});
    const ConvolutionOperands operands = MakeOperands(c, gradient, DType::kFloat32, Layouts::kRowMajor, true, random);
    const absl::StatusOr<RunResult> result =
        RunPlan(PlanDirectConvolution, operands.op, operands.Inputs(), {operands.output.get()},
                {.guarded_outputs = true, .failed_before = true});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(operands.output->bytes()[0], static_cast<char>(0xa5));
  }
}

// Three quarters of the sectors of a tile's loads may be loaded again by other tiles, of other elements of the kernel.
TEST(DirectConvolutionTest, LoadsAreCoalescedInBothLayouts) {
  std::mt19937_64 random(TestSeed());
  for (const Layouts layouts : {Layouts::kRowMajor, Layouts::kChannelsLast}) {
    const ConvolutionCase c = ConvolutionCase::Of({4, 32, 16, 16}, {64, 32, 1, 1}, 1, 0);
    for (const Gradient gradient : kAllProducts) {
      const RunResult result = ExpectReference(c, gradient, DType::kFloat32, layouts, false, random);
      EXPECT_LE(result.counters.global_load_sectors * 32, result.counters.global_load_bytes * 9 / 8)
          << static_cast<int>(gradient) << " " << static_cast<int>(layouts);
    }
  }
}

TEST(DirectConvolutionTest, OperandsBeyondTwoToThe31HaveWideIndices) {
  const StridedLayout large = {{1, 3, 40000, 40000}, {4800000000, 1600000000, 40000, 1}, 0};
  const StridedLayout weight = {{5, 3, 1, 1}, {3, 1, 1, 1}, 0};
  const StridedLayout output = {{1, 5, 40000, 40000}, {8000000000, 1600000000, 40000, 1}, 0};
  const TensorSpec inputs[] = {{DType::kFloat32, large}, {DType::kFloat32, weight}};
  const TensorSpec outputs[] = {{DType::kFloat32, output}};
  serialization::Op op;
  *op.mutable_convolution() = ConvolutionCase::Of({1, 3, 4, 4}, {5, 3, 1, 1}, 1, 0).op;
  const absl::StatusOr<KernelPlan> plan =
      PlanDirectConvolution({.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string& text = std::get<KernelLaunch>(plan->steps[0]).source.text;
  EXPECT_NE(text.find("using Index = long long"), std::string::npos);
}

}  // namespace
}  // namespace cotan::cuda
