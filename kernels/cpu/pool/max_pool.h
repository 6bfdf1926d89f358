// SPDX-License-Identifier: Apache-2.0

// Kernels of max pools.
#ifndef COTAN_KERNELS_CPU_POOL_MAX_POOL_H_
#define COTAN_KERNELS_CPU_POOL_MAX_POOL_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/pool/pool_geometry.h"

namespace cotan::cpu {

// Returns the kernel of a max pool of elements S, float, double or BFloat16: input 0 -> output 0 and, if `has_index`,
// the i32 positions of the maxima in their planes -> output 1.
template <typename S>
std::unique_ptr<Kernel> MakeMaxPoolKernel(PoolGeometry geometry, bool has_index, int threads);

// Returns the kernel of its backward: gradient of the output, i32 positions -> gradient of the input. `zero` clears
// output 0. Run() fails as MakeMaxPoolBackward() in pool.h says.
template <typename S>
std::unique_ptr<Kernel> MakeMaxPoolBackwardKernel(PoolGeometry geometry, std::unique_ptr<Kernel> zero, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_MAX_POOL_H_
