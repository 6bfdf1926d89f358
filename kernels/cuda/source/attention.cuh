// SPDX-License-Identifier: Apache-2.0

// The forward of attention, softmax(q k^T * scale + bias) v, in tiles of queries and keys: the scores of a tile are
// used at once and never stored, the sums are rescaled when a later tile has a larger maximum (FlashAttention,
// arXiv:2205.14135).
//
// An attention is a type X with
//   Compute (float or double), Index (of an element of a head), Block (of a block)
//   kAllHeads, kHeads (of a batch entry), kQueries, kKeys; kIsCausal: query i attends to keys 0 to i; kHasBias,
//   kHasLogSumExp; Scale(), and ScaleInLn2(), that by log2(e)
//   Query, Key, Value, Bias, Result, LogSumExp: Operand
//   Size, ValueSize: Columns of queries and keys, and of values
//   kLanes, kThreadRows, kTileQueries, kTileKeys, kWeightStride, kSharedBytes
//   kBlocks, kGrid: number of parts, and of blocks that share them
#pragma once

#include "cotan/attention_tile.cuh"

namespace cotan::attention {

// Scales the scores of the rows of this thread, in units of ln 2, adds the bias, and masks with -inf. `key` is the key
// of column 0 of the tile. Returns whether the tile may have masked scores.
template <typename X, int kCount>
__device__ inline bool FinishScores(const typename X::Query::Element* bias, typename X::Index query,
                                    typename X::Index key, typename X::Compute (&scores)[X::kThreadRows][kCount]) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  const Compute scale = X::ScaleInLn2();
  if constexpr (!X::kHasBias) {
    // Scores of rows after the last query are not used.
    constexpr Index kTileKeys = kCount * X::kLanes;
    if ((key + kTileKeys <= X::kKeys) & (!X::kIsCausal | (key + kTileKeys - 1 <= query))) {
#pragma unroll
      for (int r = 0; r < X::kThreadRows; ++r) {
#pragma unroll
        for (int c = 0; c < kCount; ++c) scores[r][c] *= scale;
      }
      return false;
    }
  }
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
    const Index i = query + FirstRow<X>() + r;
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const Index j = key + Lane<X>() + c * X::kLanes;
      const bool visible = (i < X::kQueries) & (j < X::kKeys) & (!X::kIsCausal | (j <= i));
      Compute score = scores[r][c] * scale;
      if constexpr (X::kHasBias) {
        // A masked score reads the first element, so that no branch is needed.
        const Index at = i * static_cast<Index>(X::Bias::kRow) + j * static_cast<Index>(X::Bias::kColumn);
        score = MultiplyAdd(Widen(bias[visible ? at : 0]), static_cast<Compute>(kLog2E), score);
      }
      scores[r][c] = visible ? score : MinusInfinity<Compute>();
    }
  }
  return true;
}

// The maximum, in units of ln 2, and the sum of exponentials of the rows of a thread; the sum is over the columns of
// this lane.
template <typename X>
struct SoftmaxRows {
  using Compute = typename X::Compute;

  Compute max[X::kThreadRows];
  Compute total[X::kThreadRows];

  __device__ SoftmaxRows() {
#pragma unroll
    for (int r = 0; r < X::kThreadRows; ++r) {
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
    for (int distance = X::kLanes / 2; distance > 0; distance /= 2) {
      largest = Max(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    }
    const bool nothing = largest == MinusInfinity<Compute>();
    const Compute factor = nothing || max[r] == largest ? Compute{1} : Exp2(max[r] - largest);
    Compute sum = 0;
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      // Max() ignores NaN, which is then the weight.
      scores[c] = nothing && scores[c] == MinusInfinity<Compute>() ? Compute{0} : Exp2(scores[c] - largest);
      sum += scores[c];
    }
    total[r] = total[r] * factor + sum;
    max[r] = largest;
    return factor;
  }

  __device__ Compute Total(int r) const {
    Compute sum = total[r];
#pragma unroll
    for (int distance = X::kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;
  }
};

// Divides the sums of a part by the totals of their rows, and stores them and logsumexp.
template <typename X>
__device__ inline void FinishRows(const SoftmaxRows<X>& softmax,
                                  const typename X::Compute (&sums)[X::kThreadRows][X::ValueSize::kCount],
                                  typename X::Index query, int chunk, typename X::Query::Element* result,
                                  typename X::Compute* logsumexp) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  Compute factors[X::kThreadRows];
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
    const Compute total = softmax.Total(r);
    factors[r] = total == 0 ? Compute{0} : 1 / total;
    const Index row = query + FirstRow<X>() + r;
    if (X::kHasLogSumExp && chunk == 0 && Lane<X>() == 0 && row < X::kQueries) {
      logsumexp[row * static_cast<Index>(X::LogSumExp::kRow)] =
          (softmax.max[r] + Log2(total)) * static_cast<Compute>(kLn2);
    }
  }
  StoreRows<X, typename X::Result, typename X::ValueSize>(sums, factors, query, static_cast<Index>(X::kQueries), chunk,
                                                          result);
}

