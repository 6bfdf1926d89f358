// SPDX-License-Identifier: Apache-2.0

// Convolutions with 1 x 1 kernels as matrix products.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_POINTWISE_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_POINTWISE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns the kernel of `problem`, or null if the problem does not qualify. Those that qualify have kernels of one
// element, no padding or groups, and are bf16 on processors with AMX, or f32 with so few pixels for their weights that
// the reorder of the weights for a convolution of oneDNN takes a good part of its time: these products read and write
// the weights where they are. Gradients of data of f32 qualify without strides.
//
// Operands: kForward: source, weights, bias if any -> destination. kBackwardData: destination, weights -> source.
// kBackwardWeights: source, destination -> weights. Activations are dense channels last, weights row-major
// (OwnWeights()).
//
// Results are bitwise equal for any thread count. Errors: those of MakeMatmul().
absl::StatusOr<std::unique_ptr<Kernel>> MakePointwise(const ConvolutionProblem& problem, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_POINTWISE_H_
