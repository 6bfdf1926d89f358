// SPDX-License-Identifier: Apache-2.0

// Copies of the operands of matrix products from one strided layout to another.
//
// A geometry is a type with
//   Element: unsigned integers of the size of an element, or uint4 for several elements
//   Index (int or long long), kCount: number of elements
//   Locate(i, &from, &to): adds the offsets of element i, in elements
#pragma once

#include "cotan/error.cuh"
#include "cotan/types.cuh"

namespace cotan::matmul {

// Copies all elements; from null: writes zeros.
template <typename S>
__device__ void Copy(const void* from, void* to) {
  using Index = typename S::Index;
  const Index step = static_cast<Index>(gridDim.x) * static_cast<Index>(blockDim.x);
  Index i = static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
  for (; i < S::kCount; i += step) {
    Index from_offset = 0, to_offset = 0;
    S::Locate(i, from_offset, to_offset);
    typename S::Element element = {};
    if (from != nullptr) element = static_cast<const typename S::Element*>(from)[from_offset];
    static_cast<typename S::Element*>(to)[to_offset] = element;
  }
}

// Copies in pieces of 16 bytes if the addresses allow it. `Wide` and `Narrow` are geometries of the same copy.
template <typename Wide, typename Narrow>
__device__ void CopyWide(const void* from, void* to) {
  if ((reinterpret_cast<uint64>(from) | reinterpret_cast<uint64>(to)) % 16 == 0) {
    Copy<Wide>(from, to);
  } else {
    Copy<Narrow>(from, to);
  }
}

}  // namespace cotan::matmul
