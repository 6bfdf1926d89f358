// SPDX-License-Identifier: Apache-2.0

// Convolutions with 3 x 3 kernels by Winograd's minimal filtering. F(2x2, 3x3) takes 16 multiplications for 2 x 2
// output pixels in place of 36; its errors are those of a direct convolution of f32. F(4x4, 3x3) takes 36 for 4 x 4
// pixels in place of 144, but rounds more, so that it is for operands of bf16 only, which it computes in f32 and rounds
// once (docs/numerics.md). Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns true if MakeWinograd() has a kernel for `problem`: the processor has AVX-512; operands are f32 or bf16 in two
// dimensions, with 3 x 3 kernels, no stride or groups, and at least 16 channels on both sides, 32 for products of bf16;
// and there are so many output pixels in each tile that the transforms pay (measured, docs/performance.md). A
// convolution with a dilation of d is one without for each remainder of the pixels' positions by d. Callers leave bf16
// to oneDNN where it has AMX.
bool IsWinogradWorthwhile(const ConvolutionProblem& problem);

// Returns the kernel of `problem`, or null if it is not worthwhile.
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
