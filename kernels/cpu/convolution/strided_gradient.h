// SPDX-License-Identifier: Apache-2.0

// Gradients of convolutions with strides, dilations or kernels of one column as matrix products of windows (im2col),
// which are gathered in blocks that stay in cache.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_STRIDED_GRADIENT_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_STRIDED_GRADIENT_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns the kernel of `problem`, or null if the processor lacks AVX-512 or the problem does not qualify. Those that
// qualify are gradients of f32 in one or two dimensions, with a stride, or of weights with a dilation or kernels of one
// column, and without groups, where this kernel was measured to be faster than oneDNN's (docs/performance.md).
//
// A gradient of data is one product for each remainder of the source positions by the strides, with the taps that meet
// such positions, so that nothing is multiplied by the zeros between destination positions.
//
// Operands: kBackwardData: destination, weights -> source. kBackwardWeights: source, destination -> weights.
// Activations are dense channels last, weights row-major (OwnWeights()).
//
// Results are bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeStridedGradient(const ConvolutionProblem& problem, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_STRIDED_GRADIENT_H_
