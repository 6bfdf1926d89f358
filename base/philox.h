// SPDX-License-Identifier: Apache-2.0

// Philox 4x32-10, the counter-based generator of all random ops (Salmon et al., "Parallel Random Numbers:
// As Easy as 1, 2, 3", SC 2011).
//
// A random op owns a slice of the counter: element i of the op (row-major index) takes lane i % 4 of block
// `offset + slice + i / 4`, where `offset` is the generator state at the start of the program and `slice`
// is the op's static first block relative to it. The same element therefore draws the same bits on every
// device and for any number of threads, and a backward program can draw them again instead of saving them.
#ifndef COTAN_BASE_PHILOX_H_
#define COTAN_BASE_PHILOX_H_

#include <cstdint>

#ifdef __CUDACC__
#define COTAN_HOST_DEVICE __host__ __device__
#else
#define COTAN_HOST_DEVICE
#endif

namespace cotan {

// Four independent 32-bit draws.
struct PhiloxBlock {
  uint32_t lane[4];
};

// Returns block number `block` of the stream `seed`.
COTAN_HOST_DEVICE inline PhiloxBlock Philox(uint64_t seed, uint64_t block) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;
  uint32_t c0 = static_cast<uint32_t>(block);
  uint32_t c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = 0;
  uint32_t c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c0;
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

// Maps 32 random bits to [0, 1) with 24 bits of resolution, exactly.
COTAN_HOST_DEVICE inline float UniformFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 5.9604644775390625e-8f;  // 2^-24
}

// Returns the number of blocks that an op of `count` elements owns.
COTAN_HOST_DEVICE inline uint64_t PhiloxBlocks(uint64_t count) { return (count + 3) / 4; }

}  // namespace cotan

#endif  // COTAN_BASE_PHILOX_H_
