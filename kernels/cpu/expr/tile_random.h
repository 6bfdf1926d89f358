// SPDX-License-Identifier: Apache-2.0

// Random numbers of a tile: Philox as in base/philox.h, 16 blocks at once.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_RANDOM_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_RANDOM_H_

#include <cstdint>

#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {
namespace {

// Computes 16 blocks at once: lane k of block first + i is written to out[4 * i + k].
inline void Philox16(uint64_t seed, uint64_t first, float* out) {
  uint32_t c0[16], c1[16], c2[16], c3[16];
  for (uint32_t i = 0; i < 16; ++i) {
    c0[i] = static_cast<uint32_t>(first + i);
    c1[i] = static_cast<uint32_t>((first + i) >> 32);
    c2[i] = 0;
    c3[i] = 0;
  }
  auto k0 = static_cast<uint32_t>(seed);
  auto k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 16; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(p1);
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const auto uniform = [](uint32_t bits) { return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f; };
  for (int i = 0; i < 16; ++i) {
    out[4 * i] = uniform(c0[i]);
    out[4 * i + 1] = uniform(c1[i]);
    out[4 * i + 2] = uniform(c2[i]);
    out[4 * i + 3] = uniform(c3[i]);
  }
}

void RandomRun(float* out, uint64_t seed, uint64_t first_block, int64_t index, int64_t n) {
  float draws[64];
  uint64_t block = first_block + static_cast<uint64_t>(index / 4);
  int64_t skip = index % 4;
  while (n > 0) {
    if (skip == 0 && n >= 64) {
      Philox16(seed, block, out);
      out += 64;
      n -= 64;
    } else {
      Philox16(seed, block, draws);
      const int64_t count = n < 64 - skip ? n : 64 - skip;
      for (int64_t i = 0; i < count; ++i) out[i] = draws[skip + i];
      out += count;
      n -= count;
      skip = 0;
    }
    block += 16;
  }
}

void Random(float* out, const RandomRequest& request) {
  for (int64_t r = 0; r < request.rows; ++r, out += request.cols) {
    const int64_t start = request.index + r * request.row_stride;
    if (request.col_stride == 1) {
      RandomRun(out, request.seed, request.first_block, start, request.cols);
      continue;
    }
    for (int64_t c = 0; c < request.cols; ++c) {
      RandomRun(out + c, request.seed, request.first_block, start + c * request.col_stride, 1);
    }
  }
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_RANDOM_H_
