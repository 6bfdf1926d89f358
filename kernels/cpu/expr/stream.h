// SPDX-License-Identifier: Apache-2.0

// Stores past the caches (non-temporal), where the processor has them.
#ifndef COTAN_KERNELS_CPU_EXPR_STREAM_H_
#define COTAN_KERNELS_CPU_EXPR_STREAM_H_

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstdint>
#include <cstring>

namespace cotan::cpu::expr {

inline constexpr int64_t kLineBytes = 64;

#ifdef __SSE2__

inline constexpr bool kCanStream = true;

// Copies `bytes` bytes to `to`, which begins a line; `from` is aligned to 16 bytes.
inline void StreamBytes(char* to, const char* from, int64_t bytes) {
  int64_t i = 0;
  for (; i + kLineBytes <= bytes; i += kLineBytes) {
    for (int64_t k = 0; k < kLineBytes; k += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + k),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + k)));
    }
  }
  std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

// Makes what this thread has streamed visible to other threads before its later stores.
inline void FinishStreams() { _mm_sfence(); }

#else

inline constexpr bool kCanStream = false;
inline void StreamBytes(char* to, const char* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
inline void FinishStreams() {}

#endif

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_STREAM_H_
