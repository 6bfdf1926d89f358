// SPDX-License-Identifier: Apache-2.0

// The transforms of Winograd's F(2x2, 3x3) and F(4x4, 3x3) with AVX-512, of 16 channels at once. A transformed tile has
// 16 or 36 elements per channel, one for each of as many products. Matrices are named as by Lavin and Gray
// (winograd.h).
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_SIDES_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_SIDES_H_

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "kernels/cpu/simd/avx512_lanes.h"

#define COTAN_WINOGRAD_TARGET COTAN_LANES_TARGET
#define COTAN_WINOGRAD_INLINE COTAN_LANES_INLINE

namespace cotan::cpu::winograd {

// F(2, 3), the transforms of one side of a tile, for the points 0, 1, -1 and infinity.
struct Side2 {
  static constexpr int kOutputs = 2;   // pixels of the output
  static constexpr int kElements = 4;  // of the transform, and pixels of the input

  // t = B^T d.
  struct Input {
    static constexpr int kFrom = 4;
    static constexpr int kTo = 4;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&d)[4], __m512 (&t)[4]) {
      t[0] = _mm512_sub_ps(d[0], d[2]);
      t[1] = _mm512_add_ps(d[1], d[2]);
      t[2] = _mm512_sub_ps(d[2], d[1]);
      t[3] = _mm512_sub_ps(d[1], d[3]);
    }
  };

  // y = A^T m.
  struct Output {
    static constexpr int kFrom = 4;
    static constexpr int kTo = 2;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&m)[4], __m512 (&y)[2]) {
      y[0] = _mm512_add_ps(_mm512_add_ps(m[0], m[1]), m[2]);
      y[1] = _mm512_sub_ps(_mm512_sub_ps(m[1], m[2]), m[3]);
    }
  };

  // m = A y, of gradients of the output.
  struct OutputGradient {
    static constexpr int kFrom = 2;
    static constexpr int kTo = 4;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&y)[2], __m512 (&m)[4]) {
      m[0] = y[0];
      m[1] = _mm512_add_ps(y[0], y[1]);
      m[2] = _mm512_sub_ps(y[0], y[1]);
      m[3] = _mm512_sub_ps(_mm512_setzero_ps(), y[1]);
    }
  };

  // u = G g.
  struct Weight {
    static constexpr int kFrom = 3;
    static constexpr int kTo = 4;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&g)[3], __m512 (&u)[4]) {
      const __m512 half = _mm512_set1_ps(0.5F);
      const __m512 even = _mm512_mul_ps(half, _mm512_add_ps(g[0], g[2]));
      const __m512 odd = _mm512_mul_ps(half, g[1]);
      u[0] = g[0];
      u[1] = _mm512_add_ps(even, odd);
      u[2] = _mm512_sub_ps(even, odd);
      u[3] = g[2];
    }
  };

  // g = G^T u, the gradient of a kernel.
  struct WeightGradient {
    static constexpr int kFrom = 4;
    static constexpr int kTo = 3;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&u)[4], __m512 (&g)[3]) {
      const __m512 half = _mm512_set1_ps(0.5F);
      const __m512 even = _mm512_mul_ps(half, _mm512_add_ps(u[1], u[2]));
      g[0] = _mm512_add_ps(u[0], even);
      g[1] = _mm512_mul_ps(half, _mm512_sub_ps(u[1], u[2]));
      g[2] = _mm512_add_ps(even, u[3]);
    }
  };
};

// F(4, 3), with the points 2 and -2 in addition.
struct Side4 {
  static constexpr int kOutputs = 4;
  static constexpr int kElements = 6;

