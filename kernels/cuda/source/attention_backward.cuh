// SPDX-License-Identifier: Apache-2.0

// The backward of attention. The weights are computed again from the saved logsumexp:
//
//   weight[i][j] = exp(score[i][j] - logsumexp[i])
//   slope[i][j]  = weight[i][j] * (grad[i] . v[j] - dot[i]) * scale, with dot[i] = grad[i] . result[i]
//   grad_q[i] = sum over j of slope[i][j] k[j]
//   grad_k[j] = sum over i of slope[i][j] q[i]
//   grad_v[j] = sum over i of weight[i][j] grad[i]
//
// Three kernels: the dots; the rows of grad_q, which loop over keys; the rows of grad_k and grad_v, which loop over
// queries. So each sum has one thread and one order.
//
// Besides those of attention.cuh, X has Grad, GradQuery, GradKey, GradValue: Operand; kTileRows and kTileColumns (of
// the tiles of the kernel: rows are those of its results) instead of kTileQueries and kTileKeys; for the dots kGroup
// (lanes of a row) and kRows.
#pragma once

#include "cotan/attention.cuh"

namespace cotan::attention {

// Computes dots[b, h, l] = sum of grad * result over the columns, kGroup lanes per row.
template <typename X>
__device__ inline void Dots(const typename X::Query::Element* grad, const typename X::Query::Element* result,
                            typename X::Compute* dots) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  constexpr int kThreads = 256;
  constexpr int kRowsOfBlock = kThreads / X::kGroup;
  const int lane = static_cast<int>(threadIdx.x) % X::kGroup;
  for (int64 first = static_cast<int64>(blockIdx.x) * kRowsOfBlock; first < X::kRows;
       first += static_cast<int64>(X::kGrid) * kRowsOfBlock) {
    const int64 row = first + static_cast<int>(threadIdx.x) / X::kGroup;
    const bool exists = row < X::kRows;
    Compute sum = 0;
    if (exists) {
      const int64 head = row / X::kQueries;
      const Part part = {head / X::kHeads, head % X::kHeads, 0, 0};
      const Index query = static_cast<Index>(row % X::kQueries);
      const auto* g = HeadOf<typename X::Grad>(grad, part) + query * static_cast<Index>(X::Grad::kRow);
      const auto* y = HeadOf<typename X::Result>(result, part) + query * static_cast<Index>(X::Result::kRow);
#pragma unroll 4
      for (Index e = lane; e < X::ValueSize::kTotal; e += X::kGroup) {
        sum = MultiplyAdd(Widen(g[e * static_cast<Index>(X::Grad::kColumn)]),
                          Widen(y[e * static_cast<Index>(X::Result::kColumn)]), sum);
      }
    }
#pragma unroll
    for (int distance = X::kGroup / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (exists && lane == 0) dots[row] = sum;
  }
}

// Offsets in shared memory of the tiles of one backward kernel, in elements. `left` has rows of the results, `right`
// the columns. If an operand has several chunks, tiles of different operands take turns in one place.
template <typename X>
struct BackwardTiles {
  using Size = typename X::Size;
  using ValueSize = typename X::ValueSize;
  static constexpr bool kResident = Size::kChunks == 1 && ValueSize::kChunks == 1;
  static constexpr int kLargestStride = Size::kStride > ValueSize::kStride ? Size::kStride : ValueSize::kStride;
  static constexpr int kLeft = 0;
  static constexpr int kLeftValue = kResident ? X::kTileRows * Size::kStride : 0;
  static constexpr int kRight = kLeftValue + X::kTileRows * (kResident ? ValueSize::kStride : kLargestStride);
  static constexpr int kRightValue = kRight + (kResident ? X::kTileColumns * Size::kStride : 0);
  static constexpr int kWeights = kRightValue + X::kTileColumns * (kResident ? ValueSize::kStride : kLargestStride);
  static constexpr int kStatistics = kWeights + X::kTileRows * X::kWeightStride;
  static constexpr int kThreads = X::kTileRows / kThreadRows * kLanes;
  static constexpr int kCount = X::kTileColumns / kLanes;
  static constexpr int kChunks = Size::kChunks > ValueSize::kChunks ? Size::kChunks : ValueSize::kChunks;
  static_assert((kStatistics + 2 * X::kTileColumns) * sizeof(typename X::Compute) == X::kSharedBytes);
};

template <typename X>
__device__ inline typename X::Compute* SharedTiles() {
  extern __shared__ __align__(16) unsigned char shared[];
  return reinterpret_cast<typename X::Compute*>(shared);
}

// products = left rows [row, ...) times right rows [column, ...), transposed, in chunks of columns C; the tiles are
// staged here, and a barrier of the block precedes.
template <typename X, typename Left, typename Right, typename C>
__device__ inline void MultiplyInChunks(const typename Left::Element* left, typename X::Index row,
                                        typename X::Index rows, const typename Right::Element* right,
                                        typename X::Index column, typename X::Index columns,
                                        typename X::Compute (&products)[kThreadRows][BackwardTiles<X>::kCount]) {
  using Tiles = BackwardTiles<X>;
  typename X::Compute* const tiles = SharedTiles<X>();
#pragma unroll 1
  for (int chunk = 0; chunk < C::kChunks; ++chunk) {
    Stage<Left, C, X::kTileRows, Tiles::kThreads>(left, row, rows, chunk, tiles + Tiles::kLeft);
    Stage<Right, C, X::kTileColumns, Tiles::kThreads>(right, column, columns, chunk, tiles + Tiles::kRight);
    __syncthreads();
    MultiplyTransposed<C::kDepth, C::kStride>(tiles + Tiles::kLeft, tiles + Tiles::kRight, products);
    __syncthreads();
  }
}

// Stores a tile of weights or slopes, in shared memory, for the lanes of the same rows.
template <typename X>
__device__ inline void ShareWeights(const typename X::Compute (&weights)[kThreadRows][BackwardTiles<X>::kCount]) {
  typename X::Compute* const to = SharedTiles<X>() + BackwardTiles<X>::kWeights + Lane();
  __syncwarp();
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
#pragma unroll
    for (int c = 0; c < BackwardTiles<X>::kCount; ++c) {
      to[(FirstRow() + r) * X::kWeightStride + c * kLanes] = weights[r][c];
    }
  }
  __syncwarp();
}

