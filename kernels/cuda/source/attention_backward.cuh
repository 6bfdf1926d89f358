// SPDX-License-Identifier: Apache-2.0

// The backward of attention. The weights are computed again from the saved logsumexp:
//
//   weight[i][j] = exp(score[i][j] - logsumexp[i])
//   slope[i][j]  = weight[i][j] * (grad[i] . v[j] - dot[i]) * scale, with dot[i] = grad[i] . result[i]
//   grad_q[i] = sum over j of slope[i][j] k[j]
//   grad_k[j] = sum over i of slope[i][j] q[i]
//   grad_v[j] = sum over i of weight[i][j] grad[i]
//
// Two kernels: the dots and the rows of grad_q, which loop over keys; the rows of grad_k and grad_v, which loop over
// queries. So each sum has one thread and one order.
//
// Besides those of attention.cuh, X has Grad, GradQuery, GradKey, GradValue: Operand; kTileRows and kTileColumns (of
// the tiles of the kernel: rows are those of its results) instead of kTileQueries and kTileKeys.
#pragma once

#include "cotan/attention.cuh"

namespace cotan::attention {

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
  static constexpr int kThreads = X::kTileRows / X::kThreadRows * X::kLanes;
  static constexpr int kCount = X::kTileColumns / X::kLanes;
  static constexpr int kChunks = Size::kChunks > ValueSize::kChunks ? Size::kChunks : ValueSize::kChunks;
  static_assert((kStatistics + 2 * X::kTileColumns) * sizeof(typename X::Compute) == X::kSharedBytes);
};

// products = left rows [row, ...) times right rows [column, ...), transposed, in chunks of columns C; the tiles are
// staged here, and a barrier of the block precedes.
template <typename X, typename Left, typename Right, typename C>
__device__ inline void MultiplyInChunks(const typename Left::Element* left, typename X::Index row,
                                        typename X::Index rows, const typename Right::Element* right,
                                        typename X::Index column, typename X::Index columns,
                                        typename X::Compute (&products)[X::kThreadRows][BackwardTiles<X>::kCount]) {
  using Tiles = BackwardTiles<X>;
  typename X::Compute* const tiles = SharedTiles<X>();
#pragma unroll 1
  for (int chunk = 0; chunk < C::kChunks; ++chunk) {
    Stage<Left, C, X::kTileRows, Tiles::kThreads>(left, row, rows, chunk, tiles + Tiles::kLeft);
    Stage<Right, C, X::kTileColumns, Tiles::kThreads>(right, column, columns, chunk, tiles + Tiles::kRight);
    __syncthreads();
    MultiplyTransposed<X, C::kDepth, C::kStride>(tiles + Tiles::kLeft, tiles + Tiles::kRight, products);
    __syncthreads();
  }
}

// Stores a tile of weights or slopes, in shared memory, for the lanes of the same rows.
template <typename X>
__device__ inline void ShareWeights(const typename X::Compute (&weights)[X::kThreadRows][BackwardTiles<X>::kCount]) {
  typename X::Compute* const to = SharedTiles<X>() + BackwardTiles<X>::kWeights + Lane<X>();
  __syncwarp();
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
#pragma unroll
    for (int c = 0; c < BackwardTiles<X>::kCount; ++c) {
      to[(FirstRow<X>() + r) * X::kWeightStride + c * X::kLanes] = weights[r][c];
    }
  }
  __syncwarp();
}

