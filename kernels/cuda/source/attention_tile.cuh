// SPDX-License-Identifier: Apache-2.0

// Parts of the attention kernels: staging of tiles of matrices in shared memory, and products of tiles.
//
// A block has X::kLanes * (rows of a tile / X::kThreadRows) threads. Thread (lane, group) owns the rows
// [group * kThreadRows, (group + 1) * kThreadRows) of a tile, all lanes of a group lie in one warp, and a row is
// exchanged between the lanes of its group only: that needs no barrier of the block. More rows of a thread take fewer
// reads of shared memory for each product, and more registers.
//
// Tiles lie row by row. Their stride is an odd number of 16-byte vectors, so that lanes that read vectors of
// consecutive rows use different banks.
#pragma once

#include "cotan/async_copy.cuh"
#include "cotan/error.cuh"
#include "cotan/multiply_add.cuh"
#include "cotan/types.cuh"

namespace cotan::attention {

inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

template <typename X>
__device__ inline int Lane() {
  return static_cast<int>(threadIdx.x) % X::kLanes;
}
template <typename X>
__device__ inline int FirstRow() {
  return static_cast<int>(threadIdx.x) / X::kLanes * X::kThreadRows;
}

__device__ inline float Widen(float16 x) { return ToFloat(x); }
__device__ inline float Widen(bfloat16 x) { return ToFloat(x); }
__device__ inline float Widen(float x) { return x; }
__device__ inline double Widen(double x) { return x; }

__device__ inline void Narrow(float x, float16& to) { to = ToFloat16(x); }
__device__ inline void Narrow(float x, bfloat16& to) { to = ToBfloat16(x); }
__device__ inline void Narrow(float x, float& to) { to = x; }
__device__ inline void Narrow(double x, double& to) { to = x; }

// Powers of 2 and their logarithms: scores are kept in units of ln 2, so that a weight is one instruction.
__device__ inline float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ inline double Exp2(double x) { return exp2(x); }
__device__ inline float Log2(float x) { return log2f(x); }
__device__ inline double Log2(double x) { return log2(x); }
__device__ inline float Max(float a, float b) { return fmaxf(a, b); }
__device__ inline double Max(double a, double b) { return fmax(a, b); }

template <typename Compute>
__device__ inline Compute MinusInfinity() {
  return static_cast<Compute>(-__longlong_as_double(0x7ff0000000000000LL));
}

// Elements that are loaded and stored together.
template <typename T, int kSize>
struct alignas(kSize * sizeof(T) < 16 ? kSize * sizeof(T) : 16) Pack {
  T values[kSize];
};

template <int kSize, typename T>
__device__ inline void LoadPack(const T* from, T* to) {
  const Pack<T, kSize> pack = *reinterpret_cast<const Pack<T, kSize>*>(from);
#pragma unroll
  for (int i = 0; i < kSize; ++i) to[i] = pack.values[i];
}

template <int kSize, typename T>
__device__ inline void StorePack(const T* from, T* to) {
  Pack<T, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.values[i] = from[i];
  *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
}

// Waits for what the threads of the block staged.
__device__ inline void FinishStaging() {
  WaitForAllCopies();
  __syncthreads();
}

// Element i of a vector of 32-bit words.
__device__ inline float ElementOf(const uint32* words, int i, const float*) { return __uint_as_float(words[i]); }
__device__ inline double ElementOf(const uint32* words, int i, const double*) {
  return __hiloint2double(static_cast<int>(words[2 * i + 1]), static_cast<int>(words[2 * i]));
}
__device__ inline float ElementOf(const uint32* words, int i, const float16*) {
  return ToFloat(float16{static_cast<uint16>(words[i / 2] >> (16 * (i % 2)))});
}
__device__ inline float ElementOf(const uint32* words, int i, const bfloat16*) {
  return ToFloat(bfloat16{static_cast<uint16>(words[i / 2] >> (16 * (i % 2)))});
}

// A [B, H, rows, columns] operand: strides in elements, and the elements of a vector load where the pointer is aligned
// to a vector (1: none).
template <typename ElementType, int64 batch, int64 head, int64 row, int64 column, int vector>
struct Operand {
  using Element = ElementType;
  static constexpr int64 kBatch = batch;
  static constexpr int64 kHead = head;
  static constexpr int64 kRow = row;
  static constexpr int64 kColumn = column;
  static constexpr int kVector = vector;
};

// Columns of an operand in tiles: `total` of them in chunks of `chunk`. Lane l has the elements
// (group * lanes + l) * vector + [0, vector) of a chunk.
template <int64 total, int chunks, int chunk, int lanes, int vector, int groups, int stride>
struct Columns {
  static constexpr int kLanes = lanes;
  static constexpr int64 kTotal = total;
  static constexpr int kChunks = chunks;
  static constexpr int kChunk = chunk;
  static constexpr int kVector = vector;
  static constexpr int kGroups = groups;
  static constexpr int kCount = groups * vector;          // per lane
  static constexpr int kWidth = lanes * groups * vector;  // of a tile, at least kChunk
  static constexpr int kDepth = (chunk + 3) / 4 * 4;      // a multiple of 4
  static constexpr int kStride = stride;
  static_assert(kWidth >= kDepth && kStride >= kWidth);
};

// Copies rows x columns elements of a matrix, at most kRows x kWidth, to shared memory, and zeros to the rest of the
// tile. `aligned`: `from` is aligned to a vector, and `columns` is a multiple of one.
template <typename Matrix, int kRows, int kWidth, int kStride, int kThreads, typename Index, typename Compute>
__device__ inline void StageTile(const typename Matrix::Element* from, Index rows, Index columns, bool aligned,
                                 Compute* tile) {
  using Element = typename Matrix::Element;
  if constexpr (Matrix::kVector > 1) {
    if (aligned) {
      constexpr int kWords = Matrix::kVector * static_cast<int>(sizeof(Element)) / 4;
      constexpr int kVectors = kWidth / Matrix::kVector;
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < kRows * kVectors; i += kThreads) {
        const int r = i / kVectors;
        const int c = i % kVectors * Matrix::kVector;
        uint32 words[kWords] = {};
        if ((r < rows) & (c < columns)) {
          LoadPack<kWords>(reinterpret_cast<const uint32*>(from + r * static_cast<Index>(Matrix::kRow) + c), words);
        }
        Compute values[Matrix::kVector];
#pragma unroll
        for (int k = 0; k < Matrix::kVector; ++k) {
          values[k] = ElementOf(words, k, static_cast<const Element*>(nullptr));
        }
        StorePack<Matrix::kVector>(values, tile + r * kStride + c);
      }
      return;
    }
  }
  constexpr bool kRowsInner = Matrix::kColumn != 1 && Matrix::kRow < Matrix::kColumn;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kWidth; i += kThreads) {
    const int r = kRowsInner ? i % kRows : i / kWidth;
    const int c = kRowsInner ? i / kRows : i % kWidth;
    Compute x = 0;
    if ((r < rows) & (c < columns)) {
      x = Widen(from[r * static_cast<Index>(Matrix::kRow) + c * static_cast<Index>(Matrix::kColumn)]);
    }
    tile[r * kStride + c] = x;
  }
}

