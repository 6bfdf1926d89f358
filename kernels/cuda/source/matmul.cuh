// SPDX-License-Identifier: Apache-2.0

// Matrix products of any dtype and any strides: d[i, j] = sum over s of a[i, s] * b[s, j] (+ c[i, j]), for each index
// of a batch. Sums are in f32, of f64 in f64, in an order that the tiling fixes; those of integers wrap around.
//
// The geometry is a type with constants:
//   Element; Sum = SumOf<Element>::Type; Index (int or long long, as extents and the number of tiles need)
//   kRows, kColumns, kSteps, kBatch
//   strides in elements: kARow, kAStep; kBStep, kBColumn; kCRow, kCColumn; kDRow, kDColumn
//   kAdds: whether there is a c
//   kAStepInner, kBColumnInner: which index of a matrix is nearer in memory; that of d should be the column
//   kAHasQuads, kBHasQuads: quads of neighbours along it are aligned in each matrix whose first element is, and all of
//     a quad exists if its first element does
//   Locate(batch, &a, &b, &c, &d): adds the offsets of the matrices of a batch index
//
// The tiling, too:
//   kTileRows, kTileColumns: results of a block
//   kThreadRows, kThreadColumns: results of a thread
//   kWarpRows, kWarpColumns: warps that share a tile
//   kSlices: warps, each with the whole tile, of which each takes every kSlices-th kTileSteps steps; 1 if warps share
//     the tile
//   kTileSteps: 8, 16 or 32
#pragma once

#include "cotan/error.cuh"
#include "cotan/matmul_tile.cuh"
#include "cotan/types.cuh"

namespace cotan::matmul {

template <typename Element>
__device__ inline void Store(Element* to, typename SumOf<Element>::Type x) {
  *to = static_cast<Element>(x);
}
__device__ inline void Store(float16* to, float x) { *to = ToFloat16(x); }
__device__ inline void Store(bfloat16* to, float x) { *to = ToBfloat16(x); }

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

// The sums of the slices of a block in shared memory.
template <typename T, typename Sum>
struct SliceSums {
  static constexpr int kElements = T::kTileRows * T::kTileColumns;
  static constexpr int kSize = kElements * T::kSlices;

  // Places of eight columns are permuted from row to row, so that threads that write to four rows use different banks,
  // whether their rows are neighbours or four rows apart. The place of a | b is the XOR of those of a and of b.
  __device__ static constexpr int Offset(int row, int column) {
    if constexpr (T::kTileColumns % 32 == 0) {
      const int place = (row ^ row / 4) % 4;
      return row * T::kTileColumns + (column ^ (place % 2 * 16 + place / 2 * 8));
    } else if constexpr (T::kTileColumns == 16) {
      return (row ^ row / 8 % 2) * 16 + (column ^ (row / 2 ^ row / 4) % 2 * 8);
    } else {
      return row * T::kTileColumns + column;
    }
  }

  __device__ Sum Add(int row, int column) const {
    const int at = Offset(row, column);
    Sum sum = sums[at];
#pragma unroll
    for (int i = 1; i < T::kSlices; ++i) sum += sums[i * kElements + at];
    return sum;
  }