// Offsets in shared memory of the tiles of the forward, in elements.
template <typename X>
struct ForwardTiles {
  static constexpr int kThreads = X::kTileQueries / X::kThreadRows * X::kLanes;
  static constexpr int kCount = X::kTileKeys / X::kLanes;
  static constexpr int kKeys = X::kTileQueries * X::Size::kStride;
  static constexpr int kValues = kKeys + X::kTileKeys * X::Size::kStride;
  static constexpr int kWeights = kValues + X::kTileKeys * X::ValueSize::kStride;
  static_assert((kWeights + X::kTileQueries * X::kWeightStride) * sizeof(typename X::Compute) == X::kSharedBytes);
};

template <typename X>
__device__ inline typename X::Compute* SharedTiles() {
  extern __shared__ __align__(16) unsigned char shared[];
  return reinterpret_cast<typename X::Compute*>(shared);
}

// Adds the values of a tile of keys with these scores to the sums.
template <typename X>
__device__ inline void AddValues(typename X::Compute (&scores)[X::kThreadRows][ForwardTiles<X>::kCount],
                                 typename X::Index keys, SoftmaxRows<X>& softmax,
                                 typename X::Compute (&sums)[X::kThreadRows][X::ValueSize::kCount]) {
  using Tiles = ForwardTiles<X>;
  typename X::Compute* const weights = SharedTiles<X>() + Tiles::kWeights;
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
    const typename X::Compute factor = softmax.Add(r, scores[r]);
#pragma unroll
    for (int c = 0; c < X::ValueSize::kCount; ++c) sums[r][c] *= factor;
#pragma unroll
    for (int c = 0; c < Tiles::kCount; ++c) {
      weights[(FirstRow<X>() + r) * X::kWeightStride + Lane<X>() + c * X::kLanes] = scores[r][c];
    }
  }
  __syncwarp();
  MultiplyRows<X, typename X::ValueSize>(weights, SharedTiles<X>() + Tiles::kValues,
                                         static_cast<int>(keys < X::kTileKeys ? keys : X::kTileKeys), sums);
}

// Computes the rows of one part. While a tile of keys is multiplied, its values are copied to shared memory, and while
// those are multiplied, the next keys.
template <typename X>
__device__ inline void AttendPart(const Part& part, const typename X::Query::Element* q,
                                  const typename X::Query::Element* k, const typename X::Query::Element* v,
                                  const typename X::Query::Element* bias, typename X::Query::Element* result,
                                  typename X::Compute* logsumexp) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  using Size = typename X::Size;
  using Tiles = ForwardTiles<X>;
  Compute* const tiles = SharedTiles<X>();
  const Index query = static_cast<Index>(part.tile) * X::kTileQueries;
  const Index queries = static_cast<Index>(X::kQueries) - query;
  Index visible = static_cast<Index>(X::kKeys);
  if (X::kIsCausal && query + X::kTileQueries < visible) visible = query + X::kTileQueries;
  const auto stage_queries = [&](int chunk) {
    StageAsync<typename X::Query, Size, X::kTileQueries, Tiles::kThreads>(q, query, queries, chunk, tiles);
  };
  const auto stage_keys = [&](Index key, int chunk) {
    StageAsync<typename X::Key, Size, X::kTileKeys, Tiles::kThreads>(k, key, visible - key, chunk,
                                                                     tiles + Tiles::kKeys);
  };

  SoftmaxRows<X> softmax;
  Compute sums[X::kThreadRows][X::ValueSize::kCount] = {};
  stage_queries(0);
  stage_keys(0, 0);
  FinishStaging();
  for (Index key = 0; key < visible; key += X::kTileKeys) {
    StageAsync<typename X::Value, typename X::ValueSize, X::kTileKeys, Tiles::kThreads>(
        v, key, visible - key, part.chunk, tiles + Tiles::kValues);
    Compute scores[X::kThreadRows][Tiles::kCount] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < Size::kChunks; ++chunk) {
      if (chunk > 0) {
        stage_queries(chunk);
        stage_keys(key, chunk);
        FinishStaging();
      }
      MultiplyTransposed<X, Size::kDepth, Size::kStride>(tiles, tiles + Tiles::kKeys, scores);
      FinishStaging();
    }
    if (Size::kChunks > 1) stage_queries(0);
    if (key + X::kTileKeys < visible) stage_keys(key + X::kTileKeys, 0);
    FinishScores<X>(bias, query, key, scores);
    AddValues<X>(scores, visible - key, softmax, sums);
    FinishStaging();
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
    // The last queries see most keys.
    const Part part = PartOf<typename X::Block, X::kHeads, kTiles, X::ValueSize::kChunks, X::kAllHeads, X::kIsCausal,
                             /*kLastIsLargest=*/true>(block);
    AttendPart<X>(part, HeadOf<typename X::Query>(q, part), HeadOf<typename X::Key>(k, part),
                  HeadOf<typename X::Value>(v, part), HeadOf<typename X::Bias>(bias, part),
                  HeadOf<typename X::Result>(result, part), HeadOf<typename X::LogSumExp>(logsumexp, part));
    block += static_cast<typename X::Block>(X::kGrid);
  } while (X::kBlocks > X::kGrid && block < X::kBlocks);
}

}  // namespace cotan::attention
