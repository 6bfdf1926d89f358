// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/copy_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/copy/loop_nest.h"

namespace cotan::cuda {
namespace {

constexpr size_t kFrom = 0;
constexpr size_t kTo = 1;
constexpr size_t kBoth[] = {kFrom, kTo};
// Rows and columns of a tile; if there are fewer of one, a tile has more of the other.
constexpr int64_t kTile = 32;
// Smaller matrices leave threads without work.
constexpr int64_t kMinTiled = 256;
// Elements per thread where there are enough to fill a GPU.
constexpr int64_t kPerThread = 4;
constexpr int64_t kManyElements = int64_t{1} << 18;

int64_t PerThread(int64_t count) { return count >= kManyElements ? kPerThread : 1; }

int64_t LargestIndex(const LoopNest& nest) { return std::max({nest.count(), nest.Extent(kFrom), nest.Extent(kTo)}); }

struct Job {
  std::string type;
  int64_t blocks;
};

Job DirectJob(size_t bytes, const LoopNest& nest) {
  const int64_t per_thread = PerThread(nest.count());
  return {absl::StrCat("cotan::copy::Direct<", WordTypeName(bytes), ", ", IndexTypeFor(LargestIndex(nest)), ", ",
                       per_thread, ", ", nest.Text(), ">"),
          CeilDiv(nest.count(), kCopyThreads * per_thread)};
}

Job DenseJob(size_t bytes, int64_t count) {
  const int64_t vectors = count / static_cast<int64_t>(16 / bytes);
  const int64_t per_thread = PerThread(vectors);
  return {absl::StrCat("cotan::copy::Dense<", WordTypeName(bytes), ", ", IndexTypeFor(count), ", ", per_thread, ", ",
                       count, ">"),
          CeilDiv(vectors, kCopyThreads * per_thread)};
}

// Returns the loop with the smallest stride in the source that is not 0, or the innermost one.
size_t InnerLoopOfSource(const LoopNest& nest) {
  size_t inner = nest.dims().size() - 1;
  const auto stride = [&](size_t d) { return nest.dims()[d].strides[kFrom]; };
  for (size_t d = nest.dims().size(); d-- > 0;) {
    if (stride(d) != 0 && (stride(inner) == 0 || stride(d) < stride(inner))) inner = d;
  }
  return inner;
}

// Returns whether tiles make accesses to the source consecutive.
bool WantsTiles(const LoopNest& nest, size_t row_loop) {
  if (row_loop + 1 >= nest.dims().size()) return false;
  const LoopDim& columns = nest.dims().back();
  const LoopDim& rows = nest.dims()[row_loop];
  return columns.strides[kFrom] != 0 && rows.strides[kFrom] != 0 && CeilDiv(kMinTiled, rows.size) <= columns.size;
}

// Returns the size of a tile along a dimension of `size` where the other dimension has `other`.
int64_t TileSize(int64_t size, int64_t other) {
  if (other >= kTile) return std::min(size, kTile);
  return std::min(size, kTile * kTile / other / kTile * kTile);
}

Job TiledJob(size_t bytes, const LoopNest& nest, size_t row_loop) {
  const int64_t largest = LargestIndex(nest);
  LoopNest rest = nest;
  const LoopDim columns = rest.Take(rest.dims().size() - 1);
  const LoopDim rows = rest.Take(row_loop);
  const int64_t tile_rows = TileSize(rows.size, columns.size);
  const int64_t tile_columns = TileSize(columns.size, rows.size);
  return {
      absl::StrCat("cotan::copy::Tiled<", WordTypeName(bytes), ", ", IndexTypeFor(largest), ", ", rows.size, ", ",
                   columns.size, ", ", tile_rows, ", ", tile_columns, ", ", rows.strides[kFrom], ", ",
                   columns.strides[kFrom], ", ", rows.strides[kTo], ", ", columns.strides[kTo], ", ", rest.Text(), ">"),
      CeilDiv(rows.size, tile_rows) * CeilDiv(columns.size, tile_columns) * rest.count()};
}

}  // namespace

CopyJob MakeCopyJob(size_t element_bytes, absl::Span<const int64_t> sizes, absl::Span<const int64_t> from_strides,
                    absl::Span<const int64_t> to_strides) {
  LoopNest nest(sizes, {from_strides, to_strides});
  if (nest.count() == 0) return {};
  nest.Simplify(kTo);
  const auto aligned = [](const Job& vectors, const Job& scalars, bool is_dense) {
    return CopyJob{absl::StrCat("cotan::copy::Aligned<", vectors.type, ", ", scalars.type, ">"), vectors.blocks,
                   is_dense};
  };
  const auto& dims = nest.dims();
  const bool is_dense = dims.empty() || (dims.size() == 1 && dims[0].strides[kFrom] == 1 && dims[0].strides[kTo] == 1);
  const auto max_vector = static_cast<int64_t>(16 / element_bytes);
  const Job scalars = DirectJob(element_bytes, nest);
  if (is_dense && max_vector > 1 && nest.count() >= max_vector) {
    return aligned(DenseJob(element_bytes, nest.count()), scalars, true);
  }
  const int64_t vector = nest.VectorSize(kBoth, max_vector);
  if (vector > 1) {
    const size_t bytes = element_bytes * static_cast<size_t>(vector);
    return aligned(DirectJob(bytes, nest.OfVectors(kBoth, vector)), scalars, is_dense);
  }
  if (!dims.empty()) {
    const size_t rows = InnerLoopOfSource(nest);
    if (WantsTiles(nest, rows)) {
      const Job tiles = TiledJob(element_bytes, nest, rows);
      return {tiles.type, tiles.blocks};
    }
  }
  return {scalars.type, scalars.blocks, is_dense};
}

}  // namespace cotan::cuda