  Sum* sums;
};

// Adds the sums of the slices of a block, in order, and passes them on.
template <int kThreads, typename T, typename Tile, typename Sum>
__device__ inline void WriteSums(const Tile& to, const SliceSums<T, Sum>& slices) {
  constexpr int kElements = SliceSums<T, Sum>::kElements;
  constexpr int kCount = kElements < kThreads ? 1 : kElements / kThreads;
  // All loads of a group are on their way before its first store, which the compiler cannot know to be elsewhere.
  constexpr int kGroup = kCount < 4 ? kCount : 4;
  static_assert(kElements < kThreads || kElements % (kThreads * kGroup) == 0);
#pragma unroll 1
  for (int first = 0; first < kCount; first += kGroup) {
    typename Tile::Operands operands[kGroup] = {};
    int rows[kGroup];
    int columns[kGroup];
    bool exists[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const uint32 at = threadIdx.x + static_cast<uint32>((first + i) * kThreads);
      rows[i] = static_cast<int>(at / T::kTileColumns);
      columns[i] = static_cast<int>(at % T::kTileColumns);
      exists[i] = at < kElements && to.Has(rows[i], columns[i]);
      if (exists[i]) operands[i] = to.Read(rows[i], columns[i]);
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (exists[i]) to.Write(slices.Add(rows[i], columns[i]), operands[i], rows[i], columns[i]);
    }
  }
}

// A block's threads and shared memory.
template <typename S, typename T>
struct Tiling {
  using Index = typename S::Index;
  using Sum = typename S::Sum;
  static constexpr int kLaneRows = T::kTileRows / T::kWarpRows / T::kThreadRows;
  static constexpr int kLaneColumns = T::kTileColumns / T::kWarpColumns / T::kThreadColumns;
  static_assert((kLaneRows == 4 && kLaneColumns == 8) || (kLaneRows == 8 && kLaneColumns == 4));
  static constexpr int kWarps = T::kWarpRows * T::kWarpColumns;
  static_assert(T::kSlices == 1 || kWarps == 1);
  static constexpr int kSliceThreads = 32 * kWarps;
  static constexpr int kThreads = kSliceThreads * T::kSlices;
  static constexpr int kSteps = T::kTileSteps * T::kSlices;  // of all slices
  using TileA = OperandTile<S, LeftOperand<S>, T::kTileRows, T::kTileSteps, kSliceThreads, T::kThreadRows, kLaneRows>;
  using TileB =
      OperandTile<S, RightOperand<S>, T::kTileColumns, T::kTileSteps, kSliceThreads, T::kThreadColumns, kLaneColumns>;
  static constexpr int kSliceSize = TileA::kSize + TileB::kSize;
  static constexpr int kShared =
      kSliceSize * T::kSlices > SliceSums<T, Sum>::kSize ? kSliceSize* T::kSlices : SliceSums<T, Sum>::kSize;

  // Waits for the threads of the slice.
  __device__ static void Synchronize() {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

// The part of a thread in a slice.
template <typename S, typename T>
struct SliceThread {
  using Of = Tiling<S, T>;
  using Index = typename S::Index;
  using Sum = typename S::Sum;
  using Element = typename S::Element;

  __device__ SliceThread() {
    const int warp = thread / 32;
    row0 = warp / T::kWarpColumns * (T::kTileRows / T::kWarpRows);
    column0 = warp % T::kWarpColumns * (T::kTileColumns / T::kWarpColumns);
    lane_row = LaneRow(thread % 32);
    lane_column = LaneColumn(thread % 32);
  }

  // Lanes are a grid of 4 x 8 or 8 x 4. Half a warp has all of the longer side and two of the shorter one, so that it
  // reads few different quads: shared memory serves 128 bytes at a time.
  __device__ static int LongSide(int lane) { return lane / 2 % 8; }
  __device__ static int ShortSide(int lane) { return lane % 2 + lane / 16 * 2; }
  __device__ static int LaneRow(int lane) { return Of::kLaneRows == 8 ? LongSide(lane) : ShortSide(lane); }
  __device__ static int LaneColumn(int lane) { return Of::kLaneRows == 8 ? ShortSide(lane) : LongSide(lane); }

  // Adds the products of the slice's steps of the tile at (row, column) to `sums`. `tiles` has room for kSliceSize.
  __device__ void Multiply(const Element* a, const Element* b, Index row, Index column, Sum* tiles) {
    const bool a_quads = S::kAHasQuads && IsAligned(a);
    const bool b_quads = S::kBHasQuads && IsAligned(b);
    Sum* const b_tiles = tiles + Of::TileA::kSize;
    typename Of::TileA a_tile;
    typename Of::TileB b_tile;
    const auto load = [&](Index step) {
      if (a_quads) a_tile.Load(a, row, step, thread);
      if (b_quads) b_tile.Load(b, column, step, thread);
    };
    constexpr Index kRounds = (S::kSteps + Of::kSteps - 1) / Of::kSteps;
    Index step = slice * T::kTileSteps;
    if (step >= S::kSteps) return;
    load(step);
#pragma unroll 1
    for (Index round = 0; round < kRounds; ++round) {
      if (a_quads) {
        a_tile.Put(tiles, thread);
      } else {
        Of::TileA::Copy(a, row, step, thread, tiles);
      }
      if (b_quads) {
        b_tile.Put(b_tiles, thread);
      } else {
        Of::TileB::Copy(b, column, step, thread, b_tiles);
      }
      Of::Synchronize();
      step += Of::kSteps;
      const bool ends = round + 1 == kRounds || step >= S::kSteps;
      if (!ends) load(step);
      MultiplyTiles(tiles, b_tiles);
      if (ends) break;
      Of::Synchronize();
    }
  }

  __device__ static bool IsAligned(const Element* x) {
    return reinterpret_cast<unsigned long long>(x) % alignof(Quad<Element>) == 0;
  }

  __device__ void MultiplyTiles(const Sum* a_tiles, const Sum* b_tiles) {
#pragma unroll
    for (int step = 0; step < T::kTileSteps; step += 4) {
      Sum x[T::kThreadRows][4];
      Sum y[T::kThreadColumns][4];
      Of::TileA::Get(a_tiles, row0, lane_row, step, x);
      Of::TileB::Get(b_tiles, column0, lane_column, step, y);
#pragma unroll
      for (int s = 0; s < 4; ++s) {
#pragma unroll
        for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
          for (int j = 0; j < T::kThreadColumns; ++j) sums[i][j] = MultiplyAdd(x[i][s], y[j][s], sums[i][j]);
        }
      }
    }
  }

  __device__ void Put(Sum* to) const {
    using Sums = SliceSums<T, Sum>;
    Sum* const part = to + slice * Sums::kElements;
    const int first =
        Sums::Offset(row0 + Of::TileA::ThreadLine(0, lane_row), column0 + Of::TileB::ThreadLine(0, lane_column));
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < T::kThreadColumns; ++j) {
        Sum* const at = part + (first ^ Sums::Offset(Of::TileA::ThreadLine(i, 0), Of::TileB::ThreadLine(j, 0)));
        if constexpr (!Of::TileB::kHasThreadQuads) {
          *at = sums[i][j];
        } else if (j % 4 == 0) {
          *reinterpret_cast<Quad<Sum>*>(at) = {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
        }
      }
    }
  }