// sums += shared weights times rows [column, ...) of `right`, the columns of chunk `chunk`. `tile` is where they lie if
// tiles are resident; otherwise they are staged, and barriers precede and follow.
template <typename X, typename Right, typename C>
__device__ inline void AddProduct(const typename Right::Element* right, typename X::Index column,
                                  typename X::Index columns, int chunk, int tile,
                                  typename X::Compute (&sums)[kThreadRows][C::kCount]) {
  using Tiles = BackwardTiles<X>;
  typename X::Compute* const tiles = SharedTiles<X>();
  if constexpr (!Tiles::kResident) {
    if (chunk >= C::kChunks) return;
    Stage<Right, C, X::kTileColumns, Tiles::kThreads>(right, column, columns, chunk, tiles + tile);
    __syncthreads();
  }
  MultiplyRows<C, X::kWeightStride>(tiles + Tiles::kWeights, tiles + tile,
                                    static_cast<int>(columns < X::kTileColumns ? columns : X::kTileColumns), sums);
  if constexpr (!Tiles::kResident) __syncthreads();
}

// Replaces a score by its weight, and the product of gradient and value by the slope. A masked one has score -inf.
template <typename X>
__device__ inline void WeightAndSlope(typename X::Compute logsumexp, typename X::Compute dot,
                                      typename X::Compute& score, typename X::Compute& product) {
  using Compute = typename X::Compute;
  const bool masked = score == MinusInfinity<Compute>() || logsumexp == MinusInfinity<Compute>();
  score = masked ? Compute{0} : Exp(score - logsumexp);
  product = masked ? Compute{0} : score * (product - dot) * X::Scale();
}

// Loads logsumexp and the dots of the rows of this thread; zeros after the last query.
template <typename X>
__device__ inline void LoadStatistics(const typename X::Compute* logsumexp, const typename X::Compute* dots,
                                      typename X::Index query, typename X::Compute (&row_logsumexp)[kThreadRows],
                                      typename X::Compute (&row_dot)[kThreadRows]) {
  using Compute = typename X::Compute;
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const typename X::Index row = query + FirstRow() + r;
    const bool exists = row < X::kQueries;
    row_logsumexp[r] = exists ? logsumexp[row * static_cast<typename X::Index>(X::LogSumExp::kRow)] : Compute{0};
    row_dot[r] = exists ? dots[row] : Compute{0};
  }
}

