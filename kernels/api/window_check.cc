// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/window_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/api/operand_check.h"
#include "serialization/schema/program.pb.h"

namespace cotan::op_check {
namespace {

using serialization::Convolution;
using serialization::Pool;

absl::Status CheckConvolutionAttributes(const Convolution& op, int spatial) {
  COTAN_RETURN_IF_ERROR(ExpectAttribute("stride", op.stride(), spatial, 1));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("padding", op.padding(), spatial, 0));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("dilation", op.dilation(), spatial, 1));
  if (op.groups() < 1) return absl::InvalidArgumentError(absl::StrCat("groups is ", op.groups()));
  if (!op.transposed()) return absl::OkStatus();
  return ExpectAttribute("output_padding", op.output_padding(), spatial, 0);
}

// Checks input, weight and output of a convolution; the op computes one of them from the other two.
absl::Status CheckConvolutionOperands(const Convolution& op, const TensorSpec& input, const TensorSpec& weight,
                                      const TensorSpec& output) {
  COTAN_RETURN_IF_ERROR(ExpectRank("the convolution's input", input, 3, 5));
  COTAN_RETURN_IF_ERROR(ExpectFloat("the convolution's input", input));
  const int spatial = input.layout.rank() - 2;
  COTAN_RETURN_IF_ERROR(CheckConvolutionAttributes(op, spatial));
  COTAN_RETURN_IF_ERROR(ExpectRank("the weight", weight, spatial + 2, spatial + 2));
  const int64_t channels = input.layout.sizes[1];
  const int64_t groups = op.groups();
  if (channels % groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat("groups ", groups, " does not divide ", channels, " channels"));
  }
  DimVector weight_sizes = weight.layout.sizes;
  if (op.transposed()) {
    weight_sizes[0] = channels;
  } else {
    weight_sizes[1] = channels / groups;
  }
  COTAN_RETURN_IF_ERROR(Expect("the weight", weight, input.dtype, weight_sizes));
  if (!op.transposed() && weight_sizes[0] % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups ", groups, " does not divide ", weight_sizes[0], " output channels"));
  }
  DimVector output_sizes = {input.layout.sizes[0], op.transposed() ? weight_sizes[1] * groups : weight_sizes[0]};
  for (int d = 0; d < spatial; ++d) {
    const auto axis = static_cast<size_t>(d + 2);
    if (weight_sizes[axis] < 1 || weight_sizes[axis] > kMaxAttribute || input.layout.sizes[axis] > kMaxSize) {
      return absl::InvalidArgumentError(absl::StrCat("the weight is ", Describe(weight), " for an input of ",
                                                     Describe(input), ": a spatial size is out of range"));
    }
    output_sizes.push_back(ConvolutionOutputSize(op, d, input.layout.sizes[axis], weight_sizes[axis]));
  }
  return Expect("the convolution's output", output, input.dtype, output_sizes);
}

// `input` and `output` are those of the forward pool.
absl::Status CheckPoolOperands(const Pool& op, bool is_max, const TensorSpec& input, const TensorSpec& output) {
  const int spatial = op.kernel_size();
  if (spatial < 1 || spatial > 3) {
    return absl::InvalidArgumentError(absl::StrCat("kernel has ", spatial, " entries, expected 1 to 3"));
  }
  COTAN_RETURN_IF_ERROR(ExpectAttribute("kernel", op.kernel(), spatial, 1));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("stride", op.stride(), spatial, 1));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("padding", op.padding(), spatial, 0));
  if (is_max || op.dilation_size() != 0) {
    COTAN_RETURN_IF_ERROR(ExpectAttribute("dilation", op.dilation(), spatial, 1));
  }
  if (!is_max && std::any_of(op.dilation().begin(), op.dilation().end(), [](int64_t d) { return d != 1; })) {
    return absl::InvalidArgumentError("average pooling has no dilation");
  }
  if (op.divisor_override() < 0) return absl::InvalidArgumentError("divisor_override is negative");
  COTAN_RETURN_IF_ERROR(ExpectRank("the pool's input", input, spatial, 64));
  COTAN_RETURN_IF_ERROR(is_max ? ExpectNumber("the pool's input", input) : ExpectFloat("the pool's input", input));
  DimVector sizes = input.layout.sizes;
  for (int d = 0; d < spatial; ++d) {
    const size_t axis = sizes.size() - static_cast<size_t>(spatial - d);
    const int64_t dilation = is_max ? op.dilation(d) : 1;
    if (sizes[axis] > kMaxSize) return absl::InvalidArgumentError("a spatial size is out of range");
    if (op.padding(d) > (dilation * (op.kernel(d) - 1) + 1) / 2) {
      return absl::InvalidArgumentError(absl::StrCat("padding ", op.padding(d), " exceeds half of the kernel, ",
                                                     op.kernel(d), " (dilation ", dilation, ")"));
    }
    sizes[axis] = PoolOutputSize(op, d, sizes[axis]);
  }
  return Expect("the pool's output", output, input.dtype, sizes);
}

