// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/convolution.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/convolution/convolution_cases.h"
#include "kernels/cpu/threading/run_without_team.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using serialization::Convolution;
using serialization::Op;
using testing::DenseLayout;
using testing::HostTensor;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

TEST(ConvolutionTest, RandomGeometriesAndAttributes) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 60; ++i) ExpectConvolution(RandomConvolutionCase(random), random, random() % 2 == 0);
}

TEST(ConvolutionTest, WeightsMayOverlap) {
  std::mt19937_64 random(TestSeed());
  HostTensor input = RandomTensor(DType::kFloat32, DenseLayout({2, 2, 3, 5}), random);
  HostTensor windows = RandomTensor(DType::kFloat32, StridedLayout{{2, 2, 1, 2}, {1, 1, 1, 1}, 0}, random);
  HostTensor copies(DType::kFloat32, DenseLayout({2, 2, 1, 2}));
  copies.SetValues(windows.Values());
  HostTensor gradient = RandomTensor(DType::kFloat32, DenseLayout({2, 2, 3, 4}), random);
  Op op;
  Convolution& forward = *op.mutable_convolution_backward_input()->mutable_forward();
  forward.set_groups(1);
  for (int d = 0; d < 2; ++d) {
    forward.add_stride(1);
    forward.add_padding(0);
    forward.add_dilation(1);
  }
  HostTensor actual(DType::kFloat32, input.layout()), expected(DType::kFloat32, input.layout());
  cpu::RunConvolution(MakeConvolutionBackwardInput, op, {&gradient, &windows}, actual);
  cpu::RunConvolution(MakeConvolutionBackwardInput, op, {&gradient, &copies}, expected);
  EXPECT_EQ(actual.Values(), expected.Values());

  Op forward_op;
  *forward_op.mutable_convolution() = forward;
  HostTensor output(DType::kFloat32, gradient.layout()), expected_output(DType::kFloat32, gradient.layout());
  cpu::RunConvolution(MakeConvolution, forward_op, {&input, &windows}, output);
  cpu::RunConvolution(MakeConvolution, forward_op, {&input, &copies}, expected_output);
  EXPECT_EQ(output.Values(), expected_output.Values());
}

TEST(ConvolutionTest, HalfPrecisionIsRoundedOnce) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(DTypeName(dtype));
    for (int i = 0; i < 20; ++i) ExpectConvolution(RandomConvolutionCase(random), random, random() % 2 == 0, dtype);
  }
}

// One problem of each kind in IsMiscomputedByOneDnn() that fails on some processor.
TEST(ConvolutionTest, BlocklistedProblemsAreComputedCorrectly) {
  struct Geometry {
    DimVector input, weight, stride, padding;
  };
  const Geometry geometries[] = {
      {{3, 5, 12, 5}, {5, 5, 1, 1}, {2, 1}, {0, 0}},  // bf16: gradient of data
      {{1, 2, 42}, {6, 2, 1}, {2}, {0}},              // bf16: writes outside the scratchpad; AVX2: gradient of weights
      {{2, 5, 9, 9}, {6, 5, 1, 1}, {3, 1}, {0, 0}},   // as in the row above
      {{2, 16, 5, 1}, {11, 16, 2, 2}, {2, 2}, {1, 1}},              // bf16: gradient of weights
      {{1, 1, 3, 1, 1}, {8, 1, 3, 1, 1}, {2, 1, 1}, {1, 0, 0}},     // bf16: gradient of weights
      {{1, 2, 4, 3, 8}, {13, 2, 5, 2, 5}, {2, 3, 1}, {3, 0, 3}},    // AVX-512: gradient of weights
      {{3, 7, 13, 7, 17}, {4, 7, 2, 3, 3}, {2, 1, 2}, {0, 0, 0}},   // bf16, AMX: gradient of data
      {{2, 33, 13, 5, 9}, {7, 33, 1, 2, 2}, {4, 1, 1}, {0, 0, 0}},  // bf16, AMX: forward
      {{2, 65, 12, 4, 9}, {7, 65, 1, 2, 2}, {5, 1, 1}, {0, 0, 0}},  // as in the row above: also writes behind it
      {{1, 3, 5, 6}, {5, 3, 1, 3}, {1, 4}, {0, 0}},                 // bf16, AMX, version 3: forward
  };
  std::mt19937_64 random(TestSeed());
  for (const Geometry& geometry : geometries) {
    const DimVector& w = geometry.weight;
    const ConvolutionCase c = MakeConvolutionCase({geometry.input, w[0], DimVector(w.begin() + 2, w.end()),
                                                   geometry.stride, DimVector(w.size() - 2, 1), geometry.padding});
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (int i = 0; i < 4; ++i) ExpectConvolution(c, random, /*has_bias=*/false, dtype);
    }
  }
}

