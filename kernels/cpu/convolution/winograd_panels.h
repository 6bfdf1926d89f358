// SPDX-License-Identifier: Apache-2.0

// Winograd's algorithm for many channels and few pixels, whose transformed weights would exceed the caches: the
// transformed tiles of all pixels stay in memory, and the weights are transformed panel by panel where they are
// multiplied.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_PANELS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_PANELS_H_

#include "kernels/cpu/convolution/winograd_transforms.h"

#ifdef COTAN_WINOGRAD_TARGET
#include <memory>

#include "base/dtype.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu::winograd {

// Returns the kernel of kForward or kBackwardData, of operands of f32 or bf16, which are those of MakeWinograd().
std::unique_ptr<Kernel> MakePanelProduct(const TileGrid& grid, const Weights& weights, bool has_bias, DType dtype,
                                         int threads);

// Returns the kernel of kBackwardWeights.
std::unique_ptr<Kernel> MakePanelWeightGradient(const TileGrid& grid, const Weights& weights, DType dtype, int threads);

}  // namespace cotan::cpu::winograd

#endif

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_PANELS_H_
