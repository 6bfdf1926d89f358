// SPDX-License-Identifier: Apache-2.0

// Products that are added to a sum, rounded once.
#pragma once

#include "cotan/types.cuh"

namespace cotan {

__device__ inline float MultiplyAdd(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ inline double MultiplyAdd(double x, double y, double z) { return __fma_rn(x, y, z); }
// The low bits of signed integers are the same.
__device__ inline uint32 MultiplyAdd(uint32 x, uint32 y, uint32 z) { return x * y + z; }
__device__ inline uint64 MultiplyAdd(uint64 x, uint64 y, uint64 z) { return x * y + z; }

}  // namespace cotan
