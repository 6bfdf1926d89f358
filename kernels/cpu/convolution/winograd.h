// SPDX-License-Identifier: Apache-2.0

// Convolutions with 3 x 3 kernels by Winograd's minimal filtering F(2x2, 3x3): 16 multiplications for 2 x 2 output
// pixels in place of 36. Larger tiles would need fewer, but round more; the errors of this one are those of a direct
// convolution (docs/numerics.md).
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns the kernel of `problem`, or null if the processor lacks AVX-512 or the problem does not qualify. Those that
// qualify are f32 in two dimensions with 3 x 3 kernels, no stride or groups, at least 16 channels on both sides, and so
// many output pixels in each tile that the transforms pay (measured, docs/performance.md); and gradients of weights in
// bf16 with at least 64 channels, which are computed in f32 and rounded once. A convolution with a
// dilation of d is one without for each remainder of the pixels' positions by d.
//
// Scratch memory holds the transformed weights and a block of tiles for each thread, or the transformed tiles of all
// pixels if that is less.
//
// Operands: kForward: source, weights[, bias] -> destination. kBackwardData: destination, weights -> source.
// kBackwardWeights: source, destination -> weights. Activations are dense channels last, weights row-major
// (OwnWeights()).
//
// Results are bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeWinograd(const ConvolutionProblem& problem, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_H_
