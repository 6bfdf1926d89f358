// SPDX-License-Identifier: Apache-2.0

// The inner loops of Winograd's F(2x2, 3x3) with AVX-512: transforms of 16 channels at once, and the products between
// them. A transformed tile has 16 elements per channel, one for each of the 16 products.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TILES_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TILES_H_

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/transpose16.h"

#define COTAN_WINOGRAD_TARGET COTAN_LANES_TARGET
#define COTAN_WINOGRAD_INLINE COTAN_LANES_INLINE

namespace cotan::cpu::winograd {

inline constexpr int64_t kLanes = 16;    // channels of a vector
inline constexpr int kElements = 16;     // of a transformed tile
inline constexpr int64_t kPanel = 32;    // columns of a panel of a right matrix
inline constexpr int64_t kTileRows = 8;  // rows of a tile of a product

// Replaces d, 4 x 4 pixels in row-major order, by B^T d B.
COTAN_WINOGRAD_INLINE void TransformInput(__m512 (&d)[16]) {
#pragma GCC unroll 2
  for (int pass = 0; pass < 2; ++pass) {
    const int step = pass == 0 ? 4 : 1;
    const int line = pass == 0 ? 1 : 4;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512* const v = d + i * line;
      const __m512 a = v[0], b = v[step], c = v[2 * step], e = v[3 * step];
      v[0] = _mm512_sub_ps(a, c);
      v[step] = _mm512_add_ps(b, c);
      v[2 * step] = _mm512_sub_ps(c, b);
      v[3 * step] = _mm512_sub_ps(b, e);
    }
  }
}

// Computes y = A^T m A, 2 x 2 pixels, of a product m.
COTAN_WINOGRAD_INLINE void TransformOutput(const __m512 (&m)[16], __m512 (&y)[4]) {
  __m512 rows[2][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[0][i] = _mm512_add_ps(_mm512_add_ps(m[i], m[4 + i]), m[8 + i]);
    rows[1][i] = _mm512_sub_ps(_mm512_sub_ps(m[4 + i], m[8 + i]), m[12 + i]);
  }
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) {
    y[2 * r] = _mm512_add_ps(_mm512_add_ps(rows[r][0], rows[r][1]), rows[r][2]);
    y[2 * r + 1] = _mm512_sub_ps(_mm512_sub_ps(rows[r][1], rows[r][2]), rows[r][3]);
  }
}

// Computes m = A y A^T of the gradient y of 2 x 2 output pixels.
COTAN_WINOGRAD_INLINE void TransformGradient(const __m512 (&y)[4], __m512 (&m)[16]) {
  __m512 rows[4][2];
#pragma GCC unroll 2
  for (int c = 0; c < 2; ++c) {
    rows[0][c] = y[c];
    rows[1][c] = _mm512_add_ps(y[c], y[2 + c]);
    rows[2][c] = _mm512_sub_ps(y[c], y[2 + c]);
    rows[3][c] = _mm512_sub_ps(_mm512_setzero_ps(), y[2 + c]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    m[4 * r] = rows[r][0];
    m[4 * r + 1] = _mm512_add_ps(rows[r][0], rows[r][1]);
    m[4 * r + 2] = _mm512_sub_ps(rows[r][0], rows[r][1]);
    m[4 * r + 3] = _mm512_sub_ps(_mm512_setzero_ps(), rows[r][1]);
  }
}

// Computes u = G g G^T of a kernel g, 3 x 3.
COTAN_WINOGRAD_INLINE void TransformWeight(const __m512 (&g)[9], __m512 (&u)[16]) {
  const __m512 half = _mm512_set1_ps(0.5F);
  __m512 rows[4][3];
#pragma GCC unroll 3
  for (int c = 0; c < 3; ++c) {
    const __m512 ends = _mm512_mul_ps(half, _mm512_add_ps(g[c], g[6 + c]));
    const __m512 middle = _mm512_mul_ps(half, g[3 + c]);
    rows[0][c] = g[c];
    rows[1][c] = _mm512_add_ps(ends, middle);
    rows[2][c] = _mm512_sub_ps(ends, middle);
    rows[3][c] = g[6 + c];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    const __m512 ends = _mm512_mul_ps(half, _mm512_add_ps(rows[r][0], rows[r][2]));
    const __m512 middle = _mm512_mul_ps(half, rows[r][1]);
    u[4 * r] = rows[r][0];
    u[4 * r + 1] = _mm512_add_ps(ends, middle);
    u[4 * r + 2] = _mm512_sub_ps(ends, middle);
    u[4 * r + 3] = rows[r][2];
  }
}

// Computes g = G^T u G, the gradient of a 3 x 3 kernel.
COTAN_WINOGRAD_INLINE void TransformWeightGradient(const __m512 (&u)[16], __m512 (&g)[9]) {
  const __m512 half = _mm512_set1_ps(0.5F);
  __m512 rows[3][4];
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(u[4 + c], u[8 + c]));
    rows[0][c] = _mm512_add_ps(u[c], sum);
    rows[1][c] = _mm512_mul_ps(half, _mm512_sub_ps(u[4 + c], u[8 + c]));
    rows[2][c] = _mm512_add_ps(sum, u[12 + c]);
  }
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r) {
    const __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(rows[r][1], rows[r][2]));
    g[3 * r] = _mm512_add_ps(rows[r][0], sum);
    g[3 * r + 1] = _mm512_mul_ps(half, _mm512_sub_ps(rows[r][1], rows[r][2]));
    g[3 * r + 2] = _mm512_add_ps(sum, rows[r][3]);
  }
}

// Loads the 3 x 3 kernels of `lanes` channels, `stride` floats apart, each 9 contiguous floats, the channels as
// lanes of g; in reverse order if `flips`.
COTAN_WINOGRAD_INLINE void LoadKernels(const float* from, int64_t stride, int64_t lanes, bool flips, __m512 (&g)[9]) {
  Float16Lanes r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    r[i] = i < lanes ? Float16Lanes(_mm512_maskz_loadu_ps(0x1ff, from + i * stride)) : Float16Lanes{};
  }
  Transpose16x16(r);
#pragma GCC unroll 9
  for (int k = 0; k < 9; ++k) g[k] = flips ? r[8 - k] : r[k];
}

// The inverse of LoadKernels(), in elements of E, float or BFloat16.
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
