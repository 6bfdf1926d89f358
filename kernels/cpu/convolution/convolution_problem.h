// SPDX-License-Identifier: Apache-2.0

// A convolution op (forward, gradient of the input, gradient of the weights) in the terms of oneDNN.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_PROBLEM_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_PROBLEM_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {

// The three products, named as by oneDNN. A transposed convolution is kBackwardData with source and
// destination exchanged; the gradient of its input is kForward.
enum class ConvolutionProduct { kForward, kBackwardData, kBackwardWeights };

// A tensor of the convolution and the operand of the op that holds it.
struct ConvolutionOperand {
  StridedLayout layout;
  Slot slot;
};

// One convolution with the roles that oneDNN gives to its three tensors. Layouts have one spatial dimension
// per element of `stride`.
struct ConvolutionProblem {
  ConvolutionProduct product = ConvolutionProduct::kForward;
  DType dtype = DType::kFloat32;   // of all operands
  ConvolutionOperand source;       // [N, C_in, spatial...]
  ConvolutionOperand weights;      // [C_out, C_in / groups, kernel...]
  ConvolutionOperand destination;  // [N, C_out, spatial...]
  std::optional<ConvolutionOperand> bias;
  int64_t groups = 1;
  DimVector stride;
  DimVector dilation;  // oneDNN's convention: 0 = dense (PyTorch: 1)
  DimVector padding_before;
  DimVector padding_after;

  // Returns the operand that the product writes.
  const ConvolutionOperand& Result() const {
    if (product == ConvolutionProduct::kForward) return destination;
    return product == ConvolutionProduct::kBackwardData ? source : weights;
  }
  // Returns the dtype in which oneDNN computes the weights or their gradient. Gradients of weights are summed
  // in f32 and converted to `dtype` at the end.
  DType WeightsDType() const { return product == ConvolutionProduct::kBackwardWeights ? DType::kFloat32 : dtype; }
  // Returns true if a tensor is empty, so that every element of the result is a sum over nothing.
  bool IsSumEmpty() const;
  // Returns the floating point operations of the product: two per multiply-add.
  double Flops() const;
};

// Returns the problem of a convolution, convolution_backward_input or convolution_backward_weight op. Slots
// refer to the op's inputs and outputs.
// InvalidArgument, Unimplemented: from CheckOp().
absl::StatusOr<ConvolutionProblem> DescribeConvolution(const KernelRequest& request);

// Takes those pixels off the source that lie behind the last one that the kernel meets, along dimensions without a
// stride: a transposed convolution with dilations may add them to its output, and oneDNN refuses them. Returns true if
// there are some. Their gradient is 0.
bool CropUnmetPixels(ConvolutionProblem& problem);

// Returns true if all of a problem's strides, dilations or paddings are `value`.
bool AllAre(const DimVector& values, int64_t value);

// Returns the row-major layout of the problem's weights, in which kernels of this project read and write them.
StridedLayout OwnWeights(const ConvolutionProblem& problem);

// Returns a kernel that adds input 0, one element per channel, `bias_stride` elements apart, to output 0 of
// sizes [N, C, ...]. `dtype` is f64, otherwise f32 is assumed.
std::unique_ptr<Kernel> MakeBiasKernel(DType dtype, StridedLayout layout, int64_t bias_stride, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_PROBLEM_H_
