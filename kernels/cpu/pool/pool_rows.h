// SPDX-License-Identifier: Apache-2.0

// Loops over the rows of a pool, shared among threads.
#ifndef COTAN_KERNELS_CPU_POOL_POOL_ROWS_H_
#define COTAN_KERNELS_CPU_POOL_POOL_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/pool/pool_geometry.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {

// Returns the items of a chunk of ParallelFor(), each of `work_per_item` comparisons or additions.
inline int64_t PoolGrain(double work_per_item) {
  return std::max<int64_t>(1, static_cast<int64_t>(kPoolWorkPerChunk / (work_per_item + 1)));
}

// Returns the offsets of output row [d, h] of the outer index that begins at `start`.
inline PoolOffsets RowOffsets(const PoolGeometry& g, const PoolOffsets& start, int64_t d, int64_t h) {
  PoolOffsets at = start;
  at.output += d * g.axes[0].output_stride + h * g.axes[1].output_stride;
  at.index += d * g.axes[0].index_stride + h * g.axes[1].index_stride;
  return at;
}

// Calls begin(worker) before the rows of a chunk and row(worker, d, h, offsets of the row) for all rows of a forward
// pool. Threads share the rows.
template <typename Begin, typename Row>
void ForEachOutputRow(const PoolGeometry& g, int threads, Begin begin_chunk, Row row) {
  const int64_t rows_per_outer = g.axes[0].output * g.axes[1].output;
  if (g.OutputCount() == 0) return;
  const int64_t rows = g.OuterCount() * rows_per_outer;
  const int64_t grain = PoolGrain(g.Work() / static_cast<double>(rows));
  ParallelForWorker(threads, rows, grain, [&](int worker, int64_t begin, int64_t end) {
    begin_chunk(worker);
    int64_t outer = begin / rows_per_outer;
    int64_t d = begin % rows_per_outer / g.axes[1].output;
    int64_t h = begin % g.axes[1].output;
    PoolOffsets start = g.OuterOffsets(outer);
    for (int64_t i = begin; i < end; ++i) {
      row(worker, d, h, RowOffsets(g, start, d, h));
      if (++h < g.axes[1].output) continue;
      h = 0;
      if (++d < g.axes[0].output) continue;
      d = 0;
      start = g.OuterOffsets(++outer);
    }
  });
}

// Calls `row` for all rows of a backward pool. Windows may overlap, so threads share the outer dimensions.
template <typename Row>
void ForEachOutputRowByOuter(const PoolGeometry& g, int threads, Row row) {
  if (g.OutputCount() == 0) return;
  const int64_t outer = g.OuterCount();
  ParallelFor(threads, outer, PoolGrain(g.Work() / static_cast<double>(outer)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const PoolOffsets start = g.OuterOffsets(i);
      for (int64_t d = 0; d < g.axes[0].output; ++d) {
        for (int64_t h = 0; h < g.axes[1].output; ++h) row(d, h, RowOffsets(g, start, d, h));
      }
    }
  });
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_POOL_ROWS_H_
