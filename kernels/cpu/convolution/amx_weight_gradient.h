// SPDX-License-Identifier: Apache-2.0

// Gradients of weights of bf16 with AMX (kernels/cpu/simd/amx_tiles.h), without a library.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_AMX_WEIGHT_GRADIENT_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_AMX_WEIGHT_GRADIENT_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns the kernel of the weight gradient `problem`, or null if the problem does not qualify. Those that qualify are
// bf16 without groups, on processors with AMX, with at least 6 channels of the source, or 8 to 128 elements in a row of
// the kernel. Strides, dilations and paddings are any.
//
// The gradient of each tap is a product of the destination and the source, whose terms are pixels. Both are packed once
// for all taps, with the padding between rows, so that the pixels of a tap are those of the first one, some places
// further. Places with a stride are packed as images of their own, one for each remainder.
//
// Operands: source, destination -> weights; activations are dense channels last, weights row-major (OwnWeights()).
//
// Each element is summed in f32, in the order of pairs of pixels, and rounded once, so results are bitwise equal for
// any thread count. Pixels in the padding count as products with zero: an infinite element may give NaN for a tap that
// does not meet it. Subnormal numbers count as zeros.
std::unique_ptr<Kernel> MakeAmxWeightGradient(const ConvolutionProblem& problem, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_AMX_WEIGHT_GRADIENT_H_
