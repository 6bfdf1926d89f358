// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/convolution.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using serialization::Convolution;
using serialization::Op;
using testing::DenseLayout;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

// A convolution's attributes and the sizes of its three tensors.
struct Case {
  Convolution op;
  DimVector input;
  DimVector weight;
  DimVector output;
};

// Returns the row-major position of [first, second, spatial...] in a tensor of `sizes`.
int64_t Position(const DimVector& sizes, int64_t first, int64_t second, const DimVector& spatial) {
  int64_t position = first * sizes[1] + second;
  for (size_t d = 0; d < spatial.size(); ++d) position = position * sizes[d + 2] + spatial[d];
  return position;
}

DimVector Unflatten(int64_t position, const DimVector& sizes) {
  DimVector index(sizes.size() - 2);
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = position % sizes[d + 2];
    position /= sizes[d + 2];
  }
  return index;
}

int64_t Spatial(const DimVector& sizes) { return NumElements(absl::MakeConstSpan(sizes).subspan(2)); }

// Calls fn(source position, weight position, destination position) for every product that the convolution of
// `source`, which is not transposed, sums.
template <typename Fn>
void ForEachProduct(const Convolution& op, const DimVector& source, const DimVector& weight,
                    const DimVector& destination, Fn fn) {
  const int64_t out_per_group = weight[0] / op.groups();
  for (int64_t n = 0; n < destination[0]; ++n) {
    for (int64_t o = 0; o < destination[1]; ++o) {
      for (int64_t i = 0; i < weight[1]; ++i) {
        const int64_t channel = o / out_per_group * weight[1] + i;
        for (int64_t y = 0; y < Spatial(destination); ++y) {
          for (int64_t k = 0; k < Spatial(weight); ++k) {
            const DimVector at = Unflatten(y, destination);
            const DimVector tap = Unflatten(k, weight);
            DimVector from(at.size());
            bool inside = true;
            for (size_t d = 0; d < at.size(); ++d) {
              const auto axis = static_cast<int>(d);
              from[d] = at[d] * op.stride(axis) + tap[d] * op.dilation(axis) - op.padding(axis);
              inside = inside && from[d] >= 0 && from[d] < source[d + 2];
            }
            if (inside) {
              fn(Position(source, n, channel, from), Position(weight, o, i, tap), Position(destination, n, o, at));
            }
          }
        }
      }
    }
  }
}

// The results of all three products by plain loops in double.
struct Expected {
  std::vector<double> output;
  std::vector<double> grad_input;
  std::vector<double> grad_weight;
};

Expected Reference(const Case& c, const std::vector<double>& input, const std::vector<double>& weight,
                   const std::vector<double>& bias, const std::vector<double>& grad_output) {
  Expected expected;
  expected.output.resize(static_cast<size_t>(NumElements(c.output)));
  expected.grad_input.resize(input.size());
  expected.grad_weight.resize(weight.size());
  for (size_t i = 0; i < expected.output.size() && !bias.empty(); ++i) {
    expected.output[i] = bias[static_cast<int64_t>(i) / Spatial(c.output) % c.output[1]];
  }
  const DimVector& source = c.op.transposed() ? c.output : c.input;
  const DimVector& destination = c.op.transposed() ? c.input : c.output;
  ForEachProduct(c.op, source, c.weight, destination, [&](int64_t s, int64_t w, int64_t d) {
    const int64_t x = c.op.transposed() ? d : s;
    const int64_t y = c.op.transposed() ? s : d;
    expected.output[y] += input[x] * weight[w];
    expected.grad_input[x] += grad_output[y] * weight[w];
    expected.grad_weight[w] += grad_output[y] * input[x];
  });
  return expected;
}

Case RandomCase(std::mt19937_64& random) {
  Case c;
  const int spatial = 1 + static_cast<int>(random() % 3);
  const bool transposed = random() % 3 == 0;
  const int64_t groups = random() % 3 == 0 ? 1 + static_cast<int64_t>(random() % 3) : 1;
  c.op.set_groups(groups);
  c.op.set_transposed(transposed);
  const int64_t in = groups * (1 + static_cast<int64_t>(random() % 5));
  const int64_t out = groups * (1 + static_cast<int64_t>(random() % 20));
  c.input = {static_cast<int64_t>(random() % 4), in};
  c.weight = transposed ? DimVector{in, out / groups} : DimVector{out, in / groups};
  for (int d = 0; d < spatial; ++d) {
    const int64_t kernel = 1 + static_cast<int64_t>(random() % 3);
    c.op.add_stride(1 + static_cast<int64_t>(random() % 2));
    c.op.add_dilation(1 + static_cast<int64_t>(random() % 2));
    c.op.add_padding(static_cast<int64_t>(random() % 2));
    if (transposed) c.op.add_output_padding(c.op.stride(d) == 2 ? static_cast<int64_t>(random() % 2) : 0);
    c.input.push_back(5 + static_cast<int64_t>(random() % 4));
    c.weight.push_back(kernel);
  }
  c.output = {c.input[0], out};
  for (int d = 0; d < spatial; ++d) {
    c.output.push_back(ConvolutionOutputSize(c.op, d, c.input[d + 2], c.weight[d + 2]));
  }
  return c;
}