// oneDNN uses GEMM-based code for three dimensions with AVX2, and for the gradient of a dilated and strided
// convolution on every processor.
TEST(ConvolutionTest, MatrixProductsHaveTheSameBitsForAnyThreadCount) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t dilation : {1, 2}) {
    for (const int64_t batch : {1, 5}) {
      ConvolutionCase c;
      c.op.set_groups(1);
      c.op.set_transposed(true);
      c.input = {batch, 20, 8, 7, 7};
      c.weight = {20, 18, 3, 3, 3};
      c.output = {batch, 18};
      for (int d = 0; d < 3; ++d) {
        c.op.add_stride(2);
        c.op.add_padding(1);
        c.op.add_dilation(dilation);
        c.op.add_output_padding(0);
        c.output.push_back(ConvolutionOutputSize(c.op, d, c.input[d + 2], 3));
      }
      ExpectConvolution(c, random, /*has_bias=*/true);
    }
  }
}

// Without a stride, a dilation allows padding of the output, whose last rows or columns no kernel meets.
TEST(ConvolutionTest, OutputPaddingOfDilatedTransposedKernels) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t kernel : {1, 3}) {
    for (const int64_t columns_padding : {0, 1}) {
      ConvolutionCase c;
      c.op.set_groups(1);
      c.op.set_transposed(true);
      c.input = {2, 40, 5, 6};
      c.weight = {40, 72, kernel, kernel};
      c.output = {2, 72};
      for (const int64_t output_padding : {int64_t{1}, columns_padding}) {
        const int d = c.op.stride_size();
        c.op.add_stride(1);
        c.op.add_padding(kernel / 2);
        c.op.add_dilation(2);
        c.op.add_output_padding(output_padding);
        c.output.push_back(ConvolutionOutputSize(c.op, d, c.input[static_cast<size_t>(d) + 2], kernel));
      }
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        for (const bool has_bias : {false, true}) ExpectConvolution(c, random, has_bias, dtype);
      }
    }
  }
}

// With AVX512_BF16 oneDNN prefers another weight layout for the data gradient of one image than for six.
TEST(ConvolutionTest, PartsOfABatchHaveTheLayoutsOfTheBatch) {
  std::mt19937_64 random(TestSeed());
  struct Geometry {
    DimVector input, weight, dilation, padding;
  };
  const Geometry geometries[] = {
      {{6, 16, 8, 3, 2}, {1, 16, 3, 3, 1}, {1, 1, 1}, {0, 1, 1}},
      {{5, 24, 8, 4, 6}, {2, 24, 1, 3, 3}, {2, 1, 1}, {1, 1, 1}},
  };
  for (const Geometry& geometry : geometries) {
    const DimVector& w = geometry.weight;
    const ConvolutionCase c = MakeConvolutionCase({geometry.input, w[0], DimVector(w.begin() + 2, w.end()),
                                                   DimVector(w.size() - 2, 1), geometry.dilation, geometry.padding});
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectConvolution(c, random, /*has_bias=*/true, dtype);
    }
  }
}

TEST(ConvolutionTest, LargeBatchesHaveTheSameBitsForAnyThreadCount) {
  std::mt19937_64 random(TestSeed());
  ConvolutionCase c;
  for (int d = 0; d < 2; ++d) {
    c.op.add_stride(1);
    c.op.add_padding(1);
    c.op.add_dilation(1);
  }
  c.op.set_groups(1);
  c.input = {10, 3, 20, 20};
  c.weight = {16, 3, 3, 3};
  c.output = {10, 16, 20, 20};
  ExpectConvolution(c, random, true);
}

