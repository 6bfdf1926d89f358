// SPDX-License-Identifier: Apache-2.0

// Gradients of data with few channels, and transposed convolutions with few output channels.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_FEW_CHANNELS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_FEW_CHANNELS_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns the kernel of the data gradient `problem`, or null if the problem does not qualify. Those that qualify are
// f32 in one or two dimensions, with kernels of more than one element, without groups and without dilation along the
// last dimension, with at most 8 channels of the source: oneDNN's code leaves most lanes of a vector empty then
// (docs/performance.md). Strides and paddings are any.
//
// The kernel multiplies each row of the destination by all weights, and adds the products to the source (col2im).
//
// Operands: destination, weights -> source; activations are dense channels last, weights row-major (OwnWeights()).
//
// Results are bitwise equal for any thread count: the terms of an element are added in the order of the destination.
std::unique_ptr<Kernel> MakeFewChannelsDataGradient(const ConvolutionProblem& problem, int threads);

// Returns true if `problem` would qualify in f32.
bool HasFewChannelsDataGradient(const ConvolutionProblem& problem);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_FEW_CHANNELS_H_
