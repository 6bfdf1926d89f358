// SPDX-License-Identifier: Apache-2.0

// Adds rows to the rows of a table that an index selects, in the order of the index. A warp owns some columns of a row
// of the table, looks for the elements of the index that select the row, and adds their rows one after another.
//
// A scatter is a type S with
//   Element, Sum, IndexElement, Index (unsigned, holds all offsets and counts)
//   R: Range; kPadding: a row of the table to which nothing is added, or -1
//   kCount: elements of the index; kColumns: elements of a row; kVector: consecutive elements per lane
//   kOutputRow, kBaseRow: strides of rows of output and base; kHasBase
//   Columns: Dims of (output, rows, base); Positions: Dims of (index, rows)
//   kThreads: of a block
//   kBuckets: parts into which PartitionIndex() divides the rows of the table
//   kRecords: whether AddRows() checks the index
#pragma once

#include "cotan/indexing.cuh"

namespace cotan::indexing {

// Integers wrap around: S::Sum is unsigned then.
template <typename T>
__device__ inline T Add(T a, T b) {
  return static_cast<T>(a + b);
}

template <typename S>
__device__ inline typename S::Index RowsOffset(typename S::Index position) {
  typename S::Index at[2] = {};
  S::Positions::Locate(position, at);
  return at[1];
}

template <typename S>
__device__ inline int64 IndexAt(const typename S::IndexElement* index, typename S::Index position) {
  typename S::Index at[2] = {};
  S::Positions::Locate(position, at);
  return index[at[0]];
}

// Returns the table's row of an index value, or -1 if nothing is added for it.
template <typename S>
__device__ inline int64 RowOf(int64 value) {
  if (!S::R::Allows(value)) return -1;
  const int64 row = S::R::Resolve(value);
  return row == S::kPadding ? -1 : row;
}

// Positions that a warp searches before it adds the rows of those it found.
template <typename S>
struct Tile {
  static constexpr int kLargest = 1024;
  static constexpr int kSize = S::kCount > kLargest ? kLargest : S::kCount > 0 ? (S::kCount + 31) / 32 * 32 : 32;
  static constexpr int kWarps = S::kThreads / 32;
};

// The list of all positions. A block reads a tile of the index into shared memory, where its warps search it.
template <typename S>
struct WholeIndex {
  using Index = typename S::Index;
  __device__ Index Begin() const { return 0; }
  __device__ Index End() const { return static_cast<Index>(S::kCount); }
  __device__ void LoadTile(Index first) const {
    if (first > 0) __syncthreads();
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < Tile<S>::kSize; i += S::kThreads) {
      const Index entry = first + static_cast<Index>(i);
      rows[i] = entry < End() ? static_cast<Index>(RowOf<S>(IndexAt<S>(index, entry))) : ~Index{0};
    }
    __syncthreads();
  }
  __device__ bool IsIn(Index, int i, Index row) const { return rows[i] == row; }
  __device__ Index Position(Index entry) const { return entry; }
  const typename S::IndexElement* index;
  Index* rows;  // shared memory, Tile<S>::kSize; ~0: nothing is added
};

// The list of positions in the bucket of a row, which PartitionIndex() made.
template <typename S>
struct Bucket {
  using Index = typename S::Index;
  __device__ Index Begin() const { return starts[number]; }
  __device__ Index End() const { return starts[number + 1]; }
  __device__ void LoadTile(Index) const {}
  __device__ bool IsIn(Index first, int i, Index row) const {
    const Index entry = first + static_cast<Index>(i);
    return entry < End() && rows[entry] == row;
  }
  __device__ Index Position(Index entry) const { return positions[entry]; }
  const Index* starts;
  const Index* positions;
  const Index* rows;
  Index number;
};

// Writes the entries of the tile from `first` on that select `row` to `found`, in order; returns their number.
template <typename S, typename List>
__device__ inline int FindInTile(const List& list, typename S::Index first, typename S::Index row, uint16* found) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int count = 0;
#pragma unroll 8
  for (int i = lane; i < Tile<S>::kSize; i += 32) {
    const bool is_in = list.IsIn(first, i, row);
    const unsigned lanes = __ballot_sync(0xffffffffu, is_in);
    if (is_in) found[count + __popc(lanes & ((1u << lane) - 1))] = static_cast<uint16>(i);
    count += __popc(lanes);
  }
  __syncwarp();
  return count;
}

