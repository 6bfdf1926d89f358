// SPDX-License-Identifier: Apache-2.0

// Philox 4x32-10: the bits of base/philox.h.
#pragma once

#include "cotan/types.cuh"

namespace cotan {

// Returns block number `block` of the stream `seed`: four independent draws.
__device__ inline uint4 Philox(uint64 seed, uint64 block) {
  uint32 c0 = static_cast<uint32>(block), c1 = static_cast<uint32>(block >> 32), c2 = 0, c3 = 0;
  uint32 k0 = static_cast<uint32>(seed), k1 = static_cast<uint32>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64 p0 = static_cast<uint64>(0xD2511F53u) * c0;
    const uint64 p1 = static_cast<uint64>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32>(p1);
    c3 = static_cast<uint32>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Maps 32 random bits to [0, 1) with 24 bits of resolution, exactly.
__device__ inline float UniformFloat(uint32 bits) { return static_cast<float>(bits >> 8) * 5.9604644775390625e-8f; }

__device__ inline uint32 Lane(uint4 block, uint32 lane) {
  return lane == 0 ? block.x : lane == 1 ? block.y : lane == 2 ? block.z : block.w;
}

// A generator state in memory, at the first draw of an op.
struct RandomStream {
  uint64 seed;
  uint64 block;

  // `slice`: the op's first block. `stride`: between seed and offset in `state`, in elements.
  __device__ RandomStream(const int64* state, uint64 slice, int64 stride)
      : seed(static_cast<uint64>(state[0])), block(static_cast<uint64>(state[stride]) + slice) {}

  // Returns draw `position` of the op.
  __device__ float Uniform(uint64 position) const {
    return UniformFloat(Lane(Philox(seed, block + position / 4), static_cast<uint32>(position % 4)));
  }

  // Draws `position` and those after it; position % 4 == 0.
  template <int kCount>
  __device__ void UniformPack(float (&to)[kCount], uint64 position) const {
    static_assert(kCount % 4 == 0);
#pragma unroll
    for (int e = 0; e < kCount; e += 4) {
      const uint4 bits = Philox(seed, block + (position + e) / 4);
      to[e] = UniformFloat(bits.x);
      to[e + 1] = UniformFloat(bits.y);
      to[e + 2] = UniformFloat(bits.z);
      to[e + 3] = UniformFloat(bits.w);
    }
  }
};

}  // namespace cotan
