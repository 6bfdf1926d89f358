// SPDX-License-Identifier: Apache-2.0

// Which problems the kernels of this project take; ConvolutionTest compares their results.
#include "gtest/gtest.h"
#include "kernels/cpu/convolution/amx_weight_gradient.h"
#include "kernels/cpu/convolution/depthwise.h"
#include "kernels/cpu/convolution/few_channels.h"
#include "kernels/cpu/convolution/pointwise.h"
#include "kernels/cpu/convolution/strided_gradient.h"
#include "kernels/cpu/convolution/winograd.h"
#include "kernels/cpu/simd/amx_tiles.h"

namespace cotan::cpu {
namespace {

StridedLayout Dense(const DimVector& sizes) { return {sizes, ContiguousStrides(sizes), 0}; }

// Returns the problem of a square convolution with a padding of half a kernel.
ConvolutionProblem Problem(ConvolutionProduct product, int64_t batch, int64_t in, int64_t side, int64_t out,
                           int64_t kernel, int64_t groups = 1) {
  ConvolutionProblem p;
  p.product = product;
  p.source.layout = Dense({batch, in, side, side});
  p.weights.layout = Dense({out, in / groups, kernel, kernel});
  p.destination.layout = Dense({batch, out, side, side});
  p.groups = groups;
  p.stride = {1, 1};
  p.dilation = {0, 0};
  p.padding_before = p.padding_after = {kernel / 2, kernel / 2};
  return p;
}

constexpr ConvolutionProduct kProducts[] = {ConvolutionProduct::kForward, ConvolutionProduct::kBackwardData,
                                            ConvolutionProduct::kBackwardWeights};

bool HasAvx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

TEST(OwnKernelsTest, WinogradTakesDenseKernelsOfThreeWithWholeTiles) {
  for (const ConvolutionProduct product : kProducts) {
    const bool is_of_weights = product == ConvolutionProduct::kBackwardWeights;
    const auto takes = [&](int64_t batch, int64_t side) {
      return MakeWinograd(Problem(product, batch, 16, side, 16, 3), 1) != nullptr;
    };
    EXPECT_EQ(takes(2, 14), HasAvx512());
    EXPECT_EQ(takes(1, 7), HasAvx512()) << "49 pixels in 16 tiles";
    EXPECT_EQ(takes(1, 6), is_of_weights && HasAvx512()) << "36 pixels in 9 tiles, which are computed as 16";
    EXPECT_EQ(takes(4, 2), is_of_weights && HasAvx512()) << "4 tiles";
    EXPECT_EQ(takes(8, 2), HasAvx512()) << "8 tiles";
    EXPECT_FALSE(takes(3, 2)) << "3 tiles";
    EXPECT_FALSE(takes(100, 1)) << "a pixel in each tile";
    ConvolutionProblem dilated = Problem(product, 2, 16, 14, 16, 3);
    dilated.dilation = {1, 1};
    dilated.padding_before = dilated.padding_after = {2, 2};
    EXPECT_EQ(MakeWinograd(dilated, 1) != nullptr, HasAvx512());
    dilated.dilation = {6, 6};
    dilated.padding_before = dilated.padding_after = {7, 7};
    EXPECT_EQ(MakeWinograd(dilated, 1) != nullptr, HasAvx512()) << "7 rows in steps of 7 are tiles of two";
    dilated.dilation = {9, 9};
    dilated.padding_before = dilated.padding_after = {10, 10};
    EXPECT_EQ(MakeWinograd(dilated, 1), nullptr) << "most tiles have one pixel";
    EXPECT_EQ(MakeWinograd(Problem(product, 2, 15, 14, 16, 3), 1), nullptr) << "15 channels";
    EXPECT_EQ(MakeWinograd(Problem(product, 2, 16, 14, 16, 5), 1), nullptr) << "5x5";
    EXPECT_EQ(MakeWinograd(Problem(product, 2, 32, 14, 32, 3, 2), 1), nullptr) << "groups";
    ConvolutionProblem strided = Problem(product, 2, 16, 14, 16, 3);
    strided.stride = {1, 2};
    EXPECT_EQ(MakeWinograd(strided, 1), nullptr);
  }
}

TEST(OwnKernelsTest, WinogradTakesBFloat16WithMostPixelsOfLargerTiles) {
  for (const ConvolutionProduct product : kProducts) {
    const bool is_of_weights = product == ConvolutionProduct::kBackwardWeights;
    const auto takes = [&](int64_t batch, int64_t channels, int64_t side) {
      ConvolutionProblem half = Problem(product, batch, channels, side, 32, 3);
      half.dtype = DType::kBFloat16;
      return MakeWinograd(half, 1) != nullptr;
    };
    EXPECT_EQ(takes(2, 32, 14), HasAvx512());
    EXPECT_EQ(takes(2, 16, 14), is_of_weights && HasAvx512()) << "16 channels";
    EXPECT_FALSE(takes(2, 15, 14)) << "15 channels";
    EXPECT_EQ(takes(2, 32, 7), HasAvx512()) << "98 pixels in 8 tiles";
    EXPECT_EQ(takes(1, 32, 7), is_of_weights && HasAvx512()) << "49 pixels in 4 tiles, which are computed as 8";
    EXPECT_EQ(takes(2, 32, 6), is_of_weights && HasAvx512()) << "72 pixels in 8 tiles";
    EXPECT_EQ(takes(1, 32, 5), is_of_weights && HasAvx512()) << "25 pixels in 4 tiles";
    EXPECT_FALSE(takes(8, 32, 2)) << "4 pixels in each tile";
  }
}

TEST(OwnKernelsTest, DepthwiseTakesGradientsOfLargeKernelsAndSmallImages) {
  const auto gradient = ConvolutionProduct::kBackwardWeights;
  EXPECT_NE(MakeDepthwiseWeightGradient(Problem(gradient, 1, 24, 7, 24, 5, 24), 1), nullptr);
  EXPECT_EQ(MakeDepthwiseWeightGradient(Problem(gradient, 1, 24, 3, 24, 3, 24), 1), nullptr);
  EXPECT_NE(MakeDepthwiseWeightGradient(Problem(gradient, 1, 24, 2, 24, 3, 24), 1), nullptr) << "2 x 2 pixels";
  EXPECT_EQ(MakeDepthwiseWeightGradient(Problem(gradient, 1, 15, 7, 15, 5, 15), 1), nullptr);
  EXPECT_EQ(MakeDepthwiseWeightGradient(Problem(gradient, 1, 24, 7, 48, 5, 24), 1), nullptr) << "two kernels a channel";
  EXPECT_EQ(MakeDepthwiseWeightGradient(Problem(ConvolutionProduct::kForward, 1, 24, 7, 24, 5, 24), 1), nullptr);
}

TEST(OwnKernelsTest, FewChannelsTakesGradientsOfData) {
  const auto gradient = ConvolutionProduct::kBackwardData;
  EXPECT_NE(MakeFewChannelsDataGradient(Problem(gradient, 1, 8, 7, 4, 3), 1), nullptr);
  EXPECT_EQ(MakeFewChannelsDataGradient(Problem(gradient, 1, 9, 7, 4, 3), 1), nullptr);
  EXPECT_EQ(MakeFewChannelsDataGradient(Problem(gradient, 1, 8, 7, 3, 3), 1), nullptr) << "3 channels to sum";
  EXPECT_EQ(MakeFewChannelsDataGradient(Problem(gradient, 1, 8, 7, 4, 1), 1), nullptr) << "1x1";
  EXPECT_EQ(MakeFewChannelsDataGradient(Problem(gradient, 1, 8, 7, 8, 3, 2), 1), nullptr) << "groups";
  EXPECT_EQ(MakeFewChannelsDataGradient(Problem(ConvolutionProduct::kForward, 1, 8, 7, 4, 3), 1), nullptr);
  ConvolutionProblem dilated = Problem(gradient, 1, 8, 7, 4, 3);
  dilated.dilation = {1, 0};
  EXPECT_NE(MakeFewChannelsDataGradient(dilated, 1), nullptr);
  dilated.dilation = {0, 1};
  EXPECT_EQ(MakeFewChannelsDataGradient(dilated, 1), nullptr);
}

TEST(OwnKernelsTest, AmxTakesGradientsOfWeightsThatFillTiles) {
  const auto takes = [](ConvolutionProduct product, int64_t in, int64_t kernel, int64_t groups, DType dtype) {
    ConvolutionProblem p = Problem(product, 2, in, 9, 16, kernel, groups);
    p.dtype = dtype;
    return MakeAmxWeightGradient(p, 1) != nullptr;
  };
  const auto weights = ConvolutionProduct::kBackwardWeights;
  const bool has_amx = amx::IsAvailable();
  EXPECT_EQ(takes(weights, 16, 3, 1, DType::kBFloat16), has_amx);
  EXPECT_EQ(takes(weights, 6, 1, 1, DType::kBFloat16), has_amx);
  EXPECT_EQ(takes(weights, 3, 3, 1, DType::kBFloat16), has_amx) << "9 columns";
  EXPECT_FALSE(takes(weights, 1, 7, 1, DType::kBFloat16)) << "7 columns";
  EXPECT_FALSE(takes(weights, 5, 27, 1, DType::kBFloat16)) << "135 columns of one kernel row";
  EXPECT_FALSE(takes(weights, 16, 3, 2, DType::kBFloat16)) << "groups";
  EXPECT_FALSE(takes(weights, 16, 3, 1, DType::kFloat32));
  EXPECT_FALSE(takes(weights, 16, 3, 1, DType::kFloat16));
  EXPECT_FALSE(takes(ConvolutionProduct::kForward, 16, 3, 1, DType::kBFloat16));
  EXPECT_FALSE(takes(ConvolutionProduct::kBackwardData, 16, 3, 1, DType::kBFloat16));
}

TEST(OwnKernelsTest, StridedGradientTakesGradientsWithEnoughChannelsAndPixels) {
  const auto strided = [](ConvolutionProduct product, int64_t in, int64_t side, int64_t kernel) {
    ConvolutionProblem p = Problem(product, 3, in, side, 16, kernel);
    p.stride = {2, 2};
    p.destination.layout = Dense({3, 16, side / 2, side / 2});
    return MakeStridedGradient(p, 1) != nullptr;
  };
  const auto data = ConvolutionProduct::kBackwardData;
  const auto weights = ConvolutionProduct::kBackwardWeights;
  EXPECT_EQ(strided(data, 16, 16, 3), HasAvx512());
  EXPECT_FALSE(strided(data, 15, 16, 3)) << "15 channels";
  EXPECT_FALSE(strided(data, 16, 14, 3)) << "147 pixels";
  EXPECT_EQ(strided(data, 16, 36, 1), HasAvx512());
  EXPECT_FALSE(strided(data, 16, 38, 1)) << "1083 pixels, and three quarters of the gradient are zeros";
  EXPECT_EQ(strided(weights, 16, 4, 3), HasAvx512());
  EXPECT_FALSE(strided(weights, 3, 72, 7)) << "3888 pixels";
  EXPECT_EQ(strided(weights, 3, 76, 7), HasAvx512());
  EXPECT_FALSE(strided(weights, 3, 76, 5)) << "15 terms of a kernel row";
  EXPECT_FALSE(strided(ConvolutionProduct::kForward, 16, 16, 3));
  for (const ConvolutionProduct product : {data, weights}) {
    EXPECT_EQ(MakeStridedGradient(Problem(product, 3, 16, 16, 16, 3), 1), nullptr) << "no stride";
    ConvolutionProblem dilated = Problem(product, 3, 16, 16, 16, 3);
    dilated.dilation = {0, 1};
    dilated.padding_before = dilated.padding_after = {1, 2};
    EXPECT_EQ(MakeStridedGradient(dilated, 1) != nullptr, product == weights && HasAvx512());
    ConvolutionProblem column = Problem(product, 3, 16, 16, 16, 3);
    column.weights.layout = Dense({16, 16, 3, 1});
    column.padding_before = column.padding_after = {1, 0};
    EXPECT_EQ(MakeStridedGradient(column, 1) != nullptr, product == weights && HasAvx512());
    ConvolutionProblem grouped = Problem(product, 3, 32, 32, 32, 3, 2);
    grouped.stride = {2, 2};
    EXPECT_EQ(MakeStridedGradient(grouped, 1), nullptr) << "groups";
  }
}

bool IsPointwise(const ConvolutionProblem& problem) {
  const auto made = MakePointwise(problem, 1);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() && *made != nullptr;
}

TEST(OwnKernelsTest, PointwiseTakesForwardProductsOfLargeWeightsAndFewPixels) {
  const auto forward = ConvolutionProduct::kForward;
  EXPECT_TRUE(IsPointwise(Problem(forward, 1, 512, 9, 256, 1)));
  EXPECT_FALSE(IsPointwise(Problem(forward, 1, 512, 23, 256, 1))) << "529 pixels";
  EXPECT_FALSE(IsPointwise(Problem(forward, 1, 256, 9, 256, 1))) << "64 Ki weights";
  for (const ConvolutionProduct product : kProducts) EXPECT_FALSE(IsPointwise(Problem(product, 1, 512, 4, 256, 3)));
}

TEST(OwnKernelsTest, PointwiseTakesBFloat16WithAmx) {
  const bool has_amx = amx::IsAvailable();
  for (const ConvolutionProduct product : kProducts) {
    ConvolutionProblem half = Problem(product, 2, 8, 23, 16, 1);
    half.dtype = DType::kBFloat16;
    EXPECT_EQ(IsPointwise(half), has_amx);
    half.stride = {2, 2};
    half.destination.layout = Dense({2, 16, 12, 12});
    EXPECT_EQ(IsPointwise(half), has_amx);
    half.padding_before = {1, 0};
    EXPECT_FALSE(IsPointwise(half));
  }
}

TEST(OwnKernelsTest, PointwiseTakesGradientsWithEnoughChannels) {
  const auto data = ConvolutionProduct::kBackwardData;
  const auto weights = ConvolutionProduct::kBackwardWeights;
  EXPECT_EQ(IsPointwise(Problem(data, 2, 64, 23, 80, 1)), HasAvx512());
  EXPECT_FALSE(IsPointwise(Problem(data, 2, 63, 23, 80, 1)));
  EXPECT_FALSE(IsPointwise(Problem(data, 2, 80, 23, 63, 1)));
  EXPECT_EQ(IsPointwise(Problem(weights, 2, 24, 23, 80, 1)), HasAvx512());
  EXPECT_FALSE(IsPointwise(Problem(weights, 2, 23, 23, 80, 1)));
  EXPECT_FALSE(IsPointwise(Problem(weights, 2, 80, 23, 23, 1)));
  ConvolutionProblem strided = Problem(weights, 2, 64, 46, 64, 1);
  strided.stride = {2, 2};
  strided.destination.layout = Dense({2, 64, 23, 23});
  strided.padding_after = {-1, -1};
  EXPECT_FALSE(IsPointwise(strided));
}

TEST(OwnKernelsTest, PointwiseTakesAllProductsOfVeryFewPixels) {
  for (const ConvolutionProduct product : kProducts) {
    ConvolutionProblem problem = Problem(product, 4, 128, 4, 64, 1);
    EXPECT_TRUE(IsPointwise(problem));
    // Less than 8 Ki weights, and too few channels for a gradient of data.
    EXPECT_EQ(IsPointwise(Problem(product, 4, 128, 4, 63, 1)),
              product == ConvolutionProduct::kBackwardWeights && HasAvx512());
    problem.stride = {2, 2};
    problem.destination.layout = Dense({4, 64, 2, 2});
    problem.padding_after = {-1, -1};
    EXPECT_EQ(IsPointwise(problem), product != ConvolutionProduct::kBackwardData) << "strides";
  }
}

}  // namespace
}  // namespace cotan::cpu