TEST(ConvolutionTest, HasTheSameBitsWhileItsTeamIsSuspended) {
  std::mt19937_64 random(TestSeed());
  struct Geometry {
    DimVector input, weight;
    int64_t stride;
  };
  // Strided forward products and large kernels are oneDNN's.
  const Geometry geometries[] = {{{6, 16, 20, 18}, {32, 16, 3, 3}, 2}, {{1, 24, 17, 30}, {40, 24, 5, 5}, 1}};
  for (const Geometry& geometry : geometries) {
    Convolution convolution;
    convolution.set_groups(1);
    DimVector output = {geometry.input[0], geometry.weight[0]};
    for (int d = 0; d < 2; ++d) {
      convolution.add_stride(geometry.stride);
      convolution.add_padding(1);
      convolution.add_dilation(1);
      output.push_back(ConvolutionOutputSize(convolution, d, geometry.input[d + 2], geometry.weight[d + 2]));
    }
    HostTensor input = RandomTensor(DType::kFloat32, DenseLayout(geometry.input), random);
    HostTensor weight = RandomTensor(DType::kFloat32, DenseLayout(geometry.weight), random);
    HostTensor gradient = RandomTensor(DType::kFloat32, DenseLayout(output), random);
    Op forward, backward;
    *forward.mutable_convolution() = convolution;
    *backward.mutable_convolution_backward_input()->mutable_forward() = convolution;
    HostTensor on_team[] = {{DType::kFloat32, gradient.layout()}, {DType::kFloat32, input.layout()}};
    HostTensor alone[] = {{DType::kFloat32, gradient.layout()}, {DType::kFloat32, input.layout()}};
    const auto run = [&](HostTensor* results) {
      EXPECT_TRUE(RunOp(MakeConvolution, forward, {&input, &weight}, {&results[0]}, 2).ok());
      EXPECT_TRUE(RunOp(MakeConvolutionBackwardInput, backward, {&gradient, &weight}, {&results[1]}, 2).ok());
    };
    run(on_team);
    RunWithoutTeam([&] { run(alone); });
    for (int i = 0; i < 2; ++i) EXPECT_EQ(on_team[i].bytes(), alone[i].bytes()) << i;
  }
}

// 3 x 3 kernels with enough channels and pixels for Winograd's algorithm: odd sides, so that tiles are cut, all
// paddings, channels that do not fill a vector or a panel, dilations that do not divide the sides. Those with more
// channels than tiles transform weights panel by panel: more channels than a panel has rows, than a worker computes at
// a time, and more tiles than are summed at once. The last ones have 32 channels on both sides, and more tiles of 4 x 4
// than channels, for bf16.
TEST(ConvolutionTest, ThreeByThreeKernelsOfAllPaddingsAndDilations) {
  struct Geometry {
    DimVector input;
    int64_t channels;
    DimVector padding;
    DimVector dilation;
    bool transposed;
  };
  const Geometry geometries[] = {
      {{2, 16, 15, 13}, 16, {1, 1}, {1, 1}, false}, {{3, 20, 11, 14}, 33, {0, 2}, {1, 1}, false},
      {{1, 48, 19, 21}, 17, {2, 0}, {1, 1}, false}, {{5, 33, 7, 10}, 40, {1, 0}, {1, 1}, false},
      {{2, 17, 12, 13}, 24, {3, 1}, {1, 1}, false}, {{2, 24, 14, 13}, 20, {1, 1}, {1, 1}, true},
      {{9, 16, 8, 9}, 18, {0, 3}, {1, 1}, true},    {{2, 16, 17, 18}, 20, {2, 2}, {2, 2}, false},
      {{1, 18, 31, 26}, 16, {0, 5}, {3, 4}, false}, {{3, 16, 12, 19}, 17, {7, 1}, {1, 5}, false},
      {{2, 20, 15, 16}, 16, {1, 3}, {2, 3}, true},  {{1, 70, 7, 8}, 150, {1, 1}, {1, 1}, false},
      {{2, 140, 6, 7}, 67, {1, 0}, {1, 1}, false},  {{3, 96, 9, 10}, 130, {2, 1}, {2, 1}, false},
      {{1, 135, 4, 8}, 40, {1, 1}, {1, 1}, true},   {{5, 170, 8, 8}, 172, {1, 1}, {1, 1}, false},
      {{2, 65, 14, 15}, 72, {1, 1}, {1, 1}, false}, {{2, 36, 19, 18}, 40, {1, 2}, {1, 1}, false},
      {{2, 33, 31, 30}, 34, {2, 2}, {2, 2}, false}, {{3, 32, 15, 16}, 35, {2, 0}, {1, 1}, true},
      {{2, 50, 11, 12}, 32, {5, 1}, {1, 1}, false},
  };
  std::mt19937_64 random(TestSeed());
  for (const Geometry& geometry : geometries) {
    const ConvolutionCase c = MakeConvolutionCase(
        {geometry.input, geometry.channels, {3, 3}, {1, 1}, geometry.dilation, geometry.padding, geometry.transposed});
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectConvolution(c, random, /*has_bias=*/random() % 2 == 0, dtype);
    }
  }
}

