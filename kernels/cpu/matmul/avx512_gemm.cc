// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/avx512_gemm.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/simd/transpose16.h"
#include "kernels/cpu/threading/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define COTAN_HAS_WIDE_MATMUL 1
#define COTAN_WIDE_TARGET __attribute__((target("avx512f")))
#endif

namespace cotan::cpu {

#ifdef COTAN_HAS_WIDE_MATMUL
namespace {

constexpr int64_t kVector = 16;            // floats
constexpr uint16_t kWholeVector = 0xffff;  // as a mask
constexpr int64_t kMaxVectors = 4;         // of a panel of the right matrix
constexpr int64_t kMaxDepth = 512;         // of a panel, which stays in the second-level cache
constexpr int64_t kNearBytes = 24 << 10;   // of a left matrix stored by columns, in the first-level cache

// Computes c[rows, columns] (+)= a b for the columns of one panel.
struct Tile {
  const float* a = nullptr;
  int64_t a_row = 0;
  int64_t a_column = 0;
  const float* panel = nullptr;  // [depth, vectors of columns]
  int64_t depth = 0;
  const float* bias = nullptr;  // null: none
  bool adds = false;
  float* c = nullptr;
  int64_t c_row = 0;
  uint16_t mask = kWholeVector;  // of the last vector
};

template <int kRows, int kVectors>
COTAN_WIDE_TARGET void MakeTile(const Tile& tile) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  const float* a = tile.a;
  const float* b = tile.panel;
  const int64_t a_row = tile.a_row;
#pragma GCC unroll 1
  for (int64_t k = 0; k < tile.depth; ++k, a += tile.a_column, b += kVectors * kVector) {
    __m512 right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_load_ps(b + v * kVector);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512 left = _mm512_set1_ps(a[i * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(left, right[v], sum[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const auto mask = static_cast<__mmask16>(v == kVectors - 1 ? tile.mask : kWholeVector);
    const __m512 bias =
        tile.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, tile.bias + v * kVector);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      float* const c = tile.c + i * tile.c_row + v * kVector;
      __m512 value = _mm512_add_ps(sum[i][v], bias);
      if (tile.adds) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, c));
      // A store under a mask is slower on AMD Zen 4, also if all its bits are set.
      if (mask == kWholeVector) {
        _mm512_storeu_ps(c, value);
      } else {
        _mm512_mask_storeu_ps(c, mask, value);
      }
    }
  }
}

using TileFn = void (*)(const Tile& tile);

// Tiles of one width, the highest first: it has as many sums as there are registers.
struct TileColumn {
  int64_t rows;
  TileFn full;
  std::array<TileFn, 4> rest;  // of 8, 4, 2 and 1 rows
};

constexpr TileColumn kTiles[kMaxVectors] = {
    {12, MakeTile<12, 1>, {MakeTile<8, 1>, MakeTile<4, 1>, MakeTile<2, 1>, MakeTile<1, 1>}},
    {12, MakeTile<12, 2>, {MakeTile<8, 2>, MakeTile<4, 2>, MakeTile<2, 2>, MakeTile<1, 2>}},
    {8, MakeTile<8, 3>, {nullptr, MakeTile<4, 3>, MakeTile<2, 3>, MakeTile<1, 3>}},
    {6, MakeTile<6, 4>, {nullptr, MakeTile<4, 4>, MakeTile<2, 4>, MakeTile<1, 4>}},
};

// Computes all rows of one panel.
void MakeRows(Tile tile, int64_t rows, int64_t vectors) {
  const TileColumn& tiles = kTiles[vectors - 1];
  const auto make = [&](TileFn fn, int64_t count) {
    fn(tile);
    tile.a += count * tile.a_row;
    tile.c += count * tile.c_row;
    rows -= count;
  };
  while (rows >= tiles.rows) make(tiles.full, tiles.rows);
  for (size_t i = 0; i < tiles.rest.size(); ++i) {
    const int64_t count = int64_t{8} >> i;
    if (rows >= count && tiles.rest[i] != nullptr) make(tiles.rest[i], count);
  }
}

// Computes to[k, i] = from[i * stride + k] for 16 i and k, where i < rows and k < depth; the remaining
// columns become 0. `to` has rows `to_row` apart.
COTAN_WIDE_TARGET void Transpose16(const float* from, int64_t stride, int64_t rows, int64_t depth, float* to,
                                   int64_t to_row) {
  Float16Lanes r[16];
  const auto mask = static_cast<__mmask16>(depth >= kVector ? 0xffff : (1 << depth) - 1);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    r[i] = i < rows ? Float16Lanes(_mm512_maskz_loadu_ps(mask, from + i * stride)) : Float16Lanes{};
  }
  Transpose16x16(r);
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) {
    if (k < depth) _mm512_store_ps(to + k * to_row, r[k]);
  }
}

// Packs columns [0, columns) of the right matrix as rows of whole vectors.
COTAN_WIDE_TARGET void PackPanel(const float* b, MatrixStrides strides, int64_t depth, int64_t columns, float* panel) {
  const int64_t width = (columns + kVector - 1) / kVector * kVector;
  for (int64_t n = 0; n < columns; n += kVector) {
    const int64_t count = std::min(kVector, columns - n);
    const auto mask = static_cast<__mmask16>(0xffff >> (kVector - count));
    if (strides.column == 1) {
      for (int64_t k = 0; k < depth; ++k) {
        _mm512_store_ps(panel + k * width + n, _mm512_maskz_loadu_ps(mask, b + k * strides.row + n));
      }
      continue;
    }
    for (int64_t k = 0; k < depth; k += kVector) {
      Transpose16(b + n * strides.column + k, strides.column, count, depth - k, panel + k * width + n, width);
    }
  }
}

