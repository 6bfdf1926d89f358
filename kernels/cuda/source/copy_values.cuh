// SPDX-License-Identifier: Apache-2.0

// Loads, stores and conversions of elements.
#pragma once

#include "cotan/types.cuh"

namespace cotan {

// Elements that are loaded and stored together, in accesses of up to 16 bytes.
template <typename T, int kSize>
struct alignas(kSize * sizeof(T) < 16 ? kSize * sizeof(T) : 16) Pack {
  T values[kSize];
};

// Returns whether accesses of kBytes, or of 16 if that is less, are possible at `pointer`.
template <int kBytes>
__device__ inline bool IsAligned(const void* pointer) {
  return reinterpret_cast<uint64>(pointer) % (kBytes < 16 ? kBytes : 16) == 0;
}

// Loads kSize consecutive elements, as a Pack if `aligned`.
template <int kSize, typename T>
__device__ inline void LoadElements(const T* from, bool aligned, T* to) {
  if (kSize > 1 && aligned) {
    const Pack<T, kSize> pack = *reinterpret_cast<const Pack<T, kSize>*>(from);
#pragma unroll
    for (int i = 0; i < kSize; ++i) to[i] = pack.values[i];
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) to[i] = from[i];
  }
}

template <int kSize, typename T>
__device__ inline void StoreElements(const T* from, bool aligned, T* to) {
  if (kSize > 1 && aligned) {
    Pack<T, kSize> pack;
#pragma unroll
    for (int i = 0; i < kSize; ++i) pack.values[i] = from[i];
    *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) to[i] = from[i];
  }
}

// Conversions between elements and the values with which kernels compute: f32 for halves, otherwise the same type.
__device__ inline float Widen(float16 x) { return ToFloat(x); }
__device__ inline float Widen(bfloat16 x) { return ToFloat(x); }
template <typename T>
__device__ inline T Widen(T x) {
  return x;
}

__device__ inline void Narrow(float x, float16& to) { to = ToFloat16(x); }
__device__ inline void Narrow(float x, bfloat16& to) { to = ToBfloat16(x); }
template <typename T>
__device__ inline void Narrow(T x, T& to) {
  to = x;
}

}  // namespace cotan