// sums += shared weights times rows [column, ...) of `right`, the columns of chunk `chunk`. `tile` is where they lie if
// tiles are resident; otherwise they are staged, and barriers precede and follow.
template <typename X, typename Right, typename C>
__device__ inline void AddProduct(const typename Right::Element* right, typename X::Index column,
                                  typename X::Index columns, int chunk, int tile,
                                  typename X::Compute (&sums)[X::kThreadRows][C::kCount]) {
  using Tiles = BackwardTiles<X>;
  typename X::Compute* const tiles = SharedTiles<X>();
  if constexpr (!Tiles::kResident) {
    if (chunk >= C::kChunks) return;
    Stage<Right, C, X::kTileColumns, Tiles::kThreads>(right, column, columns, chunk, tiles + tile);
    __syncthreads();
  }
  MultiplyRows<X, C>(tiles + Tiles::kWeights, tiles + tile,
                     static_cast<int>(columns < X::kTileColumns ? columns : X::kTileColumns), sums);
  if constexpr (!Tiles::kResident) __syncthreads();
}

// Returns the weight of a score in units of ln 2, and of `logsumexp` in the same. A masked score is -inf, and so is the
// logsumexp of a query whose keys are all masked.
template <bool kIsMasked, typename Compute>
__device__ inline Compute WeightOf(Compute score, Compute logsumexp) {
  if (kIsMasked && (score == MinusInfinity<Compute>() || logsumexp == MinusInfinity<Compute>())) return 0;
  return Exp2(score - logsumexp);
}

// Returns the slope of a weight: 0 for that of a masked score, whatever the product of gradient and value is.
template <bool kIsMasked, typename Compute>
__device__ inline Compute SlopeOf(Compute weight, Compute product, Compute dot, Compute scale) {
  if (kIsMasked && weight == 0) return 0;
  return weight * (product - dot) * scale;
}

// Loads logsumexp, in units of ln 2, of the rows of this thread, and computes their dots; zeros after the last query.
template <typename X>
__device__ inline void MakeStatistics(const typename X::Query::Element* grad, const typename X::Query::Element* result,
                                      const typename X::Compute* logsumexp, typename X::Index query,
                                      typename X::Compute (&row_logsumexp)[X::kThreadRows],
                                      typename X::Compute (&row_dot)[X::kThreadRows]) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
    const Index row = query + FirstRow<X>() + r;
    row_logsumexp[r] = 0;
    row_dot[r] = 0;
    if (row >= X::kQueries) continue;
    row_logsumexp[r] = logsumexp[row * static_cast<Index>(X::LogSumExp::kRow)] * static_cast<Compute>(kLog2E);
    const auto* g = grad + row * static_cast<Index>(X::Grad::kRow);
    const auto* y = result + row * static_cast<Index>(X::Result::kRow);
#pragma unroll 4
    for (Index e = Lane<X>(); e < X::ValueSize::kTotal; e += X::kLanes) {
      row_dot[r] = MultiplyAdd(Widen(g[e * static_cast<Index>(X::Grad::kColumn)]),
                               Widen(y[e * static_cast<Index>(X::Result::kColumn)]), row_dot[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
#pragma unroll
    for (int distance = X::kLanes / 2; distance > 0; distance /= 2) {
      row_dot[r] += __shfl_xor_sync(0xffffffffu, row_dot[r], distance);
    }
  }
}

// Stores the dots of the rows of this thread for the kernel of grad_k.
template <typename X>
__device__ inline void StoreDots(const typename X::Compute (&row_dot)[X::kThreadRows], typename X::Index query,
                                 typename X::Compute* dots) {
  if (Lane<X>() != 0) return;
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
    const typename X::Index row = query + FirstRow<X>() + r;
    if (row < X::kQueries) dots[row] = row_dot[r];
  }
}

// Replaces products of gradients and values by slopes.
template <typename X, bool kIsMasked>
__device__ inline void MakeSlopes(const typename X::Compute (&logsumexp)[X::kThreadRows],
                                  const typename X::Compute (&dots)[X::kThreadRows],
                                  const typename X::Compute (&scores)[X::kThreadRows][BackwardTiles<X>::kCount],
                                  typename X::Compute (&products)[X::kThreadRows][BackwardTiles<X>::kCount]) {
  const typename X::Compute scale = X::Scale();
#pragma unroll
  for (int r = 0; r < X::kThreadRows; ++r) {
#pragma unroll
    for (int c = 0; c < BackwardTiles<X>::kCount; ++c) {
      products[r][c] =
          SlopeOf<kIsMasked>(WeightOf<kIsMasked>(scores[r][c], logsumexp[r]), products[r][c], dots[r], scale);
    }
  }
}

