// SPDX-License-Identifier: Apache-2.0

// Transposes blocks of 16 x 16 floats in AVX-512 registers.
#ifndef COTAN_KERNELS_CPU_SIMD_TRANSPOSE16_H_
#define COTAN_KERNELS_CPU_SIMD_TRANSPOSE16_H_

#if defined(__x86_64__) && defined(__GNUC__)

namespace cotan::cpu {

typedef float Float16Lanes __attribute__((vector_size(64)));

// Replaces the 16 rows by the 16 columns of the block.
[[gnu::always_inline, gnu::target("avx512f")]] inline void Transpose16x16(Float16Lanes (&r)[16]) {
  Float16Lanes s[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
  // r[4 g + j]: of rows 4 g ... 4 g + 3, columns j, j + 4, j + 8, j + 12.
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    const int a = i / 4 * 4 + i % 4 / 2;
    r[i] = __builtin_shufflevector(s[a], s[a + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    r[i + 1] = __builtin_shufflevector(s[a], s[a + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }
  // Groups of four columns, first of 8 rows each, then of 16.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 2
    for (int half = 0; half < 16; half += 8) {
      const Float16Lanes x = r[half + j];
      const Float16Lanes y = r[half + 4 + j];
      s[half + j] = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
      s[half + 4 + j] = __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
#pragma GCC unroll 2
    for (int odd = 0; odd < 8; odd += 4) {
      const Float16Lanes x = s[odd + j];
      const Float16Lanes y = s[odd + 8 + j];
      r[odd + j] = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
      r[odd + 8 + j] = __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
  }
}

}  // namespace cotan::cpu

#endif

#endif  // COTAN_KERNELS_CPU_SIMD_TRANSPOSE16_H_