  const int slice = static_cast<int>(threadIdx.x / Of::kSliceThreads);
  const int thread = static_cast<int>(threadIdx.x % Of::kSliceThreads);
  int row0, column0;  // of the warp, in the tile
  int lane_row, lane_column;
  Sum sums[T::kThreadRows][T::kThreadColumns] = {};
};

// Computes a product and passes its sums to `result`. A block computes tiles of the result. The sums of its slices are
// added in order.
template <typename S, typename T, typename Result>
__device__ void TiledProduct(const typename S::Element* a, const typename S::Element* b, const Result& result) {
  using Index = typename S::Index;
  using Sum = typename S::Sum;
  using Of = Tiling<S, T>;
  constexpr Index kRowTiles = (S::kRows + T::kTileRows - 1) / T::kTileRows;
  constexpr Index kColumnTiles = (S::kColumns + T::kTileColumns - 1) / T::kTileColumns;
  __shared__ alignas(16) Sum shared[Of::kShared];

  for (Index tile = blockIdx.x; tile < kRowTiles * kColumnTiles * S::kBatch; tile += gridDim.x) {
    const Index column0 = tile % kColumnTiles * T::kTileColumns;
    const Index row0 = tile / kColumnTiles % kRowTiles * T::kTileRows;
    Index a_offset = 0, b_offset = 0, c_offset = 0, d_offset = 0;
    S::Locate(tile / kColumnTiles / kRowTiles, a_offset, b_offset, c_offset, d_offset);
    SliceThread<S, T> thread;
    thread.Multiply(a + a_offset, b + b_offset, row0, column0, shared + thread.slice * Of::kSliceSize);
    __syncthreads();
    thread.Put(shared);
    __syncthreads();
    const ResultTile<S, Result> to = {result, row0, column0, c_offset, d_offset};
    WriteSums<Of::kThreads>(to, SliceSums<T, Sum>{shared});
    __syncthreads();
  }
}

}  // namespace cotan::matmul
