// SPDX-License-Identifier: Apache-2.0

// Loads and stores of up to 16 elements of f32 or bf16 as lanes of f32, in AVX-512.
#ifndef COTAN_KERNELS_CPU_SIMD_AVX512_LANES_H_
#define COTAN_KERNELS_CPU_SIMD_AVX512_LANES_H_

#include <cstdint>

namespace cotan::cpu {

// An element of bf16 in memory.
struct BFloat16 {
  uint16_t bits;
};

}  // namespace cotan::cpu

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

// The instruction sets of these functions, which their callers are compiled for, too.
#define COTAN_LANES_INSTRUCTIONS "avx512f,avx512bw,avx512vl"
#define COTAN_LANES_TARGET __attribute__((target(COTAN_LANES_INSTRUCTIONS)))
#define COTAN_LANES_INLINE [[gnu::always_inline, gnu::target(COTAN_LANES_INSTRUCTIONS)]] inline

namespace cotan::cpu {

// Returns true if the processor has these instructions.
inline bool HasAvx512Lanes() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

// Loads the lanes of `mask`; the others are 0.
COTAN_LANES_INLINE __m512 LoadLanes(const float* from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }
COTAN_LANES_INLINE __m512 LoadLanes(const BFloat16* from, __mmask16 mask) {
  const __m512i bits = _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, from));
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(mask, bits, 16));
}

// Stores the lanes of `mask`, rounded to nearest, ties to even. NaN stays NaN.
COTAN_LANES_INLINE void StoreLanes(__m512 values, __mmask16 mask, float* to) {
  _mm512_mask_storeu_ps(to, mask, values);
}
COTAN_LANES_INLINE void StoreLanes(__m512 values, __mmask16 mask, BFloat16* to) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i odd = _mm512_and_epi32(_mm512_maskz_srli_epi32(0xffff, bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_epi32(bits, _mm512_set1_epi32(0x400000));
  const __m512i result = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q), quiet);
  _mm512_mask_cvtepi32_storeu_epi16(to, mask, _mm512_maskz_srli_epi32(0xffff, result, 16));
}

}  // namespace cotan::cpu

#endif

#endif  // COTAN_KERNELS_CPU_SIMD_AVX512_LANES_H_