// Adds the rows at the positions of `list` that select `row`. `from` addresses the lane's columns.
template <typename S, typename List>
__device__ inline void AddListed(const List& list, typename S::Index row, const typename S::Element* from, bool aligned,
                                 bool active, typename S::Sum (&sums)[S::kVector]) {
  using Index = typename S::Index;
  constexpr int kBatch = S::kVector > 4 ? 4 : 16 / S::kVector;  // of loads on their way
  __shared__ uint16 all_found[Tile<S>::kWarps][Tile<S>::kSize];
  uint16* const found = all_found[threadIdx.x / 32];
  const Index end = list.End();
  for (Index first = list.Begin(); first < end; first += Tile<S>::kSize) {
    list.LoadTile(first);
    const int count = FindInTile<S>(list, first, row, found);
    for (int e = 0; active && e < count; e += kBatch) {
      typename S::Element values[kBatch][S::kVector] = {};
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (e + j >= count) continue;
        const Index position = list.Position(first + static_cast<Index>(found[e + j]));
        LoadElements<S::kVector>(from + RowsOffset<S>(position), aligned, values[j]);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (e + j >= count) continue;
#pragma unroll
        for (int v = 0; v < S::kVector; ++v) {
          sums[v] = Add(sums[v], static_cast<typename S::Sum>(Widen(values[j][v])));
        }
      }
    }
    __syncwarp();
  }
}

// The warps of a grid divide the table: some columns of a row each.
template <typename S>
struct Share {
  using Index = typename S::Index;
  static constexpr int64 kLanes = S::kColumns / S::kVector;
  static constexpr int64 kParts = (kLanes + 31) / 32;
  static constexpr int64 kShares = S::R::kSize * kParts;
  __device__ Share() {
    share = ThreadOfGrid<Index>() / 32;
    row = share / static_cast<Index>(kParts);
    lane = share % static_cast<Index>(kParts) * 32 + threadIdx.x % 32;
  }
  Index share, row, lane;
};

template <typename S, typename List>
__device__ inline void AddShare(const Share<S>& share, const List& list, const typename S::Element* rows,
                                const typename S::Element* base, typename S::Element* output) {
  using Index = typename S::Index;
  constexpr int kBytes = S::kVector * sizeof(typename S::Element);
  const bool aligned =
      IsAligned<kBytes>(rows) && IsAligned<kBytes>(output) && (!S::kHasBase || IsAligned<kBytes>(base));
  const bool active =
      share.share < static_cast<Index>(Share<S>::kShares) && share.lane < static_cast<Index>(Share<S>::kLanes);
  Index at[3] = {};
  if (active) S::Columns::Locate(share.lane * S::kVector, at);
  typename S::Element values[S::kVector];
  typename S::Sum sums[S::kVector] = {};
  if (S::kHasBase && active) {
    LoadElements<S::kVector>(base + at[2] + share.row * static_cast<Index>(S::kBaseRow), aligned, values);
#pragma unroll
    for (int v = 0; v < S::kVector; ++v) sums[v] = static_cast<typename S::Sum>(Widen(values[v]));
  }
  AddListed<S>(list, share.row, rows + at[1], aligned, active, sums);
  if (!active) return;
#pragma unroll
  for (int v = 0; v < S::kVector; ++v) Narrow(sums[v], values[v]);
  StoreElements<S::kVector>(values, aligned, output + at[0] + share.row * static_cast<Index>(S::kOutputRow));
}

// Checks the elements of the index, shared by all threads of the grid.
template <typename S>
__device__ inline void CheckShare(const typename S::IndexElement* index, const Errors& errors) {
  using Index = typename S::Index;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = ThreadOfGrid<Index>(); i < static_cast<Index>(S::kCount); i += step) {
    Check<typename S::R>(errors, i, IndexAt<S>(index, i));
  }
}