// `pooled` is the output of the forward pool.
absl::Status CheckPoolIndices(const TensorSpec& indices, const TensorSpec& pooled) {
  const DType dtype = indices.dtype == DType::kInt32 ? DType::kInt32 : DType::kInt64;
  return Expect("the indices", indices, dtype, pooled.layout.sizes);
}

}  // namespace

absl::Status CheckConvolution(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 3, 1, 1));
  COTAN_RETURN_IF_ERROR(
      CheckConvolutionOperands(request.op.convolution(), request.inputs[0], request.inputs[1], request.outputs[0]));
  if (request.inputs.size() < 3) return absl::OkStatus();
  return Expect("the bias", request.inputs[2], request.outputs[0].dtype, {request.outputs[0].layout.sizes[1]});
}

absl::Status CheckConvolutionBackwardInput(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 2, 1, 1));
  return CheckConvolutionOperands(request.op.convolution_backward_input().forward(), request.outputs[0],
                                  request.inputs[1], request.inputs[0]);
}

absl::Status CheckConvolutionBackwardWeight(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 2, 1, 1));
  return CheckConvolutionOperands(request.op.convolution_backward_weight().forward(), request.inputs[1],
                                  request.outputs[0], request.inputs[0]);
}

absl::Status CheckMaxPool(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 2));
  COTAN_RETURN_IF_ERROR(CheckPoolOperands(request.op.max_pool(), true, request.inputs[0], request.outputs[0]));
  if (request.outputs.size() < 2) return absl::OkStatus();
  return CheckPoolIndices(request.outputs[1], request.outputs[0]);
}

absl::Status CheckMaxPoolBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 2, 1, 1));
  COTAN_RETURN_IF_ERROR(CheckPoolOperands(request.op.max_pool_backward(), true, request.outputs[0], request.inputs[0]));
  return CheckPoolIndices(request.inputs[1], request.inputs[0]);
}

absl::Status CheckAvgPool(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 1));
  return CheckPoolOperands(request.op.avg_pool(), false, request.inputs[0], request.outputs[0]);
}

absl::Status CheckAvgPoolBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 1));
  return CheckPoolOperands(request.op.avg_pool_backward(), false, request.outputs[0], request.inputs[0]);
}

}  // namespace cotan::op_check

namespace cotan {

int64_t ConvolutionOutputSize(const serialization::Convolution& op, int dim, int64_t input, int64_t kernel) {
  const int64_t extent = op.dilation(dim) * (kernel - 1) + 1;
  if (op.transposed()) {
    return (input - 1) * op.stride(dim) - 2 * op.padding(dim) + extent + op.output_padding(dim);
  }
  return FloorDiv(input + 2 * op.padding(dim) - extent, op.stride(dim)) + 1;
}

int64_t PoolOutputSize(const serialization::Pool& op, int dim, int64_t input) {
  const int64_t dilation = op.dilation_size() == 0 ? 1 : op.dilation(dim);
  const int64_t extent = dilation * (op.kernel(dim) - 1) + 1;
  const int64_t stride = op.stride(dim);
  const int64_t slack = op.ceil_mode() ? stride - 1 : 0;
  const int64_t output = FloorDiv(input + 2 * op.padding(dim) - extent + slack, stride) + 1;
  // A window must not start in the padding after the input.
  if (op.ceil_mode() && (output - 1) * stride >= input + op.padding(dim)) return output - 1;
  return output;
}

}  // namespace cotan
