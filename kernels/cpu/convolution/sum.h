// SPDX-License-Identifier: Apache-2.0

// Sums of partial results.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_SUM_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_SUM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Adds `count` floats to others, which they do not overlap.
void AddTo(const float* from, int64_t count, float* to);

// Returns a kernel that sums `terms` arrays of `count` floats in order: input 0, plus input 1, and so on, to output 0.
std::unique_ptr<Kernel> MakeSum(size_t terms, int64_t count, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_SUM_H_
