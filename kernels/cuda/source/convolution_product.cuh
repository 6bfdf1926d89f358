// SPDX-License-Identifier: Apache-2.0

// Schedules of the products of convolution.cuh. Each element of a result is a sum in an order that depends on sizes
// alone.
#pragma once

#include "cotan/convolution.cuh"

namespace cotan::convolution {

// Elements of the loads of a tile of kLines x kSteps by kThreads threads. If kLineInner, neighbouring threads have
// neighbouring lines (rows of A, columns of B), and a thread has one line and kCount steps; otherwise one step and
// kCount lines.
template <int kLines, int kSteps, int kThreads, bool kLineInner>
struct TileLoad {
  static constexpr int kCount = kLines * kSteps / kThreads;
  static constexpr int kNumLines = kLineInner ? 1 : kCount;
  static constexpr int kNumSteps = kLineInner ? kCount : 1;
  static_assert(kLines * kSteps % kThreads == 0 && kThreads % kLines == 0 && kThreads % kSteps == 0);

  __device__ static int Line(int i) {
    const int thread = static_cast<int>(threadIdx.x);
    return kLineInner ? thread % kLines : thread / kSteps + i * (kThreads / kSteps);
  }
  __device__ static int Step(int i) {
    const int thread = static_cast<int>(threadIdx.x);
    return kLineInner ? thread / kLines + i * (kThreads / kLines) : thread % kSteps;
  }
};

// How a block computes a tile of kTileRows x kTileColumns: kRowThreads x kColumnThreads threads.
template <int kTileRows_, int kTileColumns_, int kTileSteps_, int kRowThreads_, int kColumnThreads_, bool kARowInner_,
          bool kBColumnInner_, bool kResultColumnInner_>
struct Tiling {
  static constexpr int kTileRows = kTileRows_;
  static constexpr int kTileColumns = kTileColumns_;
  static constexpr int kTileSteps = kTileSteps_;
  static constexpr int kRowThreads = kRowThreads_;
  static constexpr int kColumnThreads = kColumnThreads_;
  static constexpr int kThreads = kRowThreads * kColumnThreads;
  static constexpr int kThreadRows = kTileRows / kRowThreads;
  static constexpr int kThreadColumns = kTileColumns / kColumnThreads;
  // Whether neighbouring threads load neighbouring rows of A (else: steps), columns of B (else: steps), and store
  // neighbouring columns (else: rows).
  static constexpr bool kResultColumnInner = kResultColumnInner_;
  using LoadA = TileLoad<kTileRows, kTileSteps, kThreads, kARowInner_>;
  using LoadB = TileLoad<kTileColumns, kTileSteps, kThreads, kBColumnInner_>;
};

// Lines (P::Row or P::Column) of a thread. The type has no default constructor, so that it lists them one by one.
template <typename Line, int kCount>
struct Lines {
  template <typename Index, typename LineOf>
  __device__ Lines(Index first, Index group, LineOf line_of)
      : rest(first, group, line_of), last(first + line_of(kCount - 1), group) {}
  __device__ const Line& operator[](int i) const { return i == kCount - 1 ? last : rest[i]; }
  Lines<Line, kCount - 1> rest;
  Line last;
};
template <typename Line>
struct Lines<Line, 1> {
  template <typename Index, typename LineOf>
  __device__ Lines(Index first, Index group, LineOf line_of) : last(first + line_of(0), group) {}
  __device__ const Line& operator[](int) const { return last; }
  Line last;
};

// Adds the product of two tiles to the sums of a thread.
template <typename T, typename Sum>
__device__ void MultiplyTile(const Sum (&a_tile)[T::kTileSteps][T::kTileRows + 1],
                             const Sum (&b_tile)[T::kTileSteps][T::kTileColumns + 1], int thread_row, int thread_column,
                             Sum (&sums)[T::kThreadRows][T::kThreadColumns]) {
#pragma unroll
  for (int k = 0; k < T::kTileSteps; ++k) {
    Sum a[T::kThreadRows];
    Sum b[T::kThreadColumns];
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) a[i] = a_tile[k][thread_row + i * T::kRowThreads];
#pragma unroll
    for (int j = 0; j < T::kThreadColumns; ++j) b[j] = b_tile[k][thread_column + j * T::kColumnThreads];
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < T::kThreadColumns; ++j) sums[i][j] = MultiplyAdd(a[i], b[j], sums[i][j]);
    }
  }
}