class Avx512Gemm final : public Kernel {
 public:
  Avx512Gemm(const MatmulGeometry& geometry, Addend addend, int threads)
      : g_(geometry), addend_(addend), threads_(ThreadsWorthwhile(threads, geometry.Flops())) {
    g_.a = NormalizeUnitStrides(g_.m, g_.k, g_.a);
    g_.b = NormalizeUnitStrides(g_.k, g_.n, g_.b);
    g_.c = NormalizeUnitStrides(g_.m, g_.n, g_.c);
    depth_ = std::min(g_.k, kMaxDepth);
    panels_ = (g_.n + kMaxVectors * kVector - 1) / (kMaxVectors * kVector);
    batch_ = g_.BatchSize();
    column_groups_ = std::min((threads_ + batch_ - 1) / batch_, panels_);
    row_groups_ =
        std::clamp<int64_t>(threads_ / (batch_ * column_groups_), 1, (g_.m + kAvx512GemmRows - 1) / kAvx512GemmRows);
    panel_floats_ = depth_ * std::min(kMaxVectors, (g_.n + kVector - 1) / kVector) * kVector;
    scratch_bytes_ = static_cast<size_t>(threads_ * panel_floats_) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const int64_t items = batch_ * row_groups_ * column_groups_;
    const int64_t grain = std::max<int64_t>((items + threads_ - 1) / threads_, 1);
    ParallelForWorker(threads_, items, grain, [&](int worker, int64_t begin, int64_t end) {
      float* const scratch = static_cast<float*>(args.scratch) + worker * panel_floats_;
      for (int64_t item = begin; item < end; ++item) RunItem(args, item, scratch);
    });
    return absl::OkStatus();
  }

 private:
  struct Range {
    int64_t begin;
    int64_t end;
  };

  static Range Part(int64_t count, int64_t parts, int64_t part) {
    return {count * part / parts, count * (part + 1) / parts};
  }

  void RunItem(const KernelArgs& args, int64_t item, float* scratch) const {
    const Range rows = Part(g_.m, row_groups_, item % row_groups_);
    item /= row_groups_;
    const Range panels = Part(panels_, column_groups_, item % column_groups_);
    item /= column_groups_;
    const auto* a = static_cast<const float*>(args.inputs[0]);
    const auto* b = static_cast<const float*>(args.inputs[1]);
    auto* c = static_cast<float*>(args.outputs[0]);
    for (size_t l = g_.batch.size(); l-- > 0;) {
      const BatchLoop& loop = g_.batch[l];
      const int64_t at = item % loop.size;
      item /= loop.size;
      a += at * loop.a;
      b += at * loop.b;
      c += at * loop.c;
    }
    const float* const bias = addend_ == Addend::kBias ? static_cast<const float*>(args.inputs[2]) : nullptr;
    for (int64_t k = 0; k < g_.k; k += depth_) {
      Tile tile = {.a = a + rows.begin * g_.a.row + k * g_.a.column, .a_row = g_.a.row, .a_column = g_.a.column};
      tile.depth = std::min(depth_, g_.k - k);
      tile.bias = k == 0 ? bias : nullptr;
      tile.adds = k > 0 || addend_ == Addend::kInOutput;
      tile.c = c + rows.begin * g_.c.row;
      tile.c_row = g_.c.row;
      for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
        RunPanel(tile, rows.end - rows.begin, b + k * g_.b.row, panel * kMaxVectors * kVector, scratch);
      }
    }
  }

  // Computes the rows of one panel for one range of k. `tile` is at the first column of the product, `b` at
  // the first of the right matrix.
  void RunPanel(Tile tile, int64_t rows, const float* b, int64_t column, float* packed) const {
    const int64_t columns = std::min(kMaxVectors * kVector, g_.n - column);
    const int64_t vectors = (columns + kVector - 1) / kVector;
    PackPanel(b + column * g_.b.column, g_.b, tile.depth, columns, packed);
    tile.panel = packed;
    if (tile.bias != nullptr) tile.bias += column;
    tile.c += column;
    tile.mask = static_cast<uint16_t>(0xffff >> (vectors * kVector - columns));
    MakeRows(tile, rows, vectors);
  }

  MatmulGeometry g_;
  const Addend addend_;
  const int threads_;
  int64_t depth_ = 0;  // of a panel
  int64_t panels_ = 0;
  int64_t batch_ = 0;
  // A work item is some rows and some panels of a product.
  int64_t column_groups_ = 0;
  int64_t row_groups_ = 0;
  int64_t panel_floats_ = 0;  // of a worker
};

}  // namespace

std::unique_ptr<Kernel> MakeAvx512Gemm(const MatmulGeometry& geometry, Addend addend, int threads, int64_t min_rows) {
  if (!__builtin_cpu_supports("avx512f")) return nullptr;
  if (geometry.m < min_rows) return nullptr;
  // Columns of a left matrix with a large stride map to the same cache sets, so the left matrix would have to
  // be packed as well.
  const MatrixStrides left = NormalizeUnitStrides(geometry.m, geometry.k, geometry.a);
  const int64_t depth = std::min(geometry.k, kMaxDepth);
  if (left.column != 1 && left.column * depth * static_cast<int64_t>(sizeof(float)) > kNearBytes) return nullptr;
  return std::make_unique<Avx512Gemm>(geometry, addend, threads);
}

#else

std::unique_ptr<Kernel> MakeAvx512Gemm(const MatmulGeometry& /*geometry*/, Addend /*addend*/, int /*threads*/,
                                       int64_t /*min_rows*/) {
  return nullptr;
}

#endif

}  // namespace cotan::cpu
