// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/convolution_cases.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/convolution/convolution.h"
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

Expected Reference(const ConvolutionCase& c, const std::vector<double>& input, const std::vector<double>& weight,
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

}  // namespace

ConvolutionCase MakeConvolutionCase(const ConvolutionGeometry& geometry) {
  ConvolutionCase c;
  c.op.set_groups(geometry.groups);
  c.op.set_transposed(geometry.transposed);
  c.input = geometry.input;
  c.weight = geometry.transposed ? DimVector{c.input[1], geometry.channels / geometry.groups}
                                 : DimVector{geometry.channels, c.input[1] / geometry.groups};
  c.output = {c.input[0], geometry.channels};
  for (size_t d = 0; d < geometry.kernel.size(); ++d) {
    c.op.add_stride(geometry.stride[d]);
    c.op.add_padding(geometry.padding[d]);
    c.op.add_dilation(geometry.dilation[d]);
    if (geometry.transposed) c.op.add_output_padding(0);
    c.weight.push_back(geometry.kernel[d]);
    c.output.push_back(ConvolutionOutputSize(c.op, static_cast<int>(d), c.input[d + 2], c.weight[d + 2]));
  }
  return c;
}

ConvolutionCase RandomConvolutionCase(std::mt19937_64& random) {
  ConvolutionCase c;
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

void RunConvolution(KernelFactory factory, const Op& op, const std::vector<HostTensor*>& inputs, HostTensor& output) {
  const absl::Status status = RunOp(factory, op, inputs, {&output});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(GapsAreUntouched(output));
  for (int threads : {2, 5}) {
    HostTensor again(output.dtype(), output.layout());
    ASSERT_TRUE(RunOp(factory, op, inputs, {&again}, threads).ok());
    EXPECT_EQ(output.bytes(), again.bytes()) << threads << " threads";
  }
}

void ExpectConvolution(const ConvolutionCase& c, std::mt19937_64& random, bool has_bias, DType dtype) {
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
  RunConvolution(MakeConvolution, op, inputs, output);
  const double bound = dtype == DType::kFloat32 ? testing::kMatmul : testing::kRounding;
  EXPECT_LE(ErrorInUnits(output, expected.output), bound);
  *op.mutable_convolution_backward_input()->mutable_forward() = c.op;
  RunConvolution(MakeConvolutionBackwardInput, op, {&grad_output, &weight}, grad_input);
  EXPECT_LE(ErrorInUnits(grad_input, expected.grad_input), bound);
  *op.mutable_convolution_backward_weight()->mutable_forward() = c.op;
  RunConvolution(MakeConvolutionBackwardWeight, op, {&grad_output, &input}, grad_weight);
  EXPECT_LE(ErrorInUnits(grad_weight, expected.grad_weight), bound);
}

}  // namespace cotan::cpu
