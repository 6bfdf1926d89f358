// SPDX-License-Identifier: Apache-2.0

// The inner loops of Winograd's algorithm with AVX-512 between its transforms: 3 x 3 kernels of 16 channels as vectors,
// and the products of transformed tiles.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TILES_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TILES_H_

#include "kernels/cpu/convolution/winograd_sides.h"

#ifdef COTAN_WINOGRAD_TARGET
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/transpose16.h"

namespace cotan::cpu::winograd {

inline constexpr int64_t kLanes = 16;    // channels of a vector
inline constexpr int64_t kPanel = 32;    // columns of a panel of a right matrix
inline constexpr int64_t kTileRows = 8;  // rows of a tile of a product

// Loads the 3 x 3 kernels of `lanes` channels, `stride` elements apart, each 9 contiguous ones, the channels as lanes
// of g; in reverse order if `flips`. E is float or BFloat16.
template <typename E>
COTAN_WINOGRAD_INLINE void LoadKernels(const E* from, int64_t stride, int64_t lanes, bool flips, __m512 (&g)[9]) {
  Float16Lanes r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    r[i] = i < lanes ? Float16Lanes(LoadLanes(from + i * stride, 0x1ff)) : Float16Lanes{};
  }
  Transpose16x16(r);
#pragma GCC unroll 9
  for (int k = 0; k < 9; ++k) g[k] = flips ? r[8 - k] : r[k];
}

// The inverse of LoadKernels().
template <typename E>
COTAN_WINOGRAD_INLINE void StoreKernels(const __m512 (&g)[9], int64_t stride, int64_t lanes, E* to) {
  Float16Lanes r[16];
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) r[k] = k < 9 ? Float16Lanes(g[k < 9 ? k : 0]) : Float16Lanes{};
  Transpose16x16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i < lanes) StoreLanes(__m512(r[i]), 0x1ff, to + i * stride);
  }
}

// The left matrix of a product: `blocks` blocks of `depth` columns, `stride` floats apart. Rows are kRowStep floats
// apart, columns kDepthStep.
struct LeftBlocks {
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t blocks = 1;
  int64_t depth = 0;
};

// Computes to[8, 16 * kVectors] = left * right, or adds the whole sum if `adds`. Rows of `right` and `to` are kPanel
// floats apart.
template <int kVectors, int kRowStep, int kDepthStep>
COTAN_WINOGRAD_INLINE void MultiplyTile(const LeftBlocks& left, const float* right, float* to, bool adds) {
  __m512 sum[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  const float* block = left.data;
  for (int64_t b = 0; b < left.blocks; ++b, block += left.stride) {
    const float* a = block;
#pragma GCC unroll 1
    for (int64_t k = 0; k < left.depth; ++k, a += kDepthStep, right += kPanel) {
      __m512 columns[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_load_ps(right + v * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kTileRows; ++i) {
        const __m512 factor = _mm512_set1_ps(a[i * kRowStep]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(factor, columns[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* const at = to + i * kPanel + v * kLanes;
      _mm512_store_ps(at, adds ? _mm512_add_ps(_mm512_load_ps(at), sum[i][v]) : sum[i][v]);
    }
  }
}

}  // namespace cotan::cpu::winograd

#endif

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TILES_H_
