// SPDX-License-Identifier: Apache-2.0

// Random numbers of a tile: Philox as in base/philox.h, several blocks at once.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_RANDOM_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_RANDOM_H_

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/expr/tile_lanes.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {
namespace {

// One word of as many blocks as there are lanes, each in the low half of a lane. The high halves are arbitrary.
using PhiloxWords = VectorOf<uint64_t>::Type;
constexpr int64_t kPhiloxLanes = VectorOf<uint64_t>::kLanes;
// Vectors of blocks that are computed together: a single one would wait for its own products.
constexpr int kPhiloxVectors = 2;
constexpr int64_t kPhiloxBlocks = kPhiloxVectors * kPhiloxLanes;
constexpr int64_t kPhiloxDraws = 4 * kPhiloxBlocks;

// Returns the products of the low halves of the lanes with `factor`. Compilers do not find the instruction in a
// product of 64-bit lanes.
[[gnu::always_inline]] inline PhiloxWords MultiplyWords(PhiloxWords words, uint32_t factor) {
#if defined(__AVX512F__)
  // The form without a mask makes GCC warn about its own header.
  return (PhiloxWords)_mm512_maskz_mul_epu32(0xff, (__m512i)words, _mm512_set1_epi64(factor));
#elif defined(__AVX2__)
  return (PhiloxWords)_mm256_mul_epu32((__m256i)words, _mm256_set1_epi64x(factor));
#elif defined(__SSE2__)
  return (PhiloxWords)_mm_mul_epu32((__m128i)words, _mm_set1_epi64x(factor));
#elif defined(__ARM_NEON)
  return (PhiloxWords)vmull_u32(vmovn_u64((uint64x2_t)words), vdup_n_u32(factor));
#else
  return (words & uint64_t{0xffffffff}) * uint64_t{factor};
#endif
}

// Converts 32-bit draws, two in each lane, to uniform numbers.
[[gnu::always_inline]] inline void StoreUniform(float* out, PhiloxWords draws) {
  typedef int32_t Integers __attribute__((vector_size(kVectorBytes)));
  typedef uint32_t Bits __attribute__((vector_size(kVectorBytes)));
  const auto integers = (Integers)((Bits)draws >> 8);
  StoreVector<float>(out, __builtin_convertvector(integers, VectorOf<float>::Type) * 0x1p-24f);
}

// Writes word k of the block in lane i to out[4 * i + k], as uniform numbers.
template <size_t... kLane>
[[gnu::always_inline]] inline void StoreBlocks(float* out, const PhiloxWords (&words)[4],
                                               std::index_sequence<kLane...>) {
  constexpr uint64_t kLow = 0xffffffff;
  const PhiloxWords first = (words[0] & kLow) | (words[1] << 32);
  const PhiloxWords second = (words[2] & kLow) | (words[3] << 32);
  constexpr int kLanes = static_cast<int>(kPhiloxLanes);
  StoreUniform(out, __builtin_shufflevector(first, second,
                                            (static_cast<int>(kLane) / 2 + static_cast<int>(kLane) % 2 * kLanes)...));
  StoreUniform(out + 2 * kLanes, __builtin_shufflevector(first, second,
                                                         (kLanes / 2 + static_cast<int>(kLane) / 2 +
                                                          static_cast<int>(kLane) % 2 * kLanes)...));
}

// Computes kPhiloxBlocks blocks: lane k of block i of `blocks` is written to out[4 * i + k]. Not inlined, because the
// unrolled rounds are long.
[[gnu::noinline]] void PhiloxOf(uint64_t seed, const PhiloxWords (&blocks)[kPhiloxVectors], float* out) {
  PhiloxWords words[kPhiloxVectors][4];
  for (int v = 0; v < kPhiloxVectors; ++v) {
    words[v][0] = blocks[v];
    words[v][1] = blocks[v] >> 32;
    words[v][2] = words[v][3] = PhiloxWords{};
  }
  auto k0 = static_cast<uint32_t>(seed);
  auto k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    for (int v = 0; v < kPhiloxVectors; ++v) {
      PhiloxWords(&w)[4] = words[v];
      const PhiloxWords p0 = MultiplyWords(w[0], 0xD2511F53u);
      const PhiloxWords p1 = MultiplyWords(w[2], 0xCD9E8D57u);
      w[0] = (p1 >> 32) ^ w[1] ^ uint64_t { k0 };
      w[2] = (p0 >> 32) ^ w[3] ^ uint64_t { k1 };
      w[1] = p1;
      w[3] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int v = 0; v < kPhiloxVectors; ++v) {
    StoreBlocks(out + 4 * v * kPhiloxLanes, words[v], std::make_index_sequence<static_cast<size_t>(kPhiloxLanes)>());
  }
}

// Computes kPhiloxBlocks blocks from block `first` on.
inline void PhiloxRun(uint64_t seed, uint64_t first, float* out) {
  PhiloxWords blocks[kPhiloxVectors];
  for (int v = 0; v < kPhiloxVectors; ++v) {
    blocks[v] = LaneNumbers<uint64_t>() + (first + static_cast<uint64_t>(v * kPhiloxLanes));
  }
  PhiloxOf(seed, blocks, out);
}

// Writes the draws of elements index, index + 1, ..., index + n - 1.
void RandomRun(float* out, uint64_t seed, uint64_t first_block, int64_t index, int64_t n) {
  float draws[kPhiloxDraws];
  uint64_t block = first_block + static_cast<uint64_t>(index / 4);
  int64_t skip = index % 4;
  while (n > 0) {
    const bool whole = skip == 0 && n >= kPhiloxDraws;
    PhiloxRun(seed, block, whole ? out : draws);
    const int64_t count = n < kPhiloxDraws - skip ? n : kPhiloxDraws - skip;
    if (!whole) {
      for (int64_t i = 0; i < count; ++i) out[i] = draws[skip + i];
    }
    out += count;
    n -= count;
    skip = 0;
    block += static_cast<uint64_t>(kPhiloxBlocks);
  }
}

// As RandomRun for each column of the tile: elements follow each other from row to row, as the channels-last layout of
// a tensor [N, C, H, W] has them.
void RandomColumns(float* out, const RandomRequest& request) {
  float draws[kPhiloxDraws];
  for (int64_t c = 0; c < request.cols; ++c) {
    const int64_t start = request.index + c * request.col_stride;
    for (int64_t r = 0; r < request.rows; r += kPhiloxDraws) {
      const int64_t count = request.rows - r < kPhiloxDraws ? request.rows - r : kPhiloxDraws;
      RandomRun(draws, request.seed, request.first_block, start + r, count);
      for (int64_t i = 0; i < count; ++i) out[(r + i) * request.cols + c] = draws[i];
    }
  }
}

// Any strides: the block of each element is computed for that element alone.
void RandomElements(float* out, const RandomRequest& request) {
  const int64_t count = request.rows * request.cols;
  int64_t row = 0, col = 0;
  for (int64_t first = 0; first < count; first += kPhiloxBlocks) {
    uint64_t numbers[kPhiloxBlocks];
    int64_t lanes[kPhiloxBlocks];
    for (int64_t i = 0; i < kPhiloxBlocks; ++i) {
      const int64_t index = request.index + row * request.row_stride + col * request.col_stride;
      numbers[i] = request.first_block + static_cast<uint64_t>(index / 4);
      lanes[i] = index % 4;
      if (++col == request.cols) {
        col = 0;
        ++row;
      }
    }
    PhiloxWords blocks[kPhiloxVectors];
    for (int v = 0; v < kPhiloxVectors; ++v) blocks[v] = LoadVector(numbers + v * kPhiloxLanes);
    float draws[kPhiloxDraws];
    PhiloxOf(request.seed, blocks, draws);
    const int64_t group = count - first < kPhiloxBlocks ? count - first : kPhiloxBlocks;
    for (int64_t i = 0; i < group; ++i) out[first + i] = draws[4 * i + lanes[i]];
  }
}

void Random(float* out, const RandomRequest& request) {
  // In shorter runs, the blocks that RandomRun computes in vain cost more than one for each element.
  constexpr int64_t kShortRun = 8;
  if (request.col_stride == 1 && request.cols >= kShortRun) {
    for (int64_t r = 0; r < request.rows; ++r) {
      RandomRun(out + r * request.cols, request.seed, request.first_block, request.index + r * request.row_stride,
                request.cols);
    }
  } else if (request.row_stride == 1 && request.rows >= kShortRun) {
    RandomColumns(out, request);
  } else {
    RandomElements(out, request);
  }
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_RANDOM_H_
