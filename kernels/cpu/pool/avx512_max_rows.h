// SPDX-License-Identifier: Apache-2.0

// Rows of max pools with lanes, in AVX-512: 16 lanes of a window at once, and the rest of them under a mask.
#ifndef COTAN_KERNELS_CPU_POOL_AVX512_MAX_ROWS_H_
#define COTAN_KERNELS_CPU_POOL_AVX512_MAX_ROWS_H_

#include <cstdint>

#include "kernels/cpu/pool/pool_geometry.h"
#include "kernels/cpu/pool/pool_windows.h"

namespace cotan::cpu {

// A function that computes output row [d, h] of a max pool from the plane at `input`, with the flattened positions of
// the maxima if `index` is not null.
template <typename S>
using MaxRowFunction = void (*)(const PoolGeometry& g, int64_t d, int64_t h, const S* input, S* output, int32_t* index);

// Returns the function for pools of S, float or BFloat16, with lanes, or null if the processor lacks AVX-512.
template <typename S>
MaxRowFunction<S> Avx512MaxRow();

extern template MaxRowFunction<float> Avx512MaxRow();
extern template MaxRowFunction<BFloat16> Avx512MaxRow();

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_AVX512_MAX_ROWS_H_
