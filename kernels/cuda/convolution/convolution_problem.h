// SPDX-License-Identifier: Apache-2.0

// A convolution op (forward, gradient of the input, gradient of the weight) as one of three products.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_PROBLEM_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_PROBLEM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Which of the three tensors is computed from the other two. A transposed convolution is kBackwardData with the tensors
// exchanged; the gradient of its input is kForward.
enum class ConvolutionProduct { kForward, kBackwardData, kBackwardWeights };

// A tensor of the convolution and the operand of the op that holds it.
struct ConvolutionOperand {
  StridedLayout layout;
  KernelArgument argument;
};

// The spatial dimensions of a problem. Problems of one or two dimensions have leading ones of size 1.
inline constexpr size_t kSpatialDims = 3;
using SpatialVector = std::array<int64_t, kSpatialDims>;

// One convolution. Layouts have rank 2 + kSpatialDims; strides of dimensions of size 1 are 0.
struct ConvolutionProblem {
  ConvolutionProduct product = ConvolutionProduct::kForward;
  DType dtype = DType::kFloat32;           // f16, bf16, f32 or f64, of all operands
  ConvolutionOperand wide;                 // [N, C, spatial...], over which windows slide
  ConvolutionOperand weights;              // [O, C / groups, kernel...]
  ConvolutionOperand narrow;               // [N, O, spatial...], an element per window
  std::optional<ConvolutionOperand> bias;  // one element per channel of the result
  int64_t groups = 1;
  int spatial_dims = 1;  // of the op
  SpatialVector stride = {1, 1, 1};
  SpatialVector padding = {0, 0, 0};   // before the first element
  SpatialVector dilation = {1, 1, 1};  // PyTorch's convention: 1 = dense

  const ConvolutionOperand& Result() const {
    if (product == ConvolutionProduct::kForward) return narrow;
    return product == ConvolutionProduct::kBackwardData ? wide : weights;
  }
  ConvolutionOperand& Result() { return const_cast<ConvolutionOperand&>(std::as_const(*this).Result()); }

  // The sizes of the product as a matrix product, per group.
  int64_t Rows() const;     // pixels of the result; channels of narrow for kBackwardWeights
  int64_t Columns() const;  // channels of the result; elements of the kernel and channels of wide for kBackwardWeights
  int64_t Steps() const;    // products per element of the result
  int64_t NumTaps() const;  // elements of the kernel
};

// Returns the problem of a convolution, convolution_backward_input or convolution_backward_weight op.
// InvalidArgument: from CheckOp(). Unimplemented: the operands are not f16, bf16, f32 or f64.
absl::StatusOr<ConvolutionProblem> DescribeConvolution(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_PROBLEM_H_