// Returns channels last or a random layout with equal probability.
StridedLayout SomeLayout(const DimVector& sizes, std::mt19937_64& random, bool is_input) {
  if (random() % 2 == 0) {
    DimVector order = {0};
    for (size_t d = 2; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
    order.push_back(1);
    return DenseLayout(sizes, order);
  }
  return RandomLayout(sizes, random, random() % 2 == 0, is_input && random() % 2 == 0);
}

void Run(KernelFactory factory, const Op& op, const std::vector<HostTensor*>& inputs, HostTensor& output) {
  const absl::Status status = RunOp(factory, op, inputs, {&output});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(GapsAreUntouched(output));
  for (int threads : {2, 5}) {
    HostTensor again(output.dtype(), output.layout());
    ASSERT_TRUE(RunOp(factory, op, inputs, {&again}, threads).ok());
    EXPECT_EQ(output.bytes(), again.bytes()) << threads << " threads";
  }
}

void ExpectConvolution(const Case& c, std::mt19937_64& random, bool has_bias, DType dtype = DType::kFloat32) {
  HostTensor input = RandomTensor(dtype, SomeLayout(c.input, random, true), random);
  HostTensor weight = RandomTensor(dtype, SomeLayout(c.weight, random, true), random);
  HostTensor bias = RandomTensor(dtype, RandomLayout({c.output[1]}, random, true, true), random);
  HostTensor grad_output = RandomTensor(dtype, SomeLayout(c.output, random, true), random);
  const Expected expected = Reference(c, input.Values(), weight.Values(),
                                      has_bias ? bias.Values() : std::vector<double>{}, grad_output.Values());
  SCOPED_TRACE(ToString(input.layout()) + " * " + ToString(weight.layout()) + " -> " + ToString(grad_output.layout()) +
               (c.op.transposed() ? " transposed" : "") + " groups " + std::to_string(c.op.groups()));
  HostTensor output(dtype, SomeLayout(c.output, random, false));
  HostTensor grad_input(dtype, SomeLayout(c.input, random, false));
  HostTensor grad_weight(dtype, SomeLayout(c.weight, random, false));
  Op op;
  *op.mutable_convolution() = c.op;
  std::vector<HostTensor*> inputs = {&input, &weight};
  if (has_bias) inputs.push_back(&bias);
  Run(MakeConvolution, op, inputs, output);
  const double bound = dtype == DType::kFloat32 ? testing::kMatmul : testing::kRounding;
  EXPECT_LE(ErrorInUnits(output, expected.output), bound);
  *op.mutable_convolution_backward_input()->mutable_forward() = c.op;
  Run(MakeConvolutionBackwardInput, op, {&grad_output, &weight}, grad_input);
  EXPECT_LE(ErrorInUnits(grad_input, expected.grad_input), bound);
  *op.mutable_convolution_backward_weight()->mutable_forward() = c.op;
  Run(MakeConvolutionBackwardWeight, op, {&grad_output, &input}, grad_weight);
  EXPECT_LE(ErrorInUnits(grad_weight, expected.grad_weight), bound);
}

TEST(ConvolutionTest, RandomGeometriesAndAttributes) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 60; ++i) ExpectConvolution(RandomCase(random), random, random() % 2 == 0);
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
  cpu::Run(MakeConvolutionBackwardInput, op, {&gradient, &windows}, actual);
  cpu::Run(MakeConvolutionBackwardInput, op, {&gradient, &copies}, expected);
  EXPECT_EQ(actual.Values(), expected.Values());

  Op forward_op;
  *forward_op.mutable_convolution() = forward;
  HostTensor output(DType::kFloat32, gradient.layout()), expected_output(DType::kFloat32, gradient.layout());
  cpu::Run(MakeConvolution, forward_op, {&input, &windows}, output);
  cpu::Run(MakeConvolution, forward_op, {&input, &copies}, expected_output);
  EXPECT_EQ(output.Values(), expected_output.Values());
}