// Stages the rows from `row` on, of which there are `rows`, and the columns of chunk `chunk`.
template <typename Matrix, typename C, int kRows, int kThreads, typename Index, typename Compute>
__device__ inline void Stage(const typename Matrix::Element* matrix, Index row, Index rows, int chunk, Compute* tile) {
  constexpr int64 kVectorBytes = Matrix::kVector * static_cast<int64>(sizeof(typename Matrix::Element));
  const Index first = static_cast<Index>(chunk) * C::kChunk;
  const Index rest = static_cast<Index>(C::kTotal) - first;
  StageTile<Matrix, kRows, C::kWidth, C::kStride, kThreads>(
      matrix + row * static_cast<Index>(Matrix::kRow) + first * static_cast<Index>(Matrix::kColumn), rows,
      rest < C::kChunk ? rest : static_cast<Index>(C::kChunk), reinterpret_cast<uint64>(matrix) % kVectorBytes == 0,
      tile);
}

template <typename A, typename B>
inline constexpr bool kIsSame = false;
template <typename A>
inline constexpr bool kIsSame<A, A> = true;

// As Stage(), without waiting for the copies if that is possible: the elements need no conversion, and rows are aligned
// to 16 bytes. FinishStaging() follows before the tile is read, in either case.
template <typename Matrix, typename C, int kRows, int kThreads, typename Index, typename Compute>
__device__ inline void StageAsync(const typename Matrix::Element* matrix, Index row, Index rows, int chunk,
                                  Compute* tile) {
  constexpr bool kIsCopy = kIsSame<typename Matrix::Element, Compute> && Matrix::kVector * sizeof(Compute) == 16;
  if constexpr (kIsCopy) {
    if (reinterpret_cast<uint64>(matrix) % 16 == 0) {
      constexpr int kVectors = C::kWidth / Matrix::kVector;
      const Index first = static_cast<Index>(chunk) * C::kChunk;
      const Index rest = static_cast<Index>(C::kTotal) - first;
      const Index columns = rest < C::kChunk ? rest : static_cast<Index>(C::kChunk);
      const auto* from = matrix + row * static_cast<Index>(Matrix::kRow) + first;
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < kRows * kVectors; i += kThreads) {
        const int r = i / kVectors;
        const int c = i % kVectors * Matrix::kVector;
        const bool exists = (r < rows) & (c < columns);
        StartCopyOf16(SharedAddress(tile + r * C::kStride + c),
                      exists ? from + r * static_cast<Index>(Matrix::kRow) + c : matrix, exists);
      }
      return;
    }
  }
  Stage<Matrix, C, kRows, kThreads>(matrix, row, rows, chunk, tile);
}

