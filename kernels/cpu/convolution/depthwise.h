// SPDX-License-Identifier: Apache-2.0

// Gradients of the weights of depthwise convolutions: one kernel per channel.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_DEPTHWISE_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_DEPTHWISE_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns the kernel of the weight gradient `problem`, or null if the problem does not qualify. Those that qualify are
// f32 in one or two dimensions with as many groups as input and output channels, at least 16 of them, and kernels of
// more than 3 elements in a dimension, or of 3 if the output has at most 2 positions in each: oneDNN has fast code for
// the others (docs/performance.md). Strides, paddings and dilations are any.
//
// Operands: source, destination -> weights; activations are dense channels last, weights row-major (OwnWeights()).
//
// Results are bitwise equal for any thread count: the sum over the batch is split into parts whose number depends on
// the sizes only.
std::unique_ptr<Kernel> MakeDepthwiseWeightGradient(const ConvolutionProblem& problem, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_DEPTHWISE_H_
