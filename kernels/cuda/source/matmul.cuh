// SPDX-License-Identifier: Apache-2.0

// Matrix products of any dtype and any strides: d[i, j] = sum over s of a[i, s] * b[s, j] (+ c[i, j]), for each index
// of a batch. Sums are in f32, of f64 in f64, in an order that the sizes fix; those of integers wrap around.
//
// The geometry is a type with constants:
//   Element; Sum = SumOf<Element>::Type; Index (int or long long, as extents and the number of tiles need)
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

// Threads of a block.
constexpr int kThreads = 256;
// Steps that a slice of a block multiplies at a time.
constexpr int kSliceSteps = 16;

// A tile of kLines rows of a, or columns of b, by kSteps: its next elements are on their way in registers while the
// current ones, in shared memory, are multiplied.
template <typename Sum, int kLines, int kSteps, bool kStepInner>
struct TileLoader {
  static constexpr int kCount = kLines * kSteps / kThreads;
  // One more than needed, so that threads with neighbouring steps write to different banks.
  using Tile = Sum[kSteps][kLines + 1];

  __device__ static int Line(int i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    return kStepInner ? at / kSteps : at % kLines;
  }
  __device__ static int Step(int i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    return kStepInner ? at % kSteps : at / kLines;
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

// Receives the sums of a product: adds c and stores them. Offsets of elements are `c_at` and `d_at`.
template <typename S>
struct StoreSums {
  using Index = typename S::Index;
  struct Operands {
    typename S::Sum c;
  };

  __device__ Operands Read(Index c_at, Index) const {
    if constexpr (S::kAdds) return {matmul::Load(c[c_at])};
    return {};
  }
  __device__ void Write(typename S::Sum sum, const Operands& operands, Index d_at) const {
    if constexpr (S::kAdds) sum += operands.c;
    matmul::Store(d + d_at, sum);
  }

  const typename S::Element* c;
  typename S::Element* d;
};

// A tile of the result, whose sums go to `result`.
template <typename S, typename Result>
struct ResultTile {
  using Index = typename S::Index;
  using Operands = typename Result::Operands;

  __device__ bool Has(int row, int column) const { return row0 + row < S::kRows && column0 + column < S::kColumns; }
  __device__ Index At(int row, int column) const {
    return d_offset + (row0 + row) * S::kDRow + (column0 + column) * S::kDColumn;
  }
  __device__ Operands Read(int row, int column) const {
    return result.Read(c_offset + (row0 + row) * S::kCRow + (column0 + column) * S::kCColumn, At(row, column));
  }
  __device__ void Write(typename S::Sum sum, const Operands& operands, int row, int column) const {
    result.Write(sum, operands, At(row, column));
  }

  const Result& result;
  Index row0, column0, c_offset, d_offset;
};

// Adds the products of kSliceSteps steps of two tiles, from `step0` on, to every kSide-th row and column.
template <int kSide, typename Sum, int kRows, int kColumns, typename TileA, typename TileB>
__device__ inline void MultiplyTiles(const TileA& a_tile, const TileB& b_tile, int step0, int row0, int column0,
                                     Sum (&sums)[kRows][kColumns]) {
#pragma unroll
  for (int s = 0; s < kSliceSteps; ++s) {
    Sum x[kRows];
    Sum y[kColumns];
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[i] = a_tile[step0 + s][row0 + i * kSide];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) y[j] = b_tile[step0 + s][column0 + j * kSide];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[i][j] = MultiplyAdd(x[i], y[j], sums[i][j]);
    }
  }
}

// Passes the sums of a thread on.
template <int kSide, typename Tile, typename Sum, int kRows, int kColumns>
__device__ inline void WriteSums(const Tile& to, const Sum (&sums)[kRows][kColumns], int row0, int column0) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = row0 + i * kSide;
    // All loads are on their way before the first store, which the compiler cannot know to be elsewhere.
    typename Tile::Operands operands[kColumns] = {};
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      if (to.Has(row, column0 + j * kSide)) operands[j] = to.Read(row, column0 + j * kSide);
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      if (to.Has(row, column0 + j * kSide)) to.Write(sums[i][j], operands[j], row, column0 + j * kSide);
    }
  }
}