  struct Input {
    static constexpr int kFrom = 6;
    static constexpr int kTo = 6;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&d)[6], __m512 (&t)[6]) {
      const __m512 two = _mm512_set1_ps(2.0F);
      const __m512 four = _mm512_set1_ps(4.0F);
      const __m512 five = _mm512_set1_ps(5.0F);
      const __m512 even = _mm512_fnmadd_ps(four, d[2], d[4]);
      const __m512 odd = _mm512_fnmadd_ps(four, d[1], d[3]);
      const __m512 even2 = _mm512_sub_ps(d[4], d[2]);
      const __m512 odd2 = _mm512_sub_ps(d[3], d[1]);
      t[0] = _mm512_fmadd_ps(four, d[0], _mm512_fnmadd_ps(five, d[2], d[4]));
      t[1] = _mm512_add_ps(even, odd);
      t[2] = _mm512_sub_ps(even, odd);
      t[3] = _mm512_fmadd_ps(two, odd2, even2);
      t[4] = _mm512_fnmadd_ps(two, odd2, even2);
      t[5] = _mm512_fmadd_ps(four, d[1], _mm512_fnmadd_ps(five, d[3], d[5]));
    }
  };

  struct Output {
    static constexpr int kFrom = 6;
    static constexpr int kTo = 4;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&m)[6], __m512 (&y)[4]) {
      const __m512 even = _mm512_add_ps(m[1], m[2]);
      const __m512 odd = _mm512_sub_ps(m[1], m[2]);
      const __m512 even2 = _mm512_add_ps(m[3], m[4]);
      const __m512 odd2 = _mm512_sub_ps(m[3], m[4]);
      y[0] = _mm512_add_ps(m[0], _mm512_add_ps(even, even2));
      y[1] = _mm512_fmadd_ps(_mm512_set1_ps(2.0F), odd2, odd);
      y[2] = _mm512_fmadd_ps(_mm512_set1_ps(4.0F), even2, even);
      y[3] = _mm512_add_ps(m[5], _mm512_fmadd_ps(_mm512_set1_ps(8.0F), odd2, odd));
    }
  };

  struct OutputGradient {
    static constexpr int kFrom = 4;
    static constexpr int kTo = 6;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&y)[4], __m512 (&m)[6]) {
      const __m512 two = _mm512_set1_ps(2.0F);
      const __m512 four = _mm512_set1_ps(4.0F);
      const __m512 even = _mm512_add_ps(y[0], y[2]);
      const __m512 odd = _mm512_add_ps(y[1], y[3]);
      const __m512 even2 = _mm512_fmadd_ps(four, y[2], y[0]);
      const __m512 half_odd2 = _mm512_fmadd_ps(four, y[3], y[1]);
      m[0] = y[0];
      m[1] = _mm512_add_ps(even, odd);
      m[2] = _mm512_sub_ps(even, odd);
      m[3] = _mm512_fmadd_ps(two, half_odd2, even2);
      m[4] = _mm512_fnmadd_ps(two, half_odd2, even2);
      m[5] = y[3];
    }
  };

  struct Weight {
    static constexpr int kFrom = 3;
    static constexpr int kTo = 6;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&g)[3], __m512 (&u)[6]) {
      const __m512 minus_sixth = _mm512_set1_ps(-1.0F / 6);
      const __m512 even = _mm512_mul_ps(minus_sixth, _mm512_add_ps(g[0], g[2]));
      const __m512 odd = _mm512_mul_ps(minus_sixth, g[1]);
      const __m512 even2 = _mm512_mul_ps(_mm512_set1_ps(1.0F / 24), _mm512_fmadd_ps(_mm512_set1_ps(4.0F), g[2], g[0]));
      const __m512 odd2 = _mm512_mul_ps(_mm512_set1_ps(1.0F / 12), g[1]);
      u[0] = _mm512_mul_ps(_mm512_set1_ps(0.25F), g[0]);
      u[1] = _mm512_add_ps(even, odd);
      u[2] = _mm512_sub_ps(even, odd);
      u[3] = _mm512_add_ps(even2, odd2);
      u[4] = _mm512_sub_ps(even2, odd2);
      u[5] = g[2];
    }
  };

  struct WeightGradient {
    static constexpr int kFrom = 6;
    static constexpr int kTo = 3;
    COTAN_WINOGRAD_INLINE static void Apply(const __m512 (&u)[6], __m512 (&g)[3]) {
      const __m512 quarter = _mm512_set1_ps(0.25F);
      const __m512 sixth = _mm512_set1_ps(1.0F / 6);
      const __m512 even = _mm512_add_ps(u[1], u[2]);
      const __m512 odd = _mm512_sub_ps(u[2], u[1]);
      const __m512 even2 = _mm512_add_ps(u[3], u[4]);
      const __m512 odd2 = _mm512_sub_ps(u[3], u[4]);
      g[0] = _mm512_fmadd_ps(quarter, u[0], _mm512_mul_ps(sixth, _mm512_fmsub_ps(quarter, even2, even)));
      g[1] = _mm512_mul_ps(sixth, _mm512_fmadd_ps(_mm512_set1_ps(0.5F), odd2, odd));
      g[2] = _mm512_fmadd_ps(sixth, _mm512_sub_ps(even2, even), u[5]);
    }
  };
};

// Applies a transform to each column of `from`, then to each row of the result. Both are squares in row-major order.
template <typename Transform>
COTAN_WINOGRAD_INLINE void TransformSquare(const __m512 (&from)[Transform::kFrom * Transform::kFrom],
                                           __m512 (&to)[Transform::kTo * Transform::kTo]) {
  constexpr int kFrom = Transform::kFrom;
  constexpr int kTo = Transform::kTo;
  __m512 rows[kTo][kFrom];
#pragma GCC unroll 6
  for (int c = 0; c < kFrom; ++c) {
    __m512 column[kFrom];
    __m512 transformed[kTo];
#pragma GCC unroll 6
    for (int r = 0; r < kFrom; ++r) column[r] = from[r * kFrom + c];
    Transform::Apply(column, transformed);
#pragma GCC unroll 6
    for (int r = 0; r < kTo; ++r) rows[r][c] = transformed[r];
  }
#pragma GCC unroll 6
  for (int r = 0; r < kTo; ++r) {
    __m512 transformed[kTo];
    Transform::Apply(rows[r], transformed);
#pragma GCC unroll 6
    for (int c = 0; c < kTo; ++c) to[r * kTo + c] = transformed[c];
  }
}

}  // namespace cotan::cpu::winograd

#endif

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_SIDES_H_