// Computes rows of grad_q.
template <typename X>
__device__ inline void QueryGradientPart(const Part& part, const typename X::Query::Element* grad,
                                         const typename X::Query::Element* q, const typename X::Query::Element* k,
                                         const typename X::Query::Element* v, const typename X::Query::Element* bias,
                                         const typename X::Compute* logsumexp, const typename X::Compute* dots,
                                         typename X::Query::Element* grad_q) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  using Size = typename X::Size;
  using ValueSize = typename X::ValueSize;
  using Tiles = BackwardTiles<X>;
  Compute* const tiles = SharedTiles<X>();
  const Index query = static_cast<Index>(part.tile) * X::kTileRows;
  const Index queries = static_cast<Index>(X::kQueries) - query;
  Index visible = static_cast<Index>(X::kKeys);
  if (X::kIsCausal && query + X::kTileRows < visible) visible = query + X::kTileRows;

  Compute row_logsumexp[kThreadRows];
  Compute row_dot[kThreadRows];
  LoadStatistics<X>(logsumexp, dots, query, row_logsumexp, row_dot);
  if constexpr (Tiles::kResident) {
    Stage<typename X::Query, Size, X::kTileRows, Tiles::kThreads>(q, query, queries, 0, tiles + Tiles::kLeft);
    Stage<typename X::Grad, ValueSize, X::kTileRows, Tiles::kThreads>(grad, query, queries, 0,
                                                                      tiles + Tiles::kLeftValue);
  }
  Compute sums[kThreadRows][Size::kCount] = {};
  for (Index key = 0; key < visible; key += X::kTileColumns) {
    const Index keys = visible - key;
    Compute scores[kThreadRows][Tiles::kCount] = {};
    Compute slopes[kThreadRows][Tiles::kCount] = {};
    if constexpr (Tiles::kResident) {
      Stage<typename X::Key, Size, X::kTileColumns, Tiles::kThreads>(k, key, keys, 0, tiles + Tiles::kRight);
      Stage<typename X::Value, ValueSize, X::kTileColumns, Tiles::kThreads>(v, key, keys, 0,
                                                                            tiles + Tiles::kRightValue);
      __syncthreads();
      MultiplyTransposed<Size::kDepth, Size::kStride>(tiles + Tiles::kLeft, tiles + Tiles::kRight, scores);
      MultiplyTransposed<ValueSize::kDepth, ValueSize::kStride>(tiles + Tiles::kLeftValue, tiles + Tiles::kRightValue,
                                                                slopes);
    } else {
      MultiplyInChunks<X, typename X::Query, typename X::Key, Size>(q, query, queries, k, key, keys, scores);
      MultiplyInChunks<X, typename X::Grad, typename X::Value, ValueSize>(grad, query, queries, v, key, keys, slopes);
    }
    FinishScores<X>(bias, query, key, scores);
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
#pragma unroll
      for (int c = 0; c < Tiles::kCount; ++c) {
        WeightAndSlope<X>(row_logsumexp[r], row_dot[r], scores[r][c], slopes[r][c]);
      }
    }
    ShareWeights<X>(slopes);
    AddProduct<X, typename X::Key, Size>(k, key, keys, part.chunk, Tiles::kRight, sums);
    __syncthreads();
  }
  const Compute ones[kThreadRows] = {1, 1, 1, 1};
  StoreRows<typename X::GradQuery, Size>(sums, ones, query, static_cast<Index>(X::kQueries), part.chunk, grad_q);
}

// Replaces scores of a tile of keys and queries, and products of gradients and values, by weights and slopes. The bias
// is where the weights will be.
template <typename X>
__device__ inline void FinishTransposed(typename X::Index key, typename X::Index query,
                                        typename X::Compute (&scores)[kThreadRows][BackwardTiles<X>::kCount],
                                        typename X::Compute (&slopes)[kThreadRows][BackwardTiles<X>::kCount]) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  using Tiles = BackwardTiles<X>;
  const Compute* const tiles = SharedTiles<X>();
  const Compute scale = X::Scale();
