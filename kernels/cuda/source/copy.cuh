// SPDX-License-Identifier: Apache-2.0

// Copies between strided operands. A job is a type with
//   Element: the unsigned integer, or vector of 16 bytes, that is copied
//   kBlocks: the number of blocks of kThreads threads that share it
//   Run(block, from, to): does the part of one block
// Source and target of a job may be the same memory if their strides are equal.
#pragma once

#include "cotan/copy_dims.cuh"
#include "cotan/copy_values.cuh"
#include "cotan/error.cuh"

namespace cotan::copy {

inline constexpr int kThreads = 256;

// Copies in the order of the dimensions `D`, a Dims of (source, target), kPerThread elements per thread.
template <typename E, typename Index, int kPerThread, typename D>
struct Direct {
  using Element = E;
  static constexpr int64 kPerBlock = kThreads * kPerThread;
  static constexpr int64 kBlocks = (D::kCount + kPerBlock - 1) / kPerBlock;

  __device__ static void Run(uint32 block, const void* from, void* to) {
    const Index first = static_cast<Index>(block) * static_cast<Index>(kPerBlock) + threadIdx.x;
    E values[kPerThread];
    Index target[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const Index i = first + static_cast<Index>(k * kThreads);
      if (i >= static_cast<Index>(D::kCount)) continue;
      Index at[2] = {};
      D::Locate(i, at);
      values[k] = static_cast<const E*>(from)[at[0]];
      target[k] = at[1];
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const Index i = first + static_cast<Index>(k * kThreads);
      if (i < static_cast<Index>(D::kCount)) static_cast<E*>(to)[target[k]] = values[k];
    }
  }
};

// Copies kCount consecutive elements in vectors of 16 bytes; the rest by block 0.
template <typename E, typename Index, int kPerThread, int64 kCount>
struct Dense {
  using Element = uint4;
  static constexpr int64 kVector = 16 / sizeof(E);
  static constexpr int64 kTail = kCount % kVector;
  using Vectors = Direct<uint4, Index, kPerThread, Dims<Dim<kCount / kVector, 1, 1>>>;
  static constexpr int64 kBlocks = Vectors::kBlocks;

  __device__ static void Run(uint32 block, const void* from, void* to) {
    Vectors::Run(block, from, to);
    if (block == 0 && threadIdx.x < kTail) {
      const Index i = static_cast<Index>(kCount - kTail) + threadIdx.x;
      static_cast<E*>(to)[i] = static_cast<const E*>(from)[i];
    }
  }
};

// Copies matrices through tiles in shared memory. Neighbouring rows are nearest to each other in the source,
// neighbouring columns in the target. `D` are the other dimensions.
template <typename E, typename Index, int64 kRows, int64 kColumns, int kTileRows, int kTileColumns, int64 kFromRow,
          int64 kFromColumn, int64 kToRow, int64 kToColumn, typename D>
struct Tiled {
  using Element = E;
  static constexpr int64 kRowTiles = (kRows + kTileRows - 1) / kTileRows;
  static constexpr int64 kColumnTiles = (kColumns + kTileColumns - 1) / kTileColumns;
  static constexpr int64 kBlocks = kRowTiles * kColumnTiles * D::kCount;
  static constexpr int kTile = kTileRows * kTileColumns;

  __device__ static void Run(uint32 block, const void* from, void* to) {
    // An odd stride: neighbouring columns lie in different banks.
    __shared__ E tile[kTileColumns][kTileRows | 1];
    Index rest = block;
    const Index column0 = rest % static_cast<Index>(kColumnTiles) * kTileColumns;
    rest /= static_cast<Index>(kColumnTiles);
    const Index row0 = rest % static_cast<Index>(kRowTiles) * kTileRows;
    Index at[2] = {};
    D::Locate(rest / static_cast<Index>(kRowTiles), at);
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
      const Index row = row0 + static_cast<Index>(i % kTileRows);
      const Index column = column0 + static_cast<Index>(i / kTileRows);
      if (row < static_cast<Index>(kRows) && column < static_cast<Index>(kColumns)) {
        const Index offset = at[0] + row * static_cast<Index>(kFromRow) + column * static_cast<Index>(kFromColumn);
        tile[i / kTileRows][i % kTileRows] = static_cast<const E*>(from)[offset];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
      const Index row = row0 + static_cast<Index>(i / kTileColumns);
      const Index column = column0 + static_cast<Index>(i % kTileColumns);
      if (row < static_cast<Index>(kRows) && column < static_cast<Index>(kColumns)) {
        const Index offset = at[1] + row * static_cast<Index>(kToRow) + column * static_cast<Index>(kToColumn);
        static_cast<E*>(to)[offset] = tile[i % kTileColumns][i / kTileColumns];
      }
    }
  }
};

// Does Vector, whose elements are larger than those of the operands, if the pointers are aligned, otherwise Scalar.
template <typename Vector, typename Scalar>
struct Aligned {
  using Element = typename Vector::Element;
  static constexpr int64 kBlocks = Vector::kBlocks;

  __device__ static void Run(uint32 block, const void* from, void* to) {
    if (IsAligned<sizeof(Element)>(from) && IsAligned<sizeof(Element)>(to)) {
      Vector::Run(block, from, to);
    } else {
      for (int64 b = block; b < Scalar::kBlocks; b += kBlocks) Scalar::Run(static_cast<uint32>(b), from, to);
    }
  }
};

}  // namespace cotan::copy
