// SPDX-License-Identifier: Apache-2.0

// Kernels of average pools.
#ifndef COTAN_KERNELS_CPU_POOL_AVERAGE_POOL_H_
#define COTAN_KERNELS_CPU_POOL_AVERAGE_POOL_H_

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/pool/pool_geometry.h"

namespace cotan::cpu {

// The divisor of a window's sum.
struct AverageDivisor {
  bool counts_padding;
  int64_t fixed;  // 0 = none

  // Returns the factor of the divisor along `axis` for a window of output position `at`, if it is not fixed.
  int64_t Along(const PoolAxis& axis, int64_t at) const {
    const WindowRange window = axis.windows[static_cast<size_t>(at)];
    return counts_padding ? axis.PaddedSize(at) : window.end - window.begin;
  }
  int64_t Of(const std::array<PoolAxis, 3>& axes, int64_t d, int64_t h, int64_t w) const {
    if (fixed != 0) return fixed;
    return Along(axes[0], d) * Along(axes[1], h) * Along(axes[2], w);
  }
};

// Returns the kernel of an average pool of elements T, float or double: input 0 -> output 0.
template <typename T>
std::unique_ptr<Kernel> MakeAverageKernel(PoolGeometry geometry, const AverageDivisor& divisor, int threads);

// Returns the kernel of its backward: gradient of the output -> gradient of the input. `zero` clears output 0.
template <typename T>
std::unique_ptr<Kernel> MakeAverageBackwardKernel(PoolGeometry geometry, const AverageDivisor& divisor,
                                                  std::unique_ptr<Kernel> zero, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_AVERAGE_POOL_H_