// Computes a tile of the product `p` over the steps [begin, end). write(row, column, sum) stores a sum.
template <typename T, typename P, typename WriteFn>
__device__ void TileOfProduct(const P& p, typename P::Index row0, typename P::Index column0, typename P::Index group,
                              typename P::Index begin, typename P::Index end, WriteFn write) {
  using Index = typename P::Index;
  using Sum = typename P::Sum;
  using LoadA = typename T::LoadA;
  using LoadB = typename T::LoadB;
  __shared__ Sum a_tile[T::kTileSteps][T::kTileRows + 1];
  __shared__ Sum b_tile[T::kTileSteps][T::kTileColumns + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = T::kResultColumnInner ? thread / T::kColumnThreads : thread % T::kRowThreads;
  const int thread_column = T::kResultColumnInner ? thread % T::kColumnThreads : thread / T::kRowThreads;
  const Lines<typename P::Row, LoadA::kNumLines> rows(row0, group, [](int i) { return LoadA::Line(i); });
  const Lines<typename P::Column, LoadB::kNumLines> columns(column0, group, [](int i) { return LoadB::Line(i); });

  // The next tile, on its way from global memory while the current one is multiplied.
  Sum a_next[LoadA::kCount];
  Sum b_next[LoadB::kCount];
  const auto load = [&](Index step0) {
#pragma unroll
    for (int i = 0; i < LoadA::kCount; ++i) {
      const Index step = step0 + LoadA::Step(i);
      const bool inside = step < end && row0 + LoadA::Line(i) < P::kRows;
      a_next[i] = inside ? p.A(rows[i % LoadA::kNumLines], typename P::Step(step)) : Sum(0);
    }
#pragma unroll
    for (int i = 0; i < LoadB::kCount; ++i) {
      const Index step = step0 + LoadB::Step(i);
      const bool inside = step < end && column0 + LoadB::Line(i) < P::kColumns;
      b_next[i] = inside ? p.B(typename P::Step(step), columns[i % LoadB::kNumLines]) : Sum(0);
    }
  };

  Sum sums[T::kThreadRows][T::kThreadColumns] = {};
  load(begin);
  for (Index step0 = begin; step0 < end; step0 += T::kTileSteps) {
#pragma unroll
    for (int i = 0; i < LoadA::kCount; ++i) a_tile[LoadA::Step(i)][LoadA::Line(i)] = a_next[i];
#pragma unroll
    for (int i = 0; i < LoadB::kCount; ++i) b_tile[LoadB::Step(i)][LoadB::Line(i)] = b_next[i];
    __syncthreads();
    if (step0 + T::kTileSteps < end) load(step0 + T::kTileSteps);
    MultiplyTile<T>(a_tile, b_tile, thread_row, thread_column, sums);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < T::kThreadRows; ++i) {
    const Index row = row0 + thread_row + i * T::kRowThreads;
#pragma unroll
    for (int j = 0; j < T::kThreadColumns; ++j) {
      const Index column = column0 + thread_column + j * T::kColumnThreads;
      if (row < P::kRows && column < P::kColumns) write(row, column, sums[i][j]);
    }
  }
}

// A block per tile and part of the steps. With more than one part the sums of part i go to `partial`, dense as
// [part, group, row, column], for SumParts().
template <typename T, typename P, typename P::Index kParts, typename P::Index kPartSteps>
__device__ void TiledProduct(const P& p, typename P::Sum* partial) {
  using Index = typename P::Index;
  constexpr Index kRowTiles = (P::kRows + T::kTileRows - 1) / T::kTileRows;
  constexpr Index kColumnTiles = (P::kColumns + T::kTileColumns - 1) / T::kTileColumns;
  Index block = blockIdx.x;
  const Index column0 = block % kColumnTiles * T::kTileColumns;
  block /= kColumnTiles;
  const Index row0 = block % kRowTiles * T::kTileRows;
  block /= kRowTiles;
  const Index group = block % P::Shape::kGroups;
  const Index part = block / P::Shape::kGroups;
  const Index begin = part * kPartSteps;
  const Index end = begin + kPartSteps < P::kSteps ? begin + kPartSteps : P::kSteps;
  TileOfProduct<T>(p, row0, column0, group, begin, end, [&](Index row, Index column, typename P::Sum sum) {
    if (kParts == 1) {
      p.Write(row, column, group, sum);
    } else {
      partial[((part * P::Shape::kGroups + group) * P::kRows + row) * P::kColumns + column] = sum;
    }
  });
}

// The element of the result that this thread of the grid, or this block, computes.
template <typename P, bool kColumnInner>
struct ResultElement {
  using Index = typename P::Index;
  static constexpr Index kCount = P::Shape::kGroups * P::kRows * P::kColumns;
  __device__ explicit ResultElement(Index i) {
    if (kColumnInner) {
      column = i % P::kColumns;
      group = i / P::kColumns % P::Shape::kGroups;
      row = i / P::kColumns / P::Shape::kGroups;
    } else {
      row = i % P::kRows;
      column = i / P::kRows % P::kColumns;
      group = i / P::kRows / P::kColumns;
    }
  }
  Index row, column, group;
};

// Adds the parts of TiledProduct() in order, a thread per element.
template <typename P, typename P::Index kParts>
__device__ void SumParts(const P& p, const typename P::Sum* partial) {
  using Index = typename P::Index;
  constexpr Index kCount = P::Shape::kGroups * P::kRows * P::kColumns;
  const Index i = static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
  if (i >= kCount) return;
  typename P::Sum sum = 0;
  for (Index part = 0; part < kParts; ++part) sum += partial[part * kCount + i];
  p.Write(i / P::kColumns % P::kRows, i % P::kColumns, i / P::kColumns / P::kRows, sum);
}

// A thread per element of the result: for few columns per group, which would not fill a tile.
template <typename P, bool kColumnInner>
__device__ void ThreadProduct(const P& p) {
  using Index = typename P::Index;
  const Index i = static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
  if (i >= ResultElement<P, kColumnInner>::kCount) return;
  const ResultElement<P, kColumnInner> at(i);
  const typename P::Row row(at.row, at.group);
  const typename P::Column column(at.column, at.group);
  typename P::Sum sum = 0;
  for (Index k = 0; k < P::kSteps; ++k) {
    const typename P::Step step(k);
    sum = MultiplyAdd(p.A(row, step), p.B(step, column), sum);
  }
  p.Write(at.row, at.column, at.group, sum);
}

// A block per element of the result: for long sums with few rows per group.
template <typename P, int kThreads>
__device__ void BlockProduct(const P& p) {
  using Index = typename P::Index;
  __shared__ typename P::Sum sums[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const ResultElement<P, true> at(blockIdx.x);
  const typename P::Row row(at.row, at.group);
  const typename P::Column column(at.column, at.group);
  typename P::Sum sum = 0;
  for (Index k = thread; k < P::kSteps; k += kThreads) {
    const typename P::Step step(k);
    sum = MultiplyAdd(p.A(row, step), p.B(step, column), sum);
  }
  sums[thread] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) sums[thread] += sums[thread + half];
    __syncthreads();
  }
  if (thread == 0) p.Write(at.row, at.column, at.group, sums[0]);
}

}  // namespace cotan::convolution
