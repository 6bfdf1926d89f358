// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/convolution_problem.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/api/op_check.h"

namespace cotan::cuda {
namespace {

using serialization::Op;

// Returns `layout` with leading spatial dimensions of size 1.
StridedLayout WithAllSpatialDims(const StridedLayout& layout) {
  StridedLayout result = layout;
  const size_t missing = kSpatialDims + 2 - layout.sizes.size();
  result.sizes.insert(result.sizes.begin() + 2, missing, 1);
  result.strides.insert(result.strides.begin() + 2, missing, 0);
  for (size_t d = 0; d < result.sizes.size(); ++d) {
    if (result.sizes[d] == 1) result.strides[d] = 0;
  }
  return result;
}

ConvolutionProblem Describe(const serialization::Convolution& op, DType dtype, ConvolutionOperand input,
                            ConvolutionOperand weight, ConvolutionOperand output) {
  ConvolutionProblem problem;
  problem.dtype = dtype;
  problem.wide = op.transposed() ? output : input;
  problem.weights = std::move(weight);
  problem.narrow = op.transposed() ? std::move(input) : std::move(output);
  problem.groups = op.groups();
  problem.spatial_dims = op.stride_size();
  for (int d = 0; d < op.stride_size(); ++d) {
    const size_t axis = kSpatialDims - static_cast<size_t>(op.stride_size() - d);
    problem.stride[axis] = op.stride(d);
    problem.padding[axis] = op.padding(d);
    problem.dilation[axis] = op.dilation(d);
  }
  return problem;
}

int64_t NumPixels(const StridedLayout& layout) {
  return layout.sizes[0] * layout.sizes[2] * layout.sizes[3] * layout.sizes[4];
}

}  // namespace

int64_t ConvolutionProblem::NumTaps() const {
  return weights.layout.sizes[2] * weights.layout.sizes[3] * weights.layout.sizes[4];
}

int64_t ConvolutionProblem::Rows() const {
  if (product == ConvolutionProduct::kBackwardWeights) return narrow.layout.sizes[1] / groups;
  return NumPixels(Result().layout);
}

int64_t ConvolutionProblem::Columns() const {
  if (product == ConvolutionProduct::kBackwardWeights) return weights.layout.sizes[1] * NumTaps();
  return Result().layout.sizes[1] / groups;
}

int64_t ConvolutionProblem::Steps() const {
  if (product == ConvolutionProduct::kBackwardWeights) return NumPixels(narrow.layout);
  const ConvolutionOperand& source = product == ConvolutionProduct::kForward ? wide : narrow;
  return source.layout.sizes[1] / groups * NumTaps();
}

absl::StatusOr<ConvolutionProblem> DescribeConvolution(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const DType dtype = request.outputs[0].dtype;
  const auto input = [&](int i) {
    return ConvolutionOperand{WithAllSpatialDims(request.inputs[static_cast<size_t>(i)].layout), InputArgument(i)};
  };
  const ConvolutionOperand output{WithAllSpatialDims(request.outputs[0].layout), OutputArgument(0)};
  if (request.op.kind_case() == Op::kConvolutionBackwardInput) {
    const serialization::Convolution& op = request.op.convolution_backward_input().forward();
    ConvolutionProblem problem = Describe(op, dtype, output, input(1), input(0));
    problem.product = op.transposed() ? ConvolutionProduct::kForward : ConvolutionProduct::kBackwardData;
    return problem;
  }
  if (request.op.kind_case() == Op::kConvolutionBackwardWeight) {
    const serialization::Convolution& op = request.op.convolution_backward_weight().forward();
    ConvolutionProblem problem = Describe(op, dtype, input(1), output, input(0));
    problem.product = ConvolutionProduct::kBackwardWeights;
    return problem;
  }
  const serialization::Convolution& op = request.op.convolution();
  ConvolutionProblem problem = Describe(op, dtype, input(0), input(1), output);
  problem.product = op.transposed() ? ConvolutionProduct::kBackwardData : ConvolutionProduct::kForward;
  if (request.inputs.size() == 3) problem.bias = ConvolutionOperand{request.inputs[2].layout, InputArgument(2)};
  return problem;
}

}  // namespace cotan::cuda