TEST(ConvolutionTest, HalfPrecisionIsRoundedOnce) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(DTypeName(dtype));
    for (int i = 0; i < 20; ++i) ExpectConvolution(RandomCase(random), random, random() % 2 == 0, dtype);
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
      {{2, 16, 5, 1}, {11, 16, 2, 2}, {2, 2}, {1, 1}},            // bf16: gradient of weights
      {{1, 1, 3, 1, 1}, {8, 1, 3, 1, 1}, {2, 1, 1}, {1, 0, 0}},   // bf16: gradient of weights
      {{1, 2, 4, 3, 8}, {13, 2, 5, 2, 5}, {2, 3, 1}, {3, 0, 3}},  // AVX-512: gradient of weights
  };
  std::mt19937_64 random(TestSeed());
  for (const Geometry& geometry : geometries) {
    Case c;
    c.op.set_groups(1);
    c.input = geometry.input;
    c.weight = geometry.weight;
    c.output = {c.input[0], c.weight[0]};
    for (size_t d = 0; d < geometry.stride.size(); ++d) {
      c.op.add_stride(geometry.stride[d]);
      c.op.add_padding(geometry.padding[d]);
      c.op.add_dilation(1);
      c.output.push_back(ConvolutionOutputSize(c.op, static_cast<int>(d), c.input[d + 2], c.weight[d + 2]));
    }
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
      Case c;
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
    Case c;
    c.op.set_groups(1);
    c.input = geometry.input;
    c.weight = geometry.weight;
    c.output = {c.input[0], c.weight[0]};
    for (size_t d = 0; d < geometry.padding.size(); ++d) {
      c.op.add_stride(1);
      c.op.add_padding(geometry.padding[d]);
      c.op.add_dilation(geometry.dilation[d]);
      c.output.push_back(ConvolutionOutputSize(c.op, static_cast<int>(d), c.input[d + 2], c.weight[d + 2]));
    }
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectConvolution(c, random, /*has_bias=*/true, dtype);
    }
  }
}

