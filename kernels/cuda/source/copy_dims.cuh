// SPDX-License-Identifier: Apache-2.0

// Index spaces of one or more strided operands.
#pragma once

#include "cotan/types.cuh"

namespace cotan {

// A dimension of an index space: its size, and its stride in each operand.
template <int64 size, int64... strides>
struct Dim {
  static constexpr int64 kSize = size;
  template <typename Index>
  __device__ static void Add(Index i, Index* at) {
    int k = 0;
    ((at[k++] += i * static_cast<Index>(strides)), ...);
  }
};

// An index space; innermost dimension first.
template <typename... D>
struct Dims {
  static constexpr int64 kCount = (int64{1} * ... * D::kSize);

  // Adds to `at` the offset of element `i` in each operand, i < kCount. Index is an unsigned type that holds kCount and
  // all offsets.
  template <typename Index>
  __device__ static void Locate(Index i, Index* at) {
    LocateIn<Index, D...>(i, at);
  }

 private:
  template <typename Index>
  __device__ static void LocateIn(Index, Index*) {}
  template <typename Index, typename First, typename... Rest>
  __device__ static void LocateIn(Index i, Index* at) {
    if constexpr (sizeof...(Rest) == 0) {
      First::Add(i, at);
    } else {
      const Index next = i / static_cast<Index>(First::kSize);
      First::Add(i - next * static_cast<Index>(First::kSize), at);
      LocateIn<Index, Rest...>(next, at);
    }
  }
};

}  // namespace cotan