// sums[r][c] += sum over e < kDepth of left[FirstRow() + r][e] * right[Lane() + c * kLanes][e].
template <typename X, int kDepth, int kStride, int kCount, typename Compute>
__device__ inline void MultiplyTransposed(const Compute* left, const Compute* right,
                                          Compute (&sums)[X::kThreadRows][kCount]) {
  left += FirstRow<X>() * kStride;
  right += Lane<X>() * kStride;
#pragma unroll 1
  for (int e = 0; e < kDepth; e += 4) {
    Compute a[X::kThreadRows][4];
#pragma unroll
    for (int r = 0; r < X::kThreadRows; ++r) LoadPack<4>(left + r * kStride + e, a[r]);
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      Compute b[4];
      LoadPack<4>(right + c * X::kLanes * kStride + e, b);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int r = 0; r < X::kThreadRows; ++r) sums[r][c] = MultiplyAdd(a[r][k], b[k], sums[r][c]);
      }
    }
  }
}

// sums[r][...] += sum over i < depth, rounded up to a multiple of 4, of weights[FirstRow() + r][i] * right[i][...], for
// the columns of the lane.
template <typename X, typename C, typename Compute>
__device__ inline void MultiplyRows(const Compute* weights, const Compute* right, int depth,
                                    Compute (&sums)[X::kThreadRows][C::kCount]) {
  weights += FirstRow<X>() * X::kWeightStride;
  right += Lane<X>() * C::kVector;
#pragma unroll 1
  for (int i = 0; i < depth; i += 4) {
    Compute a[X::kThreadRows][4];
#pragma unroll
    for (int r = 0; r < X::kThreadRows; ++r) LoadPack<4>(weights + r * X::kWeightStride + i, a[r]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      Compute b[C::kCount];
#pragma unroll
      for (int g = 0; g < C::kGroups; ++g) {
        LoadPack<C::kVector>(right + (i + k) * C::kStride + g * X::kLanes * C::kVector, b + g * C::kVector);
      }
#pragma unroll
      for (int r = 0; r < X::kThreadRows; ++r) {
#pragma unroll
        for (int c = 0; c < C::kCount; ++c) sums[r][c] = MultiplyAdd(a[r][k], b[c], sums[r][c]);
      }
    }
  }
}