// Adds the sums of the slices of a block, in order, and passes them on. The tile has one element per thread, and
// `partial` room for one sum per slice and element.
template <int kSlices, int kSide, int kTileRows, int kTileColumns, bool kColumnInner, typename Tile, typename Sum,
          int kRows, int kColumns>
__device__ inline void WriteSlices(const Tile& to, const Sum (&sums)[kRows][kColumns], int slice, int row0, int column0,
                                   Sum* partial) {
  static_assert(kTileRows * kTileColumns == kThreads);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int row = row0 + i * kSide;
      const int column = column0 + j * kSide;
      const int at = kColumnInner ? row * kTileColumns + column : column * kTileRows + row;
      partial[slice * kThreads + at] = sums[i][j];
    }
  }
  __syncthreads();
  const int at = static_cast<int>(threadIdx.x);
  const int row = kColumnInner ? at / kTileColumns : at % kTileRows;
  const int column = kColumnInner ? at % kTileColumns : at / kTileRows;
  Sum sum = partial[at];
#pragma unroll
  for (int i = 1; i < kSlices; ++i) sum += partial[i * kThreads + at];
  if (to.Has(row, column)) to.Write(sum, to.Read(row, column), row, column);
  __syncthreads();
}

// Computes a product and passes its sums to `result`. A block computes tiles of kTileRows x kTileColumns. It consists
// of kSlices (1 or 4) squares of threads: slice i multiplies the i-th 16 of each 16 kSlices steps, for the whole tile.
// A thread has every kSide-th row and column. The sums of the slices are added in order.
template <typename S, int kTileRows, int kTileColumns, int kSlices, typename Result>
__device__ void TiledProduct(const typename S::Element* a, const typename S::Element* b, const Result& result) {
  using Index = typename S::Index;
  using Sum = typename S::Sum;
  constexpr int kSide = kSlices == 1 ? 16 : 8;
  constexpr int kSliceThreads = kSide * kSide;
  static_assert(kSliceThreads * kSlices == kThreads && kTileRows % kSide == 0 && kTileColumns % kSide == 0);
  constexpr int kTileSteps = kSliceSteps * kSlices;
  using LoaderA = TileLoader<Sum, kTileRows, kTileSteps, S::kAStepInner>;
  using LoaderB = TileLoader<Sum, kTileColumns, kTileSteps, !S::kBColumnInner>;
  constexpr Index kRowTiles = (S::kRows + kTileRows - 1) / kTileRows;
  constexpr Index kColumnTiles = (S::kColumns + kTileColumns - 1) / kTileColumns;
  __shared__ typename LoaderA::Tile a_tile;
  __shared__ typename LoaderB::Tile b_tile;
  const int slice = static_cast<int>(threadIdx.x) / kSliceThreads;
  const int thread = static_cast<int>(threadIdx.x) % kSliceThreads;
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
    Sum sums[kTileRows / kSide][kTileColumns / kSide] = {};
    if (S::kSteps > 0) load(0);
    for (Index step0 = 0; step0 < S::kSteps; step0 += kTileSteps) {
      a_loader.Put(a_tile);
      b_loader.Put(b_tile);
      __syncthreads();
      if (step0 + kTileSteps < S::kSteps) load(step0 + kTileSteps);
      MultiplyTiles<kSide>(a_tile, b_tile, slice * kSliceSteps, thread_row, thread_column, sums);
      __syncthreads();
    }
    const ResultTile<S, Result> to = {result, row0, column0, c_offset, d_offset};
    if constexpr (kSlices == 1) {
      WriteSums<kSide>(to, sums, thread_row, thread_column);
    } else {
      static_assert(sizeof(a_tile) >= kSlices * kThreads * sizeof(Sum));
      WriteSlices<kSlices, kSide, kTileRows, kTileColumns, S::kDColumnInner>(to, sums, slice, thread_row, thread_column,
                                                                             &a_tile[0][0]);
    }
  }
}

}  // namespace cotan::matmul