// Factors of rows that are stored as they are.
template <typename X>
struct Ones {
  typename X::Compute values[X::kThreadRows];

  __device__ Ones() {
#pragma unroll
    for (int r = 0; r < X::kThreadRows; ++r) values[r] = 1;
  }
};

// Computes rows of grad_q, and the dots of its rows.
template <typename X>
__device__ inline void QueryGradientPart(const Part& part, const typename X::Query::Element* grad,
                                         const typename X::Query::Element* q, const typename X::Query::Element* k,
                                         const typename X::Query::Element* v, const typename X::Query::Element* result,
                                         const typename X::Query::Element* bias, const typename X::Compute* logsumexp,
                                         typename X::Query::Element* grad_q, typename X::Compute* dots) {
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

  Compute row_logsumexp[X::kThreadRows];
  Compute row_dot[X::kThreadRows];
  MakeStatistics<X>(grad, result, logsumexp, query, row_logsumexp, row_dot);
  if (part.chunk == 0) StoreDots<X>(row_dot, query, dots);
  if constexpr (Tiles::kResident) {
    Stage<typename X::Query, Size, X::kTileRows, Tiles::kThreads>(q, query, queries, 0, tiles + Tiles::kLeft);
    Stage<typename X::Grad, ValueSize, X::kTileRows, Tiles::kThreads>(grad, query, queries, 0,
                                                                      tiles + Tiles::kLeftValue);
  }
  Compute sums[X::kThreadRows][Size::kCount] = {};
  for (Index key = 0; key < visible; key += X::kTileColumns) {
    const Index keys = visible - key;
    Compute scores[X::kThreadRows][Tiles::kCount] = {};
    Compute slopes[X::kThreadRows][Tiles::kCount] = {};
    if constexpr (Tiles::kResident) {
      Stage<typename X::Key, Size, X::kTileColumns, Tiles::kThreads>(k, key, keys, 0, tiles + Tiles::kRight);
      Stage<typename X::Value, ValueSize, X::kTileColumns, Tiles::kThreads>(v, key, keys, 0,
                                                                            tiles + Tiles::kRightValue);
      __syncthreads();
      MultiplyTransposed<X, Size::kDepth, Size::kStride>(tiles + Tiles::kLeft, tiles + Tiles::kRight, scores);
      MultiplyTransposed<X, ValueSize::kDepth, ValueSize::kStride>(tiles + Tiles::kLeftValue,
                                                                   tiles + Tiles::kRightValue, slopes);
    } else {
      MultiplyInChunks<X, typename X::Query, typename X::Key, Size>(q, query, queries, k, key, keys, scores);
      MultiplyInChunks<X, typename X::Grad, typename X::Value, ValueSize>(grad, query, queries, v, key, keys, slopes);
    }
    if (FinishScores<X>(bias, query, key, scores)) {
      MakeSlopes<X, true>(row_logsumexp, row_dot, scores, slopes);
    } else {
      MakeSlopes<X, false>(row_logsumexp, row_dot, scores, slopes);
    }
    ShareWeights<X>(slopes);
    AddProduct<X, typename X::Key, Size>(k, key, keys, part.chunk, Tiles::kRight, sums);
    __syncthreads();
  }
  StoreRows<X, typename X::GradQuery, Size>(sums, Ones<X>().values, query, static_cast<Index>(X::kQueries), part.chunk,
                                            grad_q);
}

