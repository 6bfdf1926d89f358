// SPDX-License-Identifier: Apache-2.0

// Elements of operands of expressions: single ones and packs of several that are consecutive in memory.
//
// All accesses to elements of one size have the same type, because an output may share the memory of an input of
// another dtype.
#pragma once

#include "cotan/error.cuh"
#include "cotan/math.cuh"

namespace cotan {

// The type in which a kernel holds a value, and the integer that has its bits in memory.
template <typename T>
struct ElementOf {
  using Value = T;
};
template <>
struct ElementOf<float16> {
  using Value = float;
};
template <>
struct ElementOf<bfloat16> {
  using Value = float;
};
template <>
struct ElementOf<float8_e4m3fn> {
  using Value = float;
};
template <>
struct ElementOf<float8_e5m2> {
  using Value = float;
};
template <int kBytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Type = uint8;
};
template <>
struct BitsOf<2> {
  using Type = uint16;
};
template <>
struct BitsOf<4> {
  using Type = uint32;
};
template <>
struct BitsOf<8> {
  using Type = uint64;
};
template <typename T>
using ValueOf = typename ElementOf<T>::Value;
template <typename T>
using Bits = typename BitsOf<sizeof(T)>::Type;

// Return the value of an element's bits, and the bits of a value.
template <typename T>
__device__ inline ValueOf<T> ValueOfBits(Bits<T> bits) {
  return __builtin_bit_cast(T, bits);
}
template <>
__device__ inline bool ValueOfBits<bool>(uint8 bits) {
  return bits != 0;
}
template <>
__device__ inline float ValueOfBits<float16>(uint16 bits) {
  return ToFloat(float16{bits});
}
template <>
__device__ inline float ValueOfBits<bfloat16>(uint16 bits) {
  return ToFloat(bfloat16{bits});
}
template <>
__device__ inline float ValueOfBits<float8_e4m3fn>(uint8 bits) {
  return ToFloat(float8_e4m3fn{bits});
}
template <>
__device__ inline float ValueOfBits<float8_e5m2>(uint8 bits) {
  return ToFloat(float8_e5m2{bits});
}
template <typename T>
__device__ inline Bits<T> BitsOfValue(ValueOf<T> value) {
  return __builtin_bit_cast(Bits<T>, value);
}
template <>
__device__ inline uint8 BitsOfValue<bool>(bool value) {
  return value ? 1 : 0;
}
template <>
__device__ inline uint16 BitsOfValue<float16>(float value) {
  return ToFloat16(value).bits;
}
template <>
__device__ inline uint16 BitsOfValue<bfloat16>(float value) {
  return ToBfloat16(value).bits;
}
template <>
__device__ inline uint8 BitsOfValue<float8_e4m3fn>(float value) {
  return ToFloat8E4m3fn(value).bits;
}
template <>
__device__ inline uint8 BitsOfValue<float8_e5m2>(float value) {
  return ToFloat8E5m2(value).bits;
}

template <typename T>
__device__ inline ValueOf<T> Load(const T* from) {
  return ValueOfBits<T>(*reinterpret_cast<const Bits<T>*>(from));
}
template <typename T>
__device__ inline void Store(T* to, ValueOf<T> value) {
  *reinterpret_cast<Bits<T>*>(to) = BitsOfValue<T>(value);
}

// As Load() and Store(), of an element that one block loads and another one stores afterwards in the same launch: the
// first one's total of a reduction depends on the value, and the second one waits for that total.
template <typename T>
__device__ inline ValueOf<T> LoadBefore(const T* from) {
  return ValueOfBits<T>(*reinterpret_cast<const volatile Bits<T>*>(from));
}
template <typename T>
__device__ inline void StoreAfter(T* to, ValueOf<T> value) {
  *reinterpret_cast<volatile Bits<T>*>(to) = BitsOfValue<T>(value);
}

// The type of a vector access.
template <int kBytes, int kElement>
struct VectorOf;
template <int kElement>
struct VectorOf<16, kElement> {
  using Type = uint4;
};
template <>
struct VectorOf<16, 8> {
  using Type = ulonglong2;
};
template <int kElement>
struct VectorOf<8, kElement> {
  using Type = uint2;
};
template <int kElement>
struct VectorOf<4, kElement> {
  using Type = uint32;
};
template <int kElement>
struct VectorOf<2, kElement> {
  using Type = uint16;
};

// Returns true if packs of `kBytes` bytes at multiples of `kBytes` from `pointer` are aligned.
template <int kBytes>
__device__ inline bool IsAligned(const void* pointer) {
  return reinterpret_cast<uint64>(pointer) % kBytes == 0;
}

// Returns the number of elements of a pack at `position` that lie before `end`.
template <int kCount, typename Index>
__device__ inline int CountBefore(Index end, Index position) {
  if (position >= end) return 0;
  return end - position < kCount ? static_cast<int>(end - position) : kCount;
}

// The accesses of a pack: vectors of at most 16 bytes.
template <typename T, int kCount>
struct PackVectors {
  static constexpr int kElements = kCount * sizeof(T) > 16 ? 16 / sizeof(T) : kCount;
  static constexpr int kVectors = kCount / kElements;
  using Vector = typename VectorOf<kElements* static_cast<int>(sizeof(T)), static_cast<int>(sizeof(T))>::Type;
  struct Content {
    Bits<T> at[kElements];
  };
};

// Loads `count` elements, in vectors if `aligned` and the pack is whole. The other elements become 0.
template <int kCount, typename T>
__device__ inline void LoadPack(ValueOf<T> (&to)[kCount], const T* from, bool aligned, int count) {
  using Pack = PackVectors<T, kCount>;
  if (aligned && count == kCount) {
#pragma unroll
    for (int v = 0; v < Pack::kVectors; ++v) {
      const auto content =
          __builtin_bit_cast(typename Pack::Content, reinterpret_cast<const typename Pack::Vector*>(from)[v]);
#pragma unroll
      for (int e = 0; e < Pack::kElements; ++e) to[v * Pack::kElements + e] = ValueOfBits<T>(content.at[e]);
    }
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = e < count ? Load(from + e) : ValueOf<T>(0);
  }
}

// Stores `count` elements, in vectors if `aligned` and the pack is whole.
template <int kCount, typename T>
__device__ inline void StorePack(T* to, const ValueOf<T> (&from)[kCount], bool aligned, int count) {
  using Pack = PackVectors<T, kCount>;
  if (aligned && count == kCount) {
#pragma unroll
    for (int v = 0; v < Pack::kVectors; ++v) {
      typename Pack::Content content;
#pragma unroll
      for (int e = 0; e < Pack::kElements; ++e) content.at[e] = BitsOfValue<T>(from[v * Pack::kElements + e]);
      reinterpret_cast<typename Pack::Vector*>(to)[v] = __builtin_bit_cast(typename Pack::Vector, content);
    }
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      if (e < count) Store(to + e, from[e]);
    }
  }
}

}  // namespace cotan
