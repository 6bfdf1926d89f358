// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/onednn_blocklist.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

ConvolutionProblem Pointwise(ConvolutionProduct product, int64_t in, int64_t out, int64_t stride) {
  ConvolutionProblem problem;
  problem.product = product;
  problem.source.layout.sizes = {1, in, 12, 5};
  problem.weights.layout.sizes = {out, in, 1, 1};
  problem.destination.layout.sizes = {1, out, 12 / stride, 5};
  problem.stride = {stride, 1};
  problem.padding_before = {0, 0};
  problem.dilation = {0, 0};
  return problem;
}

TEST(OneDnnBlocklistTest, GradientOfDataFromAnOddNumberOfChannels) {
  constexpr auto kData = ConvolutionProduct::kBackwardData;
  EXPECT_TRUE(IsMiscomputedByOneDnn(Pointwise(kData, 4, 5, 1), "jit_bf16_1x1:avx512_core_bf16", 2));
  EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(kData, 4, 5, 1), "jit_bf16_1x1:avx512_core_bf16", 3));
  EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(kData, 4, 6, 1), "jit_bf16_1x1:avx512_core_bf16", 2));
  EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(kData, 4, 5, 1), "jit_bf16:avx512_core_bf16", 2));
  EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(kData, 4, 5, 1), "jit_1x1:avx512_core", 2));
}

TEST(OneDnnBlocklistTest, GradientOfStridedWeightsOfFewChannels) {
  constexpr auto kWeights = ConvolutionProduct::kBackwardWeights;
  for (const int version : {2, 3}) {
    EXPECT_TRUE(IsMiscomputedByOneDnn(Pointwise(kWeights, 4, 8, 2), "jit_1x1:avx2", version));
    EXPECT_TRUE(IsMiscomputedByOneDnn(Pointwise(kWeights, 4, 8, 2), "jit_bf16_1x1:avx512_core_bf16", version));
    EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(kWeights, 4, 8, 1), "jit_1x1:avx2", version));
    EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(kWeights, 64, 8, 2), "jit_1x1:avx2", version));
    EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(kWeights, 4, 8, 2), "x64:gemm:jit", version));
    EXPECT_FALSE(IsMiscomputedByOneDnn(Pointwise(ConvolutionProduct::kForward, 4, 8, 2), "jit_1x1:avx2", version));
  }
}

TEST(OneDnnBlocklistTest, GradientOfWeightsWithStrideInNarrowOrPaddedSpace) {
  for (const int version : {2, 3}) {
    ConvolutionProblem problem = Pointwise(ConvolutionProduct::kBackwardWeights, 16, 16, 1);
    problem.stride = {1, 6};
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "jit:avx512_core", version));
    problem.dtype = DType::kBFloat16;
    EXPECT_TRUE(IsMiscomputedByOneDnn(problem, "jit_bf16:avx512_core_bf16", version));
    EXPECT_TRUE(IsMiscomputedByOneDnn(problem, "brgconv_bwd_w:avx512_core_amx", version));
    problem.stride = {1, 5};
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "jit_bf16:avx512_core_bf16", version));
    problem.stride = {2, 1, 1};
    problem.padding_before = {0, 1, 1};
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "jit_bf16:avx512_core_bf16", version));
    problem.padding_before = {1, 0, 0};
    EXPECT_TRUE(IsMiscomputedByOneDnn(problem, "jit_bf16:avx512_core_bf16", version));
    EXPECT_TRUE(IsMiscomputedByOneDnn(problem, "jit:avx512_core", version));
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "x64:gemm:jit", version));
  }
}

TEST(OneDnnBlocklistTest, GradientOfDilatedWeightsOfPartOfAVectorOfChannels) {
  for (const int version : {2, 3}) {
    ConvolutionProblem problem = Pointwise(ConvolutionProduct::kBackwardWeights, 33, 16, 1);
    problem.dtype = DType::kBFloat16;
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "jit:avx512_core_amx_bf16", version));
    problem.dilation = {1, 0};
    EXPECT_TRUE(IsMiscomputedByOneDnn(problem, "jit:avx512_core_amx_bf16", version));
    EXPECT_TRUE(IsMiscomputedByOneDnn(problem, "jit_bf16:avx512_core_bf16", version));
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "x64:gemm:jit", version));
    problem.weights.layout.sizes[1] = 32;
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "jit:avx512_core_amx_bf16", version));
    problem.weights.layout.sizes[1] = 33;
    problem.dtype = DType::kFloat32;
    EXPECT_FALSE(IsMiscomputedByOneDnn(problem, "jit:avx512_core", version));
  }
}

TEST(OneDnnBlocklistTest, StridesByAmxThatSkipPixelsOrInThreeDimensions) {
  for (const ConvolutionProduct product :
       {ConvolutionProduct::kForward, ConvolutionProduct::kBackwardData, ConvolutionProduct::kBackwardWeights}) {
    ConvolutionProblem problem = Pointwise(product, 16, 16, 1);
    problem.dtype = DType::kBFloat16;
    problem.weights.layout.sizes = {16, 16, 2, 2};
    const auto is_miscomputed = [&](absl::string_view isa) {
      return IsMiscomputedByOneDnn(problem, absl::StrCat("brgconv:", isa), 2);
    };
    problem.stride = {2, 2};
    EXPECT_FALSE(is_miscomputed("avx512_core_amx_bf16"));
    problem.destination.layout.sizes.back() = 1;
    EXPECT_EQ(is_miscomputed("avx512_core_amx_bf16"), product == ConvolutionProduct::kForward);
    problem.destination.layout.sizes.back() = 5;
    problem.stride = {3, 2};
    EXPECT_TRUE(is_miscomputed("avx512_core_amx_bf16"));
    EXPECT_FALSE(is_miscomputed("avx512_core_bf16"));
    problem.dilation = {1, 0};
    EXPECT_FALSE(is_miscomputed("avx512_core_amx_bf16"));
    problem.weights.layout.sizes = {16, 16, 2, 2, 2};
    problem.dilation = {0, 0, 0};
    problem.stride = {1, 1, 1};
    EXPECT_FALSE(is_miscomputed("avx512_core_amx_bf16"));
    problem.stride = {1, 2, 1};
    EXPECT_TRUE(is_miscomputed("avx512_core_amx_bf16"));
  }
}

}  // namespace
}  // namespace cotan::cpu