// Replaces scores of a tile of keys and queries by weights. The bias is where the weights will be.
template <typename X, bool kIsMasked>
__device__ inline void MakeWeights(typename X::Index key, typename X::Index query,
                                   typename X::Compute (&scores)[X::kThreadRows][BackwardTiles<X>::kCount]) {
  using Index = typename X::Index;
  using Compute = typename X::Compute;
  using Tiles = BackwardTiles<X>;
  const Compute* const tiles = SharedTiles<X>();
  const Compute scale = X::ScaleInLn2();
#pragma unroll
  for (int c = 0; c < Tiles::kCount; ++c) {
    const int column = Lane<X>() + c * X::kLanes;
    const Compute logsumexp = tiles[Tiles::kStatistics + column];
#pragma unroll
    for (int r = 0; r < X::kThreadRows; ++r) {
      Compute score = scores[r][c] * scale;
      if constexpr (kIsMasked) {
        if constexpr (X::kHasBias) {
          const Compute added = tiles[Tiles::kWeights + (FirstRow<X>() + r) * X::kWeightStride + column];
          score = MultiplyAdd(added, static_cast<Compute>(kLog2E), score);
        }
        const Index i = query + column;
        const Index j = key + FirstRow<X>() + r;
        const bool visible = (i < X::kQueries) & (j < X::kKeys) & (!X::kIsCausal | (j <= i));
        if (!visible) score = MinusInfinity<Compute>();
      }
      scores[r][c] = WeightOf<kIsMasked>(score, logsumexp);
    }
  }
}