TEST(ConvolutionTest, LargeBatchesHaveTheSameBitsForAnyThreadCount) {
  std::mt19937_64 random(TestSeed());
  Case c;
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

// 3 x 3 kernels with enough channels and pixels for Winograd's algorithm: odd sides, so that tiles are cut, all
// paddings, channels that do not fill a vector or a panel.
TEST(ConvolutionTest, ThreeByThreeKernelsOfAllPaddings) {
  struct Geometry {
    DimVector input;
    int64_t channels;
    DimVector padding;
    bool transposed;
  };
  const Geometry geometries[] = {
      {{2, 16, 15, 13}, 16, {1, 1}, false}, {{3, 20, 11, 14}, 33, {0, 2}, false}, {{1, 48, 19, 21}, 17, {2, 0}, false},
      {{5, 33, 7, 10}, 40, {1, 0}, false},  {{2, 17, 12, 13}, 24, {3, 1}, false}, {{2, 24, 14, 13}, 20, {1, 1}, true},
      {{9, 16, 8, 9}, 18, {0, 3}, true},
  };
  std::mt19937_64 random(TestSeed());
  for (const Geometry& geometry : geometries) {
    Case c;
    c.op.set_groups(1);
    c.op.set_transposed(geometry.transposed);
    c.input = geometry.input;
    c.weight = {geometry.channels, c.input[1], 3, 3};
    if (geometry.transposed) std::swap(c.weight[0], c.weight[1]);
    c.output = {c.input[0], geometry.channels};
    for (int d = 0; d < 2; ++d) {
      c.op.add_stride(1);
      c.op.add_padding(geometry.padding[d]);
      c.op.add_dilation(1);
      if (geometry.transposed) c.op.add_output_padding(0);
      c.output.push_back(ConvolutionOutputSize(c.op, d, c.input[d + 2], 3));
    }
    ExpectConvolution(c, random, /*has_bias=*/random() % 2 == 0);
  }
}

// Channels that fill vectors and blocks and some that do not; rows of a kernel shorter and longer than those that are
// summed in registers; windows that are nowhere or partly inside.
TEST(ConvolutionTest, DepthwiseKernels) {
  struct Geometry {
    int64_t batch, channels;
    DimVector sizes, kernel, stride, dilation, padding;
  };
  const Geometry geometries[] = {
      {2, 16, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {3, 24, {9, 8}, {5, 5}, {2, 2}, {1, 1}, {2, 2}},
      {1, 40, {7, 7}, {7, 7}, {1, 1}, {1, 1}, {3, 3}},
      {5, 57, {4, 10}, {3, 9}, {1, 2}, {1, 1}, {1, 4}},
      {2, 300, {5, 5}, {3, 3}, {1, 2}, {2, 2}, {2, 2}},
      {2, 33, {6, 3}, {2, 4}, {3, 1}, {1, 3}, {0, 6}},
      {4, 48, {15}, {5}, {2}, {1}, {2}},
      {2, 31, {3, 2}, {1, 1}, {2, 1}, {1, 1}, {1, 0}},
      {2, 32, {4, 2}, {3, 11}, {1, 1}, {1, 1}, {1, 5}},
      {4, 40, {2, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {3, 21, {3, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
  };
  std::mt19937_64 random(TestSeed());
  for (const Geometry& geometry : geometries) {
    Case c;
    c.op.set_groups(static_cast<int32_t>(geometry.channels));
    c.input = {geometry.batch, geometry.channels};
    c.weight = {geometry.channels, 1};
    c.output = c.input;
    for (size_t d = 0; d < geometry.sizes.size(); ++d) {
      c.op.add_stride(geometry.stride[d]);
      c.op.add_padding(geometry.padding[d]);
      c.op.add_dilation(geometry.dilation[d]);
      c.input.push_back(geometry.sizes[d]);
      c.weight.push_back(geometry.kernel[d]);
      c.output.push_back(ConvolutionOutputSize(c.op, static_cast<int>(d), c.input[d + 2], c.weight[d + 2]));
    }
    ExpectConvolution(c, random, /*has_bias=*/false);
  }
}

// Few channels of the source: runs of all lengths, windows partly and nowhere inside, rows that no window meets, more
// rows than a block has, and more products than are added at once.
TEST(ConvolutionTest, DataGradientsWithFewChannels) {
  struct Geometry {
    DimVector input;
    int64_t channels;
    DimVector kernel, stride, dilation, padding;
    bool transposed;
  };
  const Geometry geometries[] = {
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
  for (const Geometry& geometry : geometries) {
    Case c;
    c.op.set_groups(1);
    c.op.set_transposed(geometry.transposed);
    c.input = geometry.input;
    c.weight = {geometry.channels, c.input[1]};
    if (geometry.transposed) std::swap(c.weight[0], c.weight[1]);
    c.output = {c.input[0], geometry.channels};
    for (size_t d = 0; d < geometry.kernel.size(); ++d) {
      c.op.add_stride(geometry.stride[d]);
      c.op.add_padding(geometry.padding[d]);
      c.op.add_dilation(geometry.dilation[d]);
      if (geometry.transposed) c.op.add_output_padding(0);
      c.weight.push_back(geometry.kernel[d]);
      c.output.push_back(ConvolutionOutputSize(c.op, static_cast<int>(d), c.input[d + 2], c.weight[d + 2]));
    }
    for (const bool has_bias : {false, true}) ExpectConvolution(c, random, has_bias);
  }
}

// Weights large enough, and pixels few enough, for a matrix product.
TEST(ConvolutionTest, KernelsOfOneElementAndFewPixels) {
  struct Geometry {
    DimVector input;
    int64_t channels;
    DimVector stride;
  };
  const Geometry geometries[] = {{{2, 260, 3, 2}, 520, {1, 1}},
                                 {{1, 300, 6, 5}, 450, {2, 3}},
                                 {{3, 270, 4}, 500, {2}},
                                 {{1, 400, 2, 2, 3}, 350, {1, 2, 2}}};
  std::mt19937_64 random(TestSeed());
  for (const Geometry& geometry : geometries) {
    Case c;
    c.op.set_groups(1);
    c.input = geometry.input;
    c.weight = {geometry.channels, c.input[1]};
    c.output = {c.input[0], geometry.channels};
    for (size_t d = 0; d < geometry.stride.size(); ++d) {
      c.op.add_stride(geometry.stride[d]);
      c.op.add_padding(0);
      c.op.add_dilation(1);
      c.weight.push_back(1);
      c.output.push_back(ConvolutionOutputSize(c.op, static_cast<int>(d), c.input[d + 2], 1));
    }
    ExpectConvolution(c, random, /*has_bias=*/false);
  }
}

TEST(ConvolutionTest, NoInputChannelsGiveTheBias) {
  std::mt19937_64 random(TestSeed());
  Case c;
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