#pragma unroll
  for (int c = 0; c < Tiles::kCount; ++c) {
    const int column = Lane() + c * kLanes;
    const Index i = query + column;
    const Compute logsumexp = tiles[Tiles::kStatistics + column];
    const Compute dot = tiles[Tiles::kStatistics + X::kTileColumns + column];
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      const Index j = key + FirstRow() + r;
      Compute score = scores[r][c] * scale;
      if constexpr (X::kHasBias) {
        score = score + tiles[Tiles::kWeights + (FirstRow() + r) * X::kWeightStride + column];
      }
      const bool visible = i < X::kQueries && j < X::kKeys && (!X::kIsCausal || j <= i);
      scores[r][c] = visible ? score : MinusInfinity<Compute>();
      WeightAndSlope<X>(logsumexp, dot, scores[r][c], slopes[r][c]);
    }
  }
}

// Stages what a tile of queries needs besides the operands of products: logsumexp, dots, and the bias.
template <typename X>
__device__ inline void StageQueryStatistics(const typename X::Query::Element* bias,
                                            const typename X::Compute* logsumexp, const typename X::Compute* dots,
                                            typename X::Index key, typename X::Index query) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  using Tiles = BackwardTiles<X>;
  Compute* const tiles = SharedTiles<X>();
  for (int i = static_cast<int>(threadIdx.x); i < X::kTileColumns; i += Tiles::kThreads) {
    const bool exists = query + i < X::kQueries;
    tiles[Tiles::kStatistics + i] =
        exists ? logsumexp[(query + i) * static_cast<Index>(X::LogSumExp::kRow)] : Compute{0};
    tiles[Tiles::kStatistics + X::kTileColumns + i] = exists ? dots[query + i] : Compute{0};
  }
  if constexpr (X::kHasBias) {
    // The bias transposed: its rows are keys.
    using Matrix = Operand<typename X::Bias::Element, 0, 0, X::Bias::kColumn, X::Bias::kRow, 1>;
    StageTile<Matrix, X::kTileRows, X::kTileColumns, X::kWeightStride, Tiles::kThreads>(
        bias + query * static_cast<Index>(X::Bias::kRow) + key * static_cast<Index>(X::Bias::kColumn),
        static_cast<Index>(X::kKeys) - key, static_cast<Index>(X::kQueries) - query, false, tiles + Tiles::kWeights);
  }
}

// Computes rows of grad_k and grad_v.
template <typename X>
__device__ inline void KeyGradientPart(const Part& part, const typename X::Query::Element* grad,
                                       const typename X::Query::Element* q, const typename X::Query::Element* k,
                                       const typename X::Query::Element* v, const typename X::Query::Element* bias,
                                       const typename X::Compute* logsumexp, const typename X::Compute* dots,
                                       typename X::Query::Element* grad_k, typename X::Query::Element* grad_v) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  using Size = typename X::Size;
  using ValueSize = typename X::ValueSize;
  using Tiles = BackwardTiles<X>;
  Compute* const tiles = SharedTiles<X>();
  const Index key = static_cast<Index>(part.tile) * X::kTileRows;
  const Index keys = static_cast<Index>(X::kKeys) - key;
  if constexpr (Tiles::kResident) {
    Stage<typename X::Key, Size, X::kTileRows, Tiles::kThreads>(k, key, keys, 0, tiles + Tiles::kLeft);
    Stage<typename X::Value, ValueSize, X::kTileRows, Tiles::kThreads>(v, key, keys, 0, tiles + Tiles::kLeftValue);
  }
  Compute sums_k[kThreadRows][Size::kCount] = {};
  Compute sums_v[kThreadRows][ValueSize::kCount] = {};
  // Queries before the first key see none of the keys.
  for (Index query = X::kIsCausal ? key / X::kTileColumns * X::kTileColumns : 0; query < X::kQueries;
       query += X::kTileColumns) {
    const Index queries = static_cast<Index>(X::kQueries) - query;
    Compute scores[kThreadRows][Tiles::kCount] = {};
    Compute slopes[kThreadRows][Tiles::kCount] = {};
    StageQueryStatistics<X>(bias, logsumexp, dots, key, query);
    if constexpr (Tiles::kResident) {
      Stage<typename X::Query, Size, X::kTileColumns, Tiles::kThreads>(q, query, queries, 0, tiles + Tiles::kRight);
      Stage<typename X::Grad, ValueSize, X::kTileColumns, Tiles::kThreads>(grad, query, queries, 0,
                                                                           tiles + Tiles::kRightValue);
      __syncthreads();
      MultiplyTransposed<Size::kDepth, Size::kStride>(tiles + Tiles::kLeft, tiles + Tiles::kRight, scores);
      MultiplyTransposed<ValueSize::kDepth, ValueSize::kStride>(tiles + Tiles::kLeftValue, tiles + Tiles::kRightValue,
                                                                slopes);
    } else {
      MultiplyInChunks<X, typename X::Key, typename X::Query, Size>(k, key, keys, q, query, queries, scores);
      MultiplyInChunks<X, typename X::Value, typename X::Grad, ValueSize>(v, key, keys, grad, query, queries, slopes);
    }
    FinishTransposed<X>(key, query, scores, slopes);
    ShareWeights<X>(scores);
    AddProduct<X, typename X::Grad, ValueSize>(grad, query, queries, part.chunk, Tiles::kRightValue, sums_v);
    ShareWeights<X>(slopes);
    AddProduct<X, typename X::Query, Size>(q, query, queries, part.chunk, Tiles::kRight, sums_k);
    __syncthreads();
  }
  const Compute ones[kThreadRows] = {1, 1, 1, 1};
  StoreRows<typename X::GradKey, Size>(sums_k, ones, key, static_cast<Index>(X::kKeys), part.chunk, grad_k);
  StoreRows<typename X::GradValue, ValueSize>(sums_v, ones, key, static_cast<Index>(X::kKeys), part.chunk, grad_v);
}

