// SPDX-License-Identifier: Apache-2.0

// The forward of attention, softmax(q k^T * scale + bias) v, in tiles of queries and keys: the scores of a tile are
// used at once and never stored, the sums are rescaled when a later tile has a larger maximum (FlashAttention,
// arXiv:2205.14135).
//
// An attention is a type X with
//   Compute (float or double), Index (of an element of a head), Block (of a block)
//   kHeads, kQueries, kKeys; kIsCausal: query i attends to keys 0 to i; kHasBias, kHasLogSumExp; Scale()
//   Query, Key, Value, Bias, Result, LogSumExp: Operand
//   Size, ValueSize: Columns of queries and keys, and of values
//   kTileQueries, kTileKeys, kWeightStride, kSharedBytes
//   kBlocks, kGrid: number of parts, and of blocks that share them
#pragma once

#include "cotan/attention_tile.cuh"

namespace cotan::attention {

// Scales the scores of the rows of this thread, adds the bias, and masks with -inf. `key` is the key of column 0 of the
// tile.
template <typename X, int kCount>
__device__ inline void FinishScores(const typename X::Query::Element* bias, typename X::Index query,
                                    typename X::Index key, typename X::Compute (&scores)[kThreadRows][kCount]) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  const Compute scale = X::Scale();
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const Index i = query + FirstRow() + r;
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const Index j = key + Lane() + c * kLanes;
      const bool visible = i < X::kQueries && j < X::kKeys && (!X::kIsCausal || j <= i);
      Compute score = scores[r][c] * scale;
      if constexpr (X::kHasBias) {
        if (visible) {
          score = score + Widen(bias[i * static_cast<Index>(X::Bias::kRow) + j * static_cast<Index>(X::Bias::kColumn)]);
        }
      }
      scores[r][c] = visible ? score : MinusInfinity<Compute>();
    }
  }
}

// The maximum and the sum of exponentials of the rows of a thread; the sum is over the columns of this lane.
template <typename Compute>
struct SoftmaxRows {
  Compute max[kThreadRows];
  Compute total[kThreadRows];

  __device__ SoftmaxRows() {
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      max[r] = MinusInfinity<Compute>();
      total[r] = 0;
    }
  }

  // Replaces scores of row r by weights relative to the new maximum; returns the factor of all sums before.
  template <int kCount>
  __device__ Compute Add(int r, Compute (&scores)[kCount]) {
    Compute largest = max[r];
#pragma unroll
    for (int c = 0; c < kCount; ++c) largest = Max(largest, scores[c]);
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      largest = Max(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    }
    const bool nothing = largest == MinusInfinity<Compute>();
    const Compute factor = nothing || max[r] == largest ? Compute{1} : Exp(max[r] - largest);
    Compute sum = 0;
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      scores[c] = nothing ? Compute{0} : Exp(scores[c] - largest);
      sum += scores[c];
    }
    total[r] = total[r] * factor + sum;
    max[r] = largest;
    return factor;
  }

  __device__ Compute Total(int r) const {
    Compute sum = total[r];
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;
  }
};

// Divides the sums of a part by the totals of their rows, and stores them and logsumexp.
template <typename X>
__device__ inline void FinishRows(const SoftmaxRows<typename X::Compute>& softmax,
                                  const typename X::Compute (&sums)[kThreadRows][X::ValueSize::kCount],
                                  typename X::Index query, int chunk, typename X::Query::Element* result,
                                  typename X::Compute* logsumexp) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  Compute factors[kThreadRows];
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const Compute total = softmax.Total(r);
    factors[r] = total == 0 ? Compute{0} : 1 / total;
    const Index row = query + FirstRow() + r;
    if (X::kHasLogSumExp && chunk == 0 && Lane() == 0 && row < X::kQueries) {
      logsumexp[row * static_cast<Index>(X::LogSumExp::kRow)] = softmax.max[r] + Log(total);
    }
  }
  StoreRows<typename X::Result, typename X::ValueSize>(sums, factors, query, static_cast<Index>(X::kQueries), chunk,
                                                       result);
}