// Stores the elements of this thread, in row row0 + FirstRow() + r, times factors[r], for the rows below `rows`.
template <typename X, typename Matrix, typename C, typename Index, typename Compute>
__device__ inline void StoreRows(const Compute (&sums)[X::kThreadRows][C::kCount],
                                 const Compute (&factors)[X::kThreadRows], Index row0, Index rows, int chunk,
                                 typename Matrix::Element* matrix) {
  using Element = typename Matrix::Element;
  const bool aligned = Matrix::kVector == C::kVector && C::kVector > 1 &&
                       reinterpret_cast<uint64>(matrix) % (C::kVector * sizeof(Element)) == 0;
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
    const Index row = row0 + FirstRow<X>() + r;
    if (row >= rows) continue;
#pragma unroll
    for (int g = 0; g < C::kGroups; ++g) {
      const int c = (g * X::kLanes + Lane<X>()) * C::kVector;
      const Index column = static_cast<Index>(chunk) * C::kChunk + c;
      Element* to = matrix + row * static_cast<Index>(Matrix::kRow) + column * static_cast<Index>(Matrix::kColumn);
      Element values[C::kVector];
#pragma unroll
      for (int k = 0; k < C::kVector; ++k) Narrow(sums[r][g * C::kVector + k] * factors[r], values[k]);
      if (aligned) {
        if (c < C::kChunk && column < C::kTotal) StorePack<C::kVector>(values, to);
        continue;
      }
#pragma unroll
      for (int k = 0; k < C::kVector; ++k) {
        if (c + k < C::kChunk && column + k < C::kTotal) to[k * static_cast<Index>(Matrix::kColumn)] = values[k];
      }
    }
  }
}

// The part of an attention that a block computes: a tile of rows of one head, and a chunk of columns.
struct Part {
  int64 batch;
  int64 head;
  int64 tile;
  int chunk;
};

// Return x, of which the compiler then knows no range. It computes the addresses of few heads with byte products (dp2a)
// of registers that are partly never written: right, but the simulator of tests reports those.
__device__ inline unsigned Opaque(unsigned x) {
  asm("mov.b32 %0, %0;" : "+r"(x));
  return x;
}
__device__ inline long long Opaque(long long x) {
  asm("mov.b64 %0, %0;" : "+l"(x));
  return x;
}

// Returns the part of a block: heads innermost, and tiles in the order of their numbers. With kIsFalling, the tiles
// with most work come first, those with the highest numbers if kLastIsLargest; where all blocks run at once, two for
// each of some 132 processors, the second half is in the opposite order, so that each processor has a large and a small
// tile.
template <typename Block, int64 kHeads, int64 kTiles, int kChunks, int64 kAllHeads, bool kIsFalling,
          bool kLastIsLargest>
__device__ inline Part PartOf(Block block) {
  constexpr int64 kLargeTiles = kAllHeads * kTiles * kChunks > 264 ? kTiles : (kTiles + 1) / 2;
  const Block rest = block / kChunks;
  const Block head = Opaque(rest % static_cast<Block>(kAllHeads));
  int64 tile = static_cast<int64>(rest / static_cast<Block>(kAllHeads));
  if (kIsFalling) {
    if (tile >= kLargeTiles) tile = kTiles - 1 - (tile - kLargeTiles);
    if (kLastIsLargest) tile = kTiles - 1 - tile;
  }
  return {static_cast<int64>(head / static_cast<Block>(kHeads)), static_cast<int64>(head % static_cast<Block>(kHeads)),
          tile, static_cast<int>(block % kChunks)};
}

// Returns the first element of a head.
template <typename Matrix>
__device__ inline typename Matrix::Element* HeadOf(typename Matrix::Element* matrix, const Part& part) {
  return matrix + part.batch * Matrix::kBatch + part.head * Matrix::kHead;
}
template <typename Matrix>
__device__ inline const typename Matrix::Element* HeadOf(const typename Matrix::Element* matrix, const Part& part) {
  return matrix + part.batch * Matrix::kBatch + part.head * Matrix::kHead;
}

}  // namespace cotan::attention