// The kernel of grad_q. `bias` may be null.
template <typename X>
__device__ inline void QueryGradient(const typename X::Query::Element* grad, const typename X::Query::Element* q,
                                     const typename X::Query::Element* k, const typename X::Query::Element* v,
                                     const typename X::Query::Element* bias, const typename X::Compute* logsumexp,
                                     const typename X::Compute* dots, typename X::Query::Element* grad_q) {
  constexpr int64 kTiles = (X::kQueries + X::kTileRows - 1) / X::kTileRows;
  typename X::Block block = blockIdx.x;
  do {
    Part part = PartOf<typename X::Block, X::kHeads, kTiles, X::Size::kChunks>(block);
    // The last queries see most keys: they begin first.
    if (X::kIsCausal) part.tile = kTiles - 1 - part.tile;
    QueryGradientPart<X>(part, HeadOf<typename X::Grad>(grad, part), HeadOf<typename X::Query>(q, part),
                         HeadOf<typename X::Key>(k, part), HeadOf<typename X::Value>(v, part),
                         HeadOf<typename X::Bias>(bias, part), HeadOf<typename X::LogSumExp>(logsumexp, part),
                         dots + (part.batch * X::kHeads + part.head) * X::kQueries,
                         HeadOf<typename X::GradQuery>(grad_q, part));
    block += static_cast<typename X::Block>(X::kGrid);
  } while (X::kBlocks > X::kGrid && block < X::kBlocks);
}

// The kernel of grad_k and grad_v. `bias` may be null.
template <typename X>
__device__ inline void KeyGradient(const typename X::Query::Element* grad, const typename X::Query::Element* q,
                                   const typename X::Query::Element* k, const typename X::Query::Element* v,
                                   const typename X::Query::Element* bias, const typename X::Compute* logsumexp,
                                   const typename X::Compute* dots, typename X::Query::Element* grad_k,
                                   typename X::Query::Element* grad_v) {
  constexpr int64 kTiles = (X::kKeys + X::kTileRows - 1) / X::kTileRows;
  typename X::Block block = blockIdx.x;
  do {
    const Part part = PartOf<typename X::Block, X::kHeads, kTiles, BackwardTiles<X>::kChunks>(block);
    KeyGradientPart<X>(part, HeadOf<typename X::Grad>(grad, part), HeadOf<typename X::Query>(q, part),
                       HeadOf<typename X::Key>(k, part), HeadOf<typename X::Value>(v, part),
                       HeadOf<typename X::Bias>(bias, part), HeadOf<typename X::LogSumExp>(logsumexp, part),
                       dots + (part.batch * X::kHeads + part.head) * X::kQueries,
                       HeadOf<typename X::GradKey>(grad_k, part), HeadOf<typename X::GradValue>(grad_v, part));
    block += static_cast<typename X::Block>(X::kGrid);
  } while (X::kBlocks > X::kGrid && block < X::kBlocks);
}

}  // namespace cotan::attention
