// SPDX-License-Identifier: Apache-2.0

// What the kernels of patch_convolution.h need: a change of their text or of the choice of tilings that makes registers
// spill is found here, for convolutions of the models of testing/models and of larger ones.
#include <random>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/cuda/convolution/convolution_case.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/convolution/patch_convolution.h"

namespace cotan::cuda {
namespace {

using testing::ConvolutionCase;
using testing::ConvolutionSpecs;
using testing::Gradient;
using testing::Layouts;
using testing::MakeSpecs;

constexpr int kMaxRegisters = 128;  // two blocks of 256 threads on a processor
constexpr int kMainArchitecture = 90;

// Activations are channels last, weights row-major, as the compiler lays them out.
ConvolutionSpecs SpecsOf(const ConvolutionCase& c, Gradient gradient, DType dtype) {
  ConvolutionSpecs specs = MakeSpecs(c, gradient, dtype, Layouts::kChannelsLast);
  TensorSpec& weights = gradient == Gradient::kWeight ? specs.outputs[0] : specs.inputs[1];
  weights.layout.strides = ContiguousStrides(weights.layout.sizes);
  return specs;
}

void ExpectNoSpills(const ConvolutionSpecs& specs, int compute_capability) {
  const absl::StatusOr<ConvolutionProblem> problem = DescribeConvolution(specs.Request());
  ASSERT_TRUE(problem.ok()) << problem.status();
  const std::optional<KernelPlan> plan = PlanPatchConvolution(*problem, /*guarded=*/false);
  ASSERT_TRUE(plan.has_value());
  const KernelLaunch& launch = std::get<KernelLaunch>(plan->steps[0]);
  EXPECT_LE(launch.dynamic_shared_bytes, 99u * 1024u);
  const auto resources = CompileForArchitectures(launch.source, {&compute_capability, 1});
  ASSERT_TRUE(resources.ok()) << resources.status();
  const absl::Status status = CheckResources(*resources, kMaxRegisters);
  EXPECT_TRUE(status.ok()) << status << "\n" << launch.source.text;
}

TEST(PatchConvolutionResourcesTest, NoKernelSpills) {
  const ConvolutionCase cases[] = {
      ConvolutionCase::Of({32, 1, 28, 28}, {16, 1, 3, 3}, 1, 1),
      ConvolutionCase::Of({32, 16, 14, 14}, {32, 16, 3, 3}, 1, 1),
      ConvolutionCase::Of({16, 3, 32, 32}, {32, 3, 3, 3}, 1, 1),
      ConvolutionCase::Of({16, 32, 32, 32}, {32, 32, 3, 3}, 1, 1),
      ConvolutionCase::Of({16, 32, 32, 32}, {64, 32, 3, 3}, 2, 1),
      ConvolutionCase::Of({16, 32, 32, 32}, {64, 32, 1, 1}, 2, 0),
      ConvolutionCase::Of({16, 64, 16, 16}, {64, 64, 3, 3}, 1, 1),
      ConvolutionCase::Of({128, 64, 16, 16}, {128, 64, 3, 3}, 2, 1),
      ConvolutionCase::Of({128, 128, 8, 8}, {128, 128, 3, 3}, 1, 1),
      ConvolutionCase::Of({32, 3, 224, 224}, {64, 3, 7, 7}, 2, 3),
      ConvolutionCase::Of({32, 96, 27, 27}, {256, 96, 5, 5}, 1, 2),
  };
  std::mt19937_64 random(cotan::testing::TestSeed());
  for (const ConvolutionCase& c : cases) {
    for (const Gradient gradient : {Gradient::kNone, Gradient::kInput, Gradient::kWeight}) {
      SCOPED_TRACE(absl::StrCat(c.ToString(), " product ", static_cast<int>(gradient)));
      ExpectNoSpills(SpecsOf(c, gradient, DType::kFloat32), kMainArchitecture);
      if (random() % 4 == 0) {
        ExpectNoSpills(SpecsOf(c, gradient, DType::kFloat32), kGateComputeCapabilities[random() % 4]);
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cuda