// Channels that fill vectors and blocks and some that do not; rows of a kernel shorter and longer than those that are
// summed in registers; windows that are nowhere or partly inside.
TEST(ConvolutionTest, DepthwiseKernels) {
  const ConvolutionGeometry geometries[] = {
      {{2, 16, 7, 6}, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{3, 24, 9, 8}, 24, {5, 5}, {2, 2}, {1, 1}, {2, 2}},
      {{1, 40, 7, 7}, 40, {7, 7}, {1, 1}, {1, 1}, {3, 3}},
      {{5, 57, 4, 10}, 57, {3, 9}, {1, 2}, {1, 1}, {1, 4}},
      {{2, 300, 5, 5}, 300, {3, 3}, {1, 2}, {2, 2}, {2, 2}},
      {{2, 33, 6, 3}, 33, {2, 4}, {3, 1}, {1, 3}, {0, 6}},
      {{4, 48, 15}, 48, {5}, {2}, {1}, {2}},
      {{2, 31, 3, 2}, 31, {1, 1}, {2, 1}, {1, 1}, {1, 0}},
      {{2, 32, 4, 2}, 32, {3, 11}, {1, 1}, {1, 1}, {1, 5}},
      {{4, 40, 2, 1}, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{3, 21, 3, 4}, 21, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
  };
  std::mt19937_64 random(TestSeed());
  for (ConvolutionGeometry geometry : geometries) {
    geometry.groups = geometry.channels;
    ExpectConvolution(MakeConvolutionCase(geometry), random, /*has_bias=*/false);
  }
}

// Few channels of the source: runs of all lengths, windows partly and nowhere inside, rows that no window meets, more
// rows than a block has, and more products than are added at once.
TEST(ConvolutionTest, DataGradientsWithFewChannels) {
  const ConvolutionGeometry geometries[] = {
      {{3, 8, 7, 6}, 1, {4, 4}, {2, 2}, {1, 1}, {1, 1}, true},
      {{2, 5, 6, 9}, 3, {3, 5}, {1, 2}, {2, 1}, {2, 2}, true},
      {{2, 9, 3, 2}, 8, {5, 3}, {2, 3}, {1, 1}, {0, 2}, true},
      {{1, 7, 40, 5}, 2, {4, 3}, {2, 1}, {1, 1}, {1, 1}, true},
      {{2, 6, 9, 10}, 16, {5, 5}, {1, 1}, {1, 1}, {0, 0}, false},
      {{1, 4, 70, 33}, 11, {3, 2}, {1, 1}, {1, 1}, {1, 1}, false},
      {{2, 3, 8, 9}, 40, {2, 3}, {3, 4}, {1, 1}, {1, 1}, false},
      {{4, 7, 20}, 6, {9}, {2}, {1}, {4}, false},
      {{2, 2, 5, 4}, 33, {1, 7}, {1, 1}, {1, 1}, {0, 6}, false},
  };
  std::mt19937_64 random(TestSeed());
  for (const ConvolutionGeometry& geometry : geometries) {
    for (const bool has_bias : {false, true}) ExpectConvolution(MakeConvolutionCase(geometry), random, has_bias);
  }
}

// Strides above 1, dilations, or kernels of one column: more than one block of windows, windows partly and nowhere
// inside, kernels smaller than the stride, which leave gaps, strides larger than the image, dilations, parts of kernel
// rows, and channels that do not fill vectors.
TEST(ConvolutionTest, StridedKernels) {
  const ConvolutionGeometry geometries[] = {
      {{6, 16, 20, 18}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
      {{1, 21, 31, 40}, 19, {5, 4}, {2, 3}, {1, 1}, {2, 0}, false},
      {{2, 33, 30, 27}, 17, {2, 3}, {3, 1}, {1, 2}, {0, 2}, false},
      {{3, 200, 17, 16}, 20, {3, 3}, {2, 2}, {2, 1}, {2, 1}, false},
      {{2, 40, 9, 8}, 24, {1, 1}, {2, 2}, {1, 1}, {0, 0}, false},
      {{4, 16, 700}, 16, {7}, {4}, {1}, {3}, false},
      {{2, 3, 130, 131}, 16, {7, 7}, {2, 2}, {1, 1}, {3, 3}, false},
      {{200, 16, 2, 3}, 18, {4, 4}, {5, 3}, {1, 1}, {2, 2}, false},
      {{2, 16, 12, 13}, 18, {2, 3}, {1, 1}, {12, 3}, {12, 2}, false},
      {{2, 33, 9, 8}, 40, {7, 1}, {1, 1}, {1, 1}, {3, 0}, false},
      {{2, 48, 10, 12}, 16, {4, 4}, {2, 2}, {1, 1}, {1, 1}, true},
      {{3, 17, 9, 8}, 32, {3, 2}, {2, 3}, {1, 2}, {0, 1}, true},
  };
  std::mt19937_64 random(TestSeed());
  for (const ConvolutionGeometry& geometry : geometries) {
    for (const bool has_bias : {false, true}) ExpectConvolution(MakeConvolutionCase(geometry), random, has_bias);
  }
}

// Gradients of weights of bf16: rows with and without a step of pixels for themselves, images that are joined or in
// groups, all remainders by strides, strides larger than kernels, and taps that meet no pixel.
TEST(ConvolutionTest, BFloat16WithManyChannels) {
  const ConvolutionGeometry geometries[] = {
      {{2, 32, 20, 18}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {{3, 33, 9, 10}, 50, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
      {{2, 70, 12, 13}, 17, {3, 2}, {2, 3}, {1, 2}, {2, 1}, false},
      {{9, 17, 2, 3}, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {{5, 20, 1, 1}, 33, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {{2, 40, 30}, 24, {7}, {4}, {1}, {3}, false},
      {{2, 24, 4, 6, 5}, 34, {2, 3, 1}, {1, 2, 1}, {1, 1, 1}, {0, 1, 0}, false},
      {{2, 18, 11, 12}, 20, {2, 2}, {3, 4}, {1, 1}, {0, 0}, false},
      {{2, 16, 12, 13}, 18, {2, 3}, {1, 1}, {12, 3}, {12, 2}, false},
      {{1, 16, 9, 9}, 16, {5, 5}, {1, 1}, {1, 1}, {2, 2}, false},
      {{1, 40, 60, 80}, 33, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {{24, 32, 17, 16}, 36, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {{2, 48, 10, 12}, 20, {4, 4}, {2, 2}, {1, 1}, {1, 1}, true},
      {{3, 17, 9, 8}, 32, {3, 2}, {2, 3}, {1, 2}, {0, 1}, true},
      {{2, 3, 40, 38}, 40, {7, 7}, {2, 2}, {1, 1}, {3, 3}, false},
      {{5, 3, 12, 13}, 33, {3, 3}, {1, 1}, {1, 2}, {1, 2}, false},
      {{2, 3, 32, 48}, 70, {16, 16}, {16, 16}, {1, 1}, {0, 0}, false},
      {{1, 5, 20, 21}, 18, {4, 11}, {3, 4}, {1, 1}, {1, 5}, false},
  };
  std::mt19937_64 random(TestSeed());
  for (const ConvolutionGeometry& geometry : geometries) {
    ExpectConvolution(MakeConvolutionCase(geometry), random, /*has_bias=*/false, DType::kBFloat16);
  }
}

// Weights large enough, and pixels few enough, for a matrix product, or channels enough for one that is a gradient.
TEST(ConvolutionTest, KernelsOfOneElementAndFewPixels) {
  const ConvolutionGeometry geometries[] = {
      {{2, 260, 3, 2}, 520, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {{1, 300, 6, 5}, 450, {1, 1}, {2, 3}, {1, 1}, {0, 0}},
      {{3, 270, 4}, 500, {1}, {2}, {1}, {0}},
      {{1, 400, 2, 2, 3}, 350, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
      {{3, 70, 15, 16}, 65, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {{2, 25, 23, 24}, 40, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
  };
  std::mt19937_64 random(TestSeed());
  for (const ConvolutionGeometry& geometry : geometries) {
    ExpectConvolution(MakeConvolutionCase(geometry), random, /*has_bias=*/false);
  }
}

TEST(ConvolutionTest, NoInputChannelsGiveTheBias) {
  std::mt19937_64 random(TestSeed());
  ConvolutionCase c;
  c.op.add_stride(1);
  c.op.add_padding(0);
  c.op.add_dilation(1);
  c.op.set_groups(1);
  c.input = {2, 0, 5};
  c.weight = {3, 0, 2};
  c.output = {2, 3, 4};
  ExpectConvolution(c, random, true);
}

TEST(ConvolutionTest, OperandsThatDoNotFitAreRejected) {
  Op op;
  op.mutable_convolution()->set_groups(1);
  op.mutable_convolution()->add_stride(1);
  op.mutable_convolution()->add_padding(0);
  op.mutable_convolution()->add_dilation(1);
  HostTensor input(DType::kFloat32, {2, 3, 5});
  HostTensor weight(DType::kFloat32, {4, 2, 3});
  HostTensor output(DType::kFloat32, {2, 4, 3});
  const absl::Status status = RunOp(MakeConvolution, op, {&input, &weight}, {&output});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("convolution: the weight is f32[4,2,3], expected f32[4,3,3]"));
}

}  // namespace
}  // namespace cotan::cpu