// Replaces products of gradients and values of a tile of keys and queries by slopes. The weights are shared.
template <typename X, bool kIsMasked>
__device__ inline void MakeSlopes(typename X::Compute (&products)[X::kThreadRows][BackwardTiles<X>::kCount]) {
  using Compute = typename X::Compute;
  using Tiles = BackwardTiles<X>;
  const Compute* const tiles = SharedTiles<X>();
  const Compute scale = X::Scale();
#pragma unroll
  for (int c = 0; c < Tiles::kCount; ++c) {
    const int column = Lane<X>() + c * X::kLanes;
    const Compute dot = tiles[Tiles::kStatistics + X::kTileColumns + column];
#pragma unroll
    for (int r = 0; r < X::kThreadRows; ++r) {
      const Compute weight = tiles[Tiles::kWeights + (FirstRow<X>() + r) * X::kWeightStride + column];
      products[r][c] = SlopeOf<kIsMasked>(weight, products[r][c], dot, scale);
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
        exists ? logsumexp[(query + i) * static_cast<Index>(X::LogSumExp::kRow)] * static_cast<Compute>(kLog2E)
               : Compute{0};
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
  Compute sums_k[X::kThreadRows][Size::kCount] = {};
  Compute sums_v[X::kThreadRows][ValueSize::kCount] = {};
  // Queries before the first key see none of the keys.
  for (Index query = X::kIsCausal ? key / X::kTileColumns * X::kTileColumns : 0; query < X::kQueries;
       query += X::kTileColumns) {
    const Index queries = static_cast<Index>(X::kQueries) - query;
    // Scores of rows after the last key, and of queries after the last one, whose gradients are zeros, are not used.
    const bool is_masked = X::kHasBias || (X::kIsCausal && query < key + X::kTileRows - 1);
    StageQueryStatistics<X>(bias, logsumexp, dots, key, query);
    if constexpr (Tiles::kResident) {
      Stage<typename X::Query, Size, X::kTileColumns, Tiles::kThreads>(q, query, queries, 0, tiles + Tiles::kRight);
      Stage<typename X::Grad, ValueSize, X::kTileColumns, Tiles::kThreads>(grad, query, queries, 0,
                                                                           tiles + Tiles::kRightValue);
      __syncthreads();
    }
    Compute scores[X::kThreadRows][Tiles::kCount] = {};
    if constexpr (Tiles::kResident) {
      MultiplyTransposed<X, Size::kDepth, Size::kStride>(tiles + Tiles::kLeft, tiles + Tiles::kRight, scores);
    } else {
      MultiplyInChunks<X, typename X::Key, typename X::Query, Size>(k, key, keys, q, query, queries, scores);
    }
    if (is_masked) {
      MakeWeights<X, true>(key, query, scores);
    } else {
      MakeWeights<X, false>(key, query, scores);
    }
    ShareWeights<X>(scores);
    AddProduct<X, typename X::Grad, ValueSize>(grad, query, queries, part.chunk, Tiles::kRightValue, sums_v);
    Compute slopes[X::kThreadRows][Tiles::kCount] = {};
    if constexpr (Tiles::kResident) {
      MultiplyTransposed<X, ValueSize::kDepth, ValueSize::kStride>(tiles + Tiles::kLeftValue,
                                                                   tiles + Tiles::kRightValue, slopes);
    } else {
      MultiplyInChunks<X, typename X::Value, typename X::Grad, ValueSize>(v, key, keys, grad, query, queries, slopes);
    }
    if (is_masked) {
      MakeSlopes<X, true>(slopes);
    } else {
      MakeSlopes<X, false>(slopes);
    }
    ShareWeights<X>(slopes);
    AddProduct<X, typename X::Query, Size>(q, query, queries, part.chunk, Tiles::kRight, sums_k);
    __syncthreads();
  }
  StoreRows<X, typename X::GradKey, Size>(sums_k, Ones<X>().values, key, static_cast<Index>(X::kKeys), part.chunk,
                                          grad_k);
  StoreRows<X, typename X::GradValue, ValueSize>(sums_v, Ones<X>().values, key, static_cast<Index>(X::kKeys),
                                                 part.chunk, grad_v);
}

// The kernel of grad_q. `bias` may be null.
template <typename X>
__device__ inline void QueryGradient(const typename X::Query::Element* grad, const typename X::Query::Element* q,
                                     const typename X::Query::Element* k, const typename X::Query::Element* v,
                                     const typename X::Query::Element* result, const typename X::Query::Element* bias,
                                     const typename X::Compute* logsumexp, typename X::Query::Element* grad_q,
                                     typename X::Compute* dots) {
  constexpr int64 kTiles = (X::kQueries + X::kTileRows - 1) / X::kTileRows;
  typename X::Block block = blockIdx.x;
  do {
    // The last queries see most keys.
    const Part part = PartOf<typename X::Block, X::kHeads, kTiles, X::Size::kChunks, X::kAllHeads, X::kIsCausal,
                             /*kLastIsLargest=*/true>(block);
    QueryGradientPart<X>(part, HeadOf<typename X::Grad>(grad, part), HeadOf<typename X::Query>(q, part),
                         HeadOf<typename X::Key>(k, part), HeadOf<typename X::Value>(v, part),
                         HeadOf<typename X::Result>(result, part), HeadOf<typename X::Bias>(bias, part),
                         HeadOf<typename X::LogSumExp>(logsumexp, part), HeadOf<typename X::GradQuery>(grad_q, part),
                         dots + (part.batch * X::kHeads + part.head) * X::kQueries);
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
    // The first keys are seen by most queries.
    const Part part = PartOf<typename X::Block, X::kHeads, kTiles, BackwardTiles<X>::kChunks, X::kAllHeads,
                             X::kIsCausal, /*kLastIsLargest=*/false>(block);
    KeyGradientPart<X>(part, HeadOf<typename X::Grad>(grad, part), HeadOf<typename X::Query>(q, part),
                       HeadOf<typename X::Key>(k, part), HeadOf<typename X::Value>(v, part),
                       HeadOf<typename X::Bias>(bias, part), HeadOf<typename X::LogSumExp>(logsumexp, part),
                       dots + (part.batch * X::kHeads + part.head) * X::kQueries,
                       HeadOf<typename X::GradKey>(grad_k, part), HeadOf<typename X::GradValue>(grad_v, part));
    block += static_cast<typename X::Block>(X::kGrid);
  } while (X::kBlocks > X::kGrid && block < X::kBlocks);
}

}  // namespace cotan::attention