// The kernel for a short index.
template <typename S>
__device__ inline void AddRows(const typename S::Element* rows, const typename S::IndexElement* index,
                               const typename S::Element* base, typename S::Element* output, const Errors& errors) {
  using Index = typename S::Index;
  if (S::kRecords) CheckShare<S>(index, errors);
  const Share<S> share;
  __shared__ Index tile[Tile<S>::kSize];
  AddShare<S>(share, WholeIndex<S>{index, tile}, rows, base, output);
}

// The kernel for an index that PartitionIndex() has divided.
template <typename S>
__device__ inline void AddBuckets(const typename S::Element* rows, const typename S::Index* starts,
                                  const typename S::Index* positions, const typename S::Index* entry_rows,
                                  const typename S::Element* base, typename S::Element* output) {
  using Index = typename S::Index;
  const Share<S> share;
  const Bucket<S> bucket{starts, positions, entry_rows, share.row % static_cast<Index>(S::kBuckets)};
  AddShare<S>(share, bucket, rows, base, output);
}

// Lists the positions of each bucket, in order: bucket b has the rows r with r % kBuckets == b. Block b of 1024 threads
// makes the list of bucket b, and counts the positions of the buckets before it to find where the list begins. Each
// warp looks at consecutive positions.
template <typename S>
__device__ inline void PartitionIndex(const typename S::IndexElement* index, typename S::Index* starts,
                                      typename S::Index* positions, typename S::Index* entry_rows,
                                      const Errors& errors) {
  using Index = typename S::Index;
  constexpr Index kWarps = 32;
  constexpr Index kCount = static_cast<Index>(S::kCount);
  constexpr Index kPerWarp = (kCount + kWarps * 32 - 1) / (kWarps * 32) * 32;
  __shared__ Index counts[kWarps];
  __shared__ Index before[kWarps];
  const Index lane = threadIdx.x % 32;
  const Index warp = threadIdx.x / 32;
  const Index begin = warp * kPerWarp;
  const Index end = begin + kPerWarp;
  const auto row_at = [&](Index i) { return i < kCount ? RowOf<S>(IndexAt<S>(index, i)) : int64{-1}; };
  const auto bucket_of = [](int64 row) { return static_cast<Index>(row) % static_cast<Index>(S::kBuckets); };
  CheckShare<S>(index, errors);
  Index mine = 0;
  Index lower = 0;
#pragma unroll 4
  for (Index i = begin + lane; i < end; i += 32) {
    const int64 row = row_at(i);
    if (row < 0) continue;
    mine += bucket_of(row) == blockIdx.x ? 1 : 0;
    lower += bucket_of(row) < blockIdx.x ? 1 : 0;
  }
  __syncwarp();
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    mine += __shfl_xor_sync(0xffffffffu, mine, distance);
    lower += __shfl_xor_sync(0xffffffffu, lower, distance);
  }
  if (lane == 0) {
    counts[warp] = mine;
    before[warp] = lower;
  }
  __syncthreads();
  Index start = 0;
  Index to = 0;
  Index total = 0;
  for (Index w = 0; w < kWarps; ++w) {
    start += before[w];
    total += counts[w];
    if (w < warp) to += counts[w];
  }
  to += start;
  if (threadIdx.x == 0) {
    starts[blockIdx.x] = start;
    if (blockIdx.x + 1 == gridDim.x) starts[gridDim.x] = start + total;
  }
#pragma unroll 4
  for (Index i = begin + lane; i < end; i += 32) {
    const int64 row = row_at(i);
    const bool is_mine = row >= 0 && bucket_of(row) == blockIdx.x;
    const unsigned found = __ballot_sync(0xffffffffu, is_mine);
    if (is_mine) {
      const Index entry = to + static_cast<Index>(__popc(found & ((1u << lane) - 1)));
      positions[entry] = i;
      entry_rows[entry] = static_cast<Index>(row);
    }
    to += static_cast<Index>(__popc(found));
  }
}

}  // namespace cotan::indexing
