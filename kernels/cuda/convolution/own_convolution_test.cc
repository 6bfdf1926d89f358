// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/own_convolution.h"

#include "base/dtype.h"
#include "gtest/gtest.h"
#include "kernels/cuda/convolution/convolution_case.h"

namespace cotan::cuda {
namespace {

using testing::ConvolutionCase;
using testing::Gradient;
using testing::Layouts;

bool Prefers(const ConvolutionCase& c, Gradient gradient, DType dtype, bool tf32) {
  return PrefersOwnConvolution(MakeSpecs(c, gradient, dtype, Layouts::kRowMajor).Request(), tf32);
}

TEST(OwnConvolutionTest, TensorCoresAreUsedForLargeProductsOnly) {
  const ConvolutionCase small = ConvolutionCase::Of({16, 64, 16, 16}, {64, 64, 3, 3}, 1, 1);
  const ConvolutionCase large = ConvolutionCase::Of({128, 64, 16, 16}, {64, 64, 3, 3}, 1, 1);
  const ConvolutionCase few_channels = ConvolutionCase::Of({128, 3, 32, 32}, {32, 3, 3, 3}, 1, 1);
  for (const Gradient gradient : {Gradient::kNone, Gradient::kInput, Gradient::kWeight}) {
    EXPECT_TRUE(Prefers(small, gradient, DType::kFloat32, true));
    EXPECT_TRUE(Prefers(few_channels, gradient, DType::kFloat32, true));
    EXPECT_FALSE(Prefers(large, gradient, DType::kFloat32, true));
    EXPECT_TRUE(Prefers(large, gradient, DType::kFloat32, false));
    EXPECT_TRUE(Prefers(large, gradient, DType::kFloat64, true));
  }
}

TEST(OwnConvolutionTest, HalvesAndGroupsAreLeftToCudnn) {
  const ConvolutionCase dense = ConvolutionCase::Of({2, 8, 9, 9}, {8, 8, 3, 3}, 1, 1);
  const ConvolutionCase groups = ConvolutionCase::Of({2, 8, 9, 9}, {8, 4, 3, 3}, 1, 1, 1, 2);
  for (const bool tf32 : {false, true}) {
    EXPECT_FALSE(Prefers(dense, Gradient::kNone, DType::kFloat16, tf32));
    EXPECT_FALSE(Prefers(dense, Gradient::kNone, DType::kBFloat16, tf32));
    EXPECT_FALSE(Prefers(groups, Gradient::kNone, DType::kFloat32, tf32));
  }
}

}  // namespace
}  // namespace cotan::cuda