// Computes the rows of one part.
template <typename X>
__device__ inline void AttendPart(const Part& part, const typename X::Query::Element* q,
                                  const typename X::Query::Element* k, const typename X::Query::Element* v,
                                  const typename X::Query::Element* bias, typename X::Query::Element* result,
                                  typename X::Compute* logsumexp) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  using Size = typename X::Size;
  using ValueSize = typename X::ValueSize;
  constexpr int kThreads = X::kTileQueries / kThreadRows * kLanes;
  constexpr int kCount = X::kTileKeys / kLanes;
  constexpr int kKeys = X::kTileQueries * Size::kStride;
  constexpr int kValues = kKeys + X::kTileKeys * Size::kStride;
  constexpr int kWeights = kValues + X::kTileKeys * ValueSize::kStride;
  static_assert((kWeights + X::kTileQueries * X::kWeightStride) * sizeof(Compute) == X::kSharedBytes);
  extern __shared__ __align__(16) unsigned char shared[];
  Compute* const tiles = reinterpret_cast<Compute*>(shared);
  Compute* const weights = tiles + kWeights;

  const Index query = static_cast<Index>(part.tile) * X::kTileQueries;
  const Index queries = static_cast<Index>(X::kQueries) - query;
  Index visible = static_cast<Index>(X::kKeys);
  if (X::kIsCausal && query + X::kTileQueries < visible) visible = query + X::kTileQueries;

  SoftmaxRows<Compute> softmax;
  Compute sums[kThreadRows][ValueSize::kCount] = {};
  if constexpr (Size::kChunks == 1) {
    Stage<typename X::Query, Size, X::kTileQueries, kThreads>(q, query, queries, 0, tiles);
  }
  for (Index key = 0; key < visible; key += X::kTileKeys) {
    const Index keys = visible - key;
    Stage<typename X::Value, ValueSize, X::kTileKeys, kThreads>(v, key, keys, part.chunk, tiles + kValues);
    Compute scores[kThreadRows][kCount] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < Size::kChunks; ++chunk) {
      if (chunk > 0) __syncthreads();
      if constexpr (Size::kChunks > 1) {
        Stage<typename X::Query, Size, X::kTileQueries, kThreads>(q, query, queries, chunk, tiles);
      }
      Stage<typename X::Key, Size, X::kTileKeys, kThreads>(k, key, keys, chunk, tiles + kKeys);
      __syncthreads();
      MultiplyTransposed<Size::kDepth, Size::kStride>(tiles, tiles + kKeys, scores);
    }
    FinishScores<X>(bias, query, key, scores);
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      const Compute factor = softmax.Add(r, scores[r]);
#pragma unroll
      for (int c = 0; c < ValueSize::kCount; ++c) sums[r][c] *= factor;
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        weights[(FirstRow() + r) * X::kWeightStride + Lane() + c * kLanes] = scores[r][c];
      }
    }
    __syncwarp();
    MultiplyRows<ValueSize, X::kWeightStride>(weights, tiles + kValues,
                                              static_cast<int>(keys < X::kTileKeys ? keys : X::kTileKeys), sums);
    __syncthreads();
  }
  FinishRows<X>(softmax, sums, query, part.chunk, result, logsumexp);
}

// The kernel. `bias` and `logsumexp` may be null.
template <typename X>
__device__ inline void Attend(const typename X::Query::Element* q, const typename X::Query::Element* k,
                              const typename X::Query::Element* v, const typename X::Query::Element* bias,
                              typename X::Query::Element* result, typename X::Compute* logsumexp) {
  constexpr int64 kTiles = (X::kQueries + X::kTileQueries - 1) / X::kTileQueries;
  typename X::Block block = blockIdx.x;
  do {
    Part part = PartOf<typename X::Block, X::kHeads, kTiles, X::ValueSize::kChunks>(block);
    // The last queries see most keys: they begin first.
    if (X::kIsCausal) part.tile = kTiles - 1 - part.tile;
    AttendPart<X>(part, HeadOf<typename X::Query>(q, part), HeadOf<typename X::Key>(k, part),
                  HeadOf<typename X::Value>(v, part), HeadOf<typename X::Bias>(bias, part),
                  HeadOf<typename X::Result>(result, part), HeadOf<typename X::LogSumExp>(logsumexp, part));
    block += static_cast<typename X::Block>(X::kGrid);
  } while (X::kBlocks > X::kGrid && block < X::kBlocks);
}

}  // namespace cotan::attention
