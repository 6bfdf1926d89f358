// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/convolution_case.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/api/op_check.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda::testing {
namespace {

using cotan::testing::HostTensor;
using serialization::Convolution;

StridedLayout LayoutOf(const DimVector& sizes, Layouts layouts, bool is_input, std::mt19937_64& random) {
  if (layouts == Layouts::kRandom && random() % 2 == 0) {
    return cotan::testing::RandomLayout(sizes, random, random() % 2 == 0, is_input && random() % 2 == 0);
  }
  DimVector order;
  if (layouts != Layouts::kRowMajor && sizes.size() > 1) {
    order.push_back(0);
    for (size_t d = 2; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
    order.push_back(1);
  }
  return cotan::testing::DenseLayout(sizes, order);
}

void SetOutput(ConvolutionCase& c) {
  const int64_t channels = c.op.transposed() ? c.weight[1] * c.op.groups() : c.weight[0];
  c.output = {c.input[0], channels};
  for (int d = 0; d < c.op.stride_size(); ++d) {
    const auto axis = static_cast<size_t>(d) + 2;
    c.output.push_back(ConvolutionOutputSize(c.op, d, c.input[axis], c.weight[axis]));
  }
}

}  // namespace

ConvolutionCase ConvolutionCase::Of(DimVector input, DimVector weight, int64_t stride, int64_t padding,
                                    int64_t dilation, int64_t groups) {
  ConvolutionCase c;
  c.input = std::move(input);
  c.weight = std::move(weight);
  c.op.set_groups(groups);
  for (size_t d = 2; d < c.input.size(); ++d) {
    c.op.add_stride(stride);
    c.op.add_padding(padding);
    c.op.add_dilation(dilation);
  }
  SetOutput(c);
  return c;
}

ConvolutionCase ConvolutionCase::Transposed(DimVector input, DimVector weight, int64_t stride, int64_t padding,
                                            int64_t output_padding, int64_t groups) {
  ConvolutionCase c;
  c.input = std::move(input);
  c.weight = std::move(weight);
  c.op.set_groups(groups);
  c.op.set_transposed(true);
  for (size_t d = 2; d < c.input.size(); ++d) {
    c.op.add_stride(stride);
    c.op.add_padding(padding);
    c.op.add_dilation(1);
    c.op.add_output_padding(output_padding);
  }
  SetOutput(c);
  return c;
}

std::string ConvolutionCase::ToString() const {
  return absl::StrCat("[", absl::StrJoin(input, ","), "] * [", absl::StrJoin(weight, ","), "] -> [",
                      absl::StrJoin(output, ","), "] stride ", absl::StrJoin(op.stride(), ","), " padding ",
                      absl::StrJoin(op.padding(), ","), " dilation ", absl::StrJoin(op.dilation(), ","), " groups ",
                      op.groups(), op.transposed() ? " transposed" : "");
}

ConvolutionCase RandomConvolution(std::mt19937_64& random) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
  ConvolutionCase c;
  const int64_t spatial = 1 + below(3);
  const bool transposed = below(3) == 0;
  const int64_t groups = below(3) == 0 ? 1 + below(3) : 1;
  c.op.set_groups(groups);
  c.op.set_transposed(transposed);
  const int64_t in = groups * (1 + below(6));
  const int64_t out = groups * (1 + below(20));
  c.input = {below(4), in};
  c.weight = transposed ? DimVector{in, out / groups} : DimVector{out, in / groups};
  for (int d = 0; d < spatial; ++d) {
    c.op.add_stride(1 + below(3));
    c.op.add_dilation(1 + below(2));
    c.op.add_padding(below(3));
    if (transposed) c.op.add_output_padding(below(c.op.stride(d)));
    c.input.push_back(5 + below(4));
    c.weight.push_back(1 + below(3));
  }
  SetOutput(c);
  return c;
}

std::vector<HostTensor*> ConvolutionOperands::Inputs() const {
  std::vector<HostTensor*> tensors;
  for (const auto& input : inputs) tensors.push_back(input.get());
  return tensors;
}

ConvolutionSpecs ConvolutionOperands::Specs() const {
  ConvolutionSpecs specs = {op, {}, {output->spec()}};
  for (const auto& input : inputs) specs.inputs.push_back(input->spec());
  return specs;
}

KernelRequest ConvolutionSpecs::Request(bool guarded_outputs) const {
  return {.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}, .guarded_outputs = guarded_outputs};
}

ConvolutionSpecs MakeSpecs(const ConvolutionCase& c, Gradient gradient, DType dtype, Layouts layouts) {
  ConvolutionSpecs specs;
  std::mt19937_64 random;
  const auto spec = [&](const DimVector& sizes) {
    return TensorSpec{dtype, LayoutOf(sizes, layouts, /*is_input=*/false, random)};
  };
  if (gradient == Gradient::kNone) {
    *specs.op.mutable_convolution() = c.op;
    specs.inputs = {spec(c.input), spec(c.weight)};
    specs.outputs = {spec(c.output)};
  } else if (gradient == Gradient::kInput) {
    *specs.op.mutable_convolution_backward_input()->mutable_forward() = c.op;
    specs.inputs = {spec(c.output), spec(c.weight)};
    specs.outputs = {spec(c.input)};
  } else {
    *specs.op.mutable_convolution_backward_weight()->mutable_forward() = c.op;
    specs.inputs = {spec(c.output), spec(c.input)};
    specs.outputs = {spec(c.weight)};
  }
  return specs;
}

ConvolutionOperands MakeOperands(const ConvolutionCase& c, Gradient gradient, DType dtype, Layouts layouts,
                                 bool has_bias, std::mt19937_64& random) {
  ConvolutionOperands result;
  const auto add = [&](const DimVector& sizes) {
    result.inputs.push_back(std::make_unique<HostTensor>(
        cotan::testing::RandomTensor(dtype, LayoutOf(sizes, layouts, /*is_input=*/true, random), random)));
  };
  KernelFactory reference = reference::MakeConvolution;
  const DimVector* sizes = &c.output;
  if (gradient == Gradient::kNone) {
    *result.op.mutable_convolution() = c.op;
    add(c.input);
    add(c.weight);
    if (has_bias) add({c.output[1]});
  } else if (gradient == Gradient::kInput) {
    *result.op.mutable_convolution_backward_input()->mutable_forward() = c.op;
    add(c.output);
    add(c.weight);
    sizes = &c.input;
    reference = reference::MakeConvolutionBackwardInput;
  } else {
    *result.op.mutable_convolution_backward_weight()->mutable_forward() = c.op;
    add(c.output);
    add(c.input);
    sizes = &c.weight;
    reference = reference::MakeConvolutionBackwardWeight;
  }
  result.output = std::make_unique<HostTensor>(dtype, LayoutOf(*sizes, layouts, /*is_input=*/false, random));
  HostTensor expected(dtype, *sizes);
  const absl::Status status = cotan::testing::RunOp(reference, result.op, result.Inputs(), {&expected});
  if (!status.ok()) {
    std::cerr << c.ToString() << ": " << status << std::endl;
    std::abort();
  }
  result.expected = expected.Values();
  return result;
}

}  // namespace cotan::cuda::testing
