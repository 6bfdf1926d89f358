// A convolution op of any of the three kinds as one problem.
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

// The three products, by oneDNN's names. A transposed convolution is the
// backward one of data with source and destination exchanged, and so on.
enum class ConvolutionProduct { kForward, kBackwardData, kBackwardWeights };

// A tensor of the convolution and where it lies among the op's operands.
struct ConvolutionOperand {
  StridedLayout layout;
  Slot slot;
};

struct ConvolutionProblem {
  ConvolutionProduct product = ConvolutionProduct::kForward;
  DType dtype = DType::kFloat32;   // of all operands
  ConvolutionOperand source;       // [N, C_in, spatial...]
  ConvolutionOperand weights;      // [C_out, C_in / groups, kernel...]
  ConvolutionOperand destination;  // [N, C_out, spatial...]
  std::optional<ConvolutionOperand> bias;
  int64_t groups = 1;
  DimVector stride;
  DimVector dilation;  // 0 = dense, as oneDNN counts
  DimVector padding_before;
  DimVector padding_after;

  // What is computed.
  const ConvolutionOperand& Result() const {
    if (product == ConvolutionProduct::kForward) return destination;
    return product == ConvolutionProduct::kBackwardData ? source : weights;
  }
  // Gradients of weights are added up in f32, whatever they become at the end.
  DType WeightsDType() const { return product == ConvolutionProduct::kBackwardWeights ? DType::kFloat32 : dtype; }
  // Whether the result is a sum over nothing.
  bool IsSumEmpty() const;
  double Flops() const;
};

// The problem that a convolution, convolution_backward_input or
// convolution_backward_weight op states.
// InvalidArgument, Unimplemented: from CheckOp().
absl::StatusOr<ConvolutionProblem> DescribeConvolution(const KernelRequest& request);

// A kernel that adds input 0, one number per channel and `bias_stride` apart,
// to output 0 of [N, C, ...]. f32 and f64.
std::unique_ptr<Kernel> MakeBiasKernel(DType dtype, StridedLayout layout, int64_t bias_stride, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_PROBLEM_H_
