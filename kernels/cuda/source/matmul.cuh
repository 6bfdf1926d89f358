// SPDX-License-Identifier: Apache-2.0

// Matrix products of any dtype and any strides: d[i, j] = sum over s of a[i, s] * b[s, j] (+ c[i, j]), for each index
// of a batch. Sums are in f32, of f64 in f64, in the order of s; those of integers wrap around.
//
// The geometry is a type with constants:
//   Element; Index (int or long long, as extents and the number of tiles need)
//   kRows, kColumns, kSteps, kBatch
//   strides in elements: kARow, kAStep; kBStep, kBColumn; kCRow, kCColumn; kDRow, kDColumn
//   kAdds: whether there is a c
//   kAStepInner, kBColumnInner, kDColumnInner: which index of a matrix is nearer in memory
//   Locate(batch, &a, &b, &c, &d): adds the offsets of the matrices of a batch index
#pragma once

#include "cotan/error.cuh"
#include "cotan/types.cuh"

namespace cotan::matmul {

// The type in which an element type is summed.
template <typename Element>
struct SumOf {
  using Type = uint32;  // Overflow is defined, and the low bits are those of any wider type.
};
template <>
struct SumOf<int64> {
  using Type = uint64;
};
template <>
struct SumOf<float16> {
  using Type = float;
};
template <>
struct SumOf<bfloat16> {
  using Type = float;
};
template <>
struct SumOf<float> {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};

template <typename Element>
__device__ inline typename SumOf<Element>::Type Load(Element x) {
  return static_cast<typename SumOf<Element>::Type>(x);
}
__device__ inline float Load(float16 x) { return ToFloat(x); }
__device__ inline float Load(bfloat16 x) { return ToFloat(x); }

template <typename Element>
__device__ inline void Store(Element* to, typename SumOf<Element>::Type x) {
  *to = static_cast<Element>(x);
}
__device__ inline void Store(float16* to, float x) { *to = ToFloat16(x); }
__device__ inline void Store(bfloat16* to, float x) { *to = ToBfloat16(x); }

__device__ inline uint32 MultiplyAdd(uint32 x, uint32 y, uint32 z) { return x * y + z; }
__device__ inline uint64 MultiplyAdd(uint64 x, uint64 y, uint64 z) { return x * y + z; }
__device__ inline float MultiplyAdd(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ inline double MultiplyAdd(double x, double y, double z) { return __fma_rn(x, y, z); }

// Blocks are 16 x 16 threads.
constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
// Steps that a block loads at a time.
constexpr int kTileSteps = 16;

// A tile of kLines rows of a, or columns of b, by kTileSteps: its next elements are on their way in registers while the
// current ones, in shared memory, are multiplied.
template <typename Sum, int kLines, bool kStepInner>
struct TileLoader {
  static constexpr int kCount = kLines * kTileSteps / kThreads;
  // One more than needed, so that threads with neighbouring steps write to different banks.
  using Tile = Sum[kTileSteps][kLines + 1];

  __device__ static int Line(int i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    return kStepInner ? at / kTileSteps : at % kLines;
  }
  __device__ static int Step(int i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    return kStepInner ? at % kTileSteps : at / kLines;
  }

  // Loads elements from `from`, which points to line `line0` of step 0. Elements beyond the ends are 0.
  template <typename Index, Index kLineStride, Index kStepStride, typename Element>
  __device__ void Load(const Element* from, Index line0, Index num_lines, Index step0, Index num_steps) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const Index line = line0 + Line(i);
      const Index step = step0 + Step(i);
      next[i] =
          line < num_lines && step < num_steps ? matmul::Load(from[line * kLineStride + step * kStepStride]) : Sum(0);
    }
  }
  __device__ void Put(Tile& tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) tile[Step(i)][Line(i)] = next[i];
  }

  Sum next[kCount];
};

// Computes a product. A block computes tiles of kTileRows x kTileColumns, multiples of 16, of which a thread computes
// every 16th row and column.
template <typename S, int kTileRows, int kTileColumns>
__device__ void TiledProduct(const typename S::Element* a, const typename S::Element* b, const typename S::Element* c,
                             typename S::Element* d) {
  using Index = typename S::Index;
  using Sum = typename SumOf<typename S::Element>::Type;
  using LoaderA = TileLoader<Sum, kTileRows, S::kAStepInner>;
  using LoaderB = TileLoader<Sum, kTileColumns, !S::kBColumnInner>;
  constexpr int kThreadRows = kTileRows / kSide;
  constexpr int kThreadColumns = kTileColumns / kSide;
  constexpr Index kRowTiles = (S::kRows + kTileRows - 1) / kTileRows;
  constexpr Index kColumnTiles = (S::kColumns + kTileColumns - 1) / kTileColumns;
  __shared__ typename LoaderA::Tile a_tile;
  __shared__ typename LoaderB::Tile b_tile;
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = S::kDColumnInner ? thread / kSide : thread % kSide;
  const int thread_column = S::kDColumnInner ? thread % kSide : thread / kSide;

  for (Index tile = blockIdx.x; tile < kRowTiles * kColumnTiles * S::kBatch; tile += gridDim.x) {
    const Index column0 = tile % kColumnTiles * kTileColumns;
    const Index row0 = tile / kColumnTiles % kRowTiles * kTileRows;
    Index a_offset = 0, b_offset = 0, c_offset = 0, d_offset = 0;
    S::Locate(tile / kColumnTiles / kRowTiles, a_offset, b_offset, c_offset, d_offset);

    LoaderA a_loader;
    LoaderB b_loader;
    const auto load = [&](Index step0) {
      a_loader.template Load<Index, S::kARow, S::kAStep>(a + a_offset, row0, S::kRows, step0, S::kSteps);
      b_loader.template Load<Index, S::kBColumn, S::kBStep>(b + b_offset, column0, S::kColumns, step0, S::kSteps);
    };
    Sum sums[kThreadRows][kThreadColumns] = {};
    if (S::kSteps > 0) load(0);
    for (Index step0 = 0; step0 < S::kSteps; step0 += kTileSteps) {
      a_loader.Put(a_tile);
      b_loader.Put(b_tile);
      __syncthreads();
      if (step0 + kTileSteps < S::kSteps) load(step0 + kTileSteps);
#pragma unroll
      for (int s = 0; s < kTileSteps; ++s) {
        Sum x[kThreadRows];
        Sum y[kThreadColumns];
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) x[i] = a_tile[s][thread_row + i * kSide];
#pragma unroll
        for (int j = 0; j < kThreadColumns; ++j) y[j] = b_tile[s][thread_column + j * kSide];
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
          for (int j = 0; j < kThreadColumns; ++j) sums[i][j] = MultiplyAdd(x[i], y[j], sums[i][j]);
        }
      }
      __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const Index row = row0 + thread_row + i * kSide;
#pragma unroll
      for (int j = 0; j < kThreadColumns; ++j) {
        const Index column = column0 + thread_column + j * kSide;
        if (row >= S::kRows || column >= S::kColumns) continue;
        Sum sum = sums[i][j];
        if constexpr (S::kAdds) sum += Load(c[c_offset + row * S::kCRow + column * S::kCColumn]);
        Store(d + (d_offset + row * S::kDRow + column * S::kDColumn), sum);
      }
    }
  }
}

}  // namespace cotan::matmul
