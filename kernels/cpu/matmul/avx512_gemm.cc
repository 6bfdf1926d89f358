// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/avx512_gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/rounding.h"
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
constexpr int64_t kTransposedRows = 192;   // of a product that is computed as its transpose, in cache
// Columns of the left matrix that a tile prefetches, and rows of a right matrix in place: processors do not recognize
// strides of kilobytes. A longer distance would evict lines from the first-level cache before they are used, if the
// stride is a multiple of 4096 bytes.
constexpr int64_t kPrefetchDistance = 8;
constexpr int64_t kMinPrefetchedStride = 256;  // floats
constexpr int kMinPrefetchingRows = 5;         // of a tile; with fewer, loads take the time on AMD Zen 4

// Computes c[rows, columns] (+)= a b for the columns of one panel.
struct Tile {
  const float* a = nullptr;
  int64_t a_row = 0;
  int64_t a_column = 0;
  const float* b = nullptr;  // right matrix in place, for tiles that pack
  int64_t b_row = 0;
  float* panel = nullptr;  // [depth, vectors of columns]
  int64_t depth = 0;
  const float* bias = nullptr;  // null: none
  bool adds = false;
  float* c = nullptr;
  int64_t c_row = 0;
  uint16_t mask = kWholeVector;  // of the last vector
};

// Returns some bias of a tile's rows, or zeros that leave what they are added to as it is, -0 included.
COTAN_WIDE_TARGET inline __m512 LoadBias(__mmask16 mask, const float* bias) {
  return bias == nullptr ? _mm512_set1_ps(-0.0F) : _mm512_maskz_loadu_ps(mask, bias);
}

template <int kRows, int kVectors>
[[gnu::always_inline]] COTAN_WIDE_TARGET inline void StoreTile(const Tile& tile, __m512 (&sum)[kRows][kVectors]) {
  if (tile.bias == nullptr && !tile.adds && tile.mask == kWholeVector) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(tile.c + i * tile.c_row + v * kVector, sum[i][v]);
    }
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const auto mask = static_cast<__mmask16>(v == kVectors - 1 ? tile.mask : kWholeVector);
    const __m512 bias = LoadBias(mask, tile.bias == nullptr ? nullptr : tile.bias + v * kVector);
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

// Adds the products of all k to the sums. If `kPacks`, the right matrix is read in place, and what is read is stored to
// the panel, which costs no time beside the multiply-adds.
template <bool kPacks, bool kPrefetches, int kRows, int kVectors>
[[gnu::always_inline]] COTAN_WIDE_TARGET inline void AddProducts(const Tile& tile, __m512 (&sum)[kRows][kVectors]) {
  const float* a = tile.a;
  const float* b = tile.b;
  float* panel = tile.panel;
  const int64_t a_row = tile.a_row;
  const auto last_mask = static_cast<__mmask16>(tile.mask);
#pragma GCC unroll 1
  for (int64_t k = 0; k < tile.depth; ++k, a += tile.a_column, panel += kVectors * kVector) {
    __m512 right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kPacks) {
        right[v] =
            v == kVectors - 1 ? _mm512_maskz_loadu_ps(last_mask, b + v * kVector) : _mm512_loadu_ps(b + v * kVector);
        _mm512_store_ps(panel + v * kVector, right[v]);
        if constexpr (kPrefetches) _mm_prefetch(b + v * kVector + kPrefetchDistance * tile.b_row, _MM_HINT_T0);
      } else {
        right[v] = _mm512_load_ps(panel + v * kVector);
      }
    }
    if constexpr (kPacks) b += tile.b_row;
    // Rows of a left matrix that is stored by columns share lines, of which the tile before this one has read all but
    // that of the last row.
    if constexpr (kPrefetches) {
      _mm_prefetch(a + (kRows - 1) * a_row + kPrefetchDistance * tile.a_column, _MM_HINT_T0);
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512 left = _mm512_set1_ps(a[i * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(left, right[v], sum[i][v]);
    }
  }
}

template <bool kPacks, int kVectors, int kRows>
COTAN_WIDE_TARGET void MakeTile(const Tile& tile) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  if (kRows >= kMinPrefetchingRows && std::max(tile.a_column, kPacks ? tile.b_row : 0) >= kMinPrefetchedStride) {
    AddProducts<kPacks, true>(tile, sum);
  } else {
    AddProducts<kPacks, false>(tile, sum);
  }
  StoreTile(tile, sum);
}

using TileFn = void (*)(const Tile& tile);

// Tiles of one width, by their rows - 1. The highest has as many sums as there are registers.
struct TileColumn {
  int64_t max_rows;
  std::array<TileFn, 12> plain;
  std::array<TileFn, 12> packing;
};

template <int kVectors, int... kRows>
constexpr TileColumn ColumnOf(std::integer_sequence<int, kRows...> /*rows*/) {
  return {sizeof...(kRows), {MakeTile<false, kVectors, kRows + 1>...}, {MakeTile<true, kVectors, kRows + 1>...}};
}

constexpr TileColumn kTiles[kMaxVectors] = {
    ColumnOf<1>(std::make_integer_sequence<int, 12>()), ColumnOf<2>(std::make_integer_sequence<int, 12>()),
    ColumnOf<3>(std::make_integer_sequence<int, 8>()), ColumnOf<4>(std::make_integer_sequence<int, 6>())};

struct Range {
  int64_t begin;
  int64_t end;
  int64_t size() const { return end - begin; }
};

// Returns one of `parts` ranges of [0, count), whose sizes differ by at most 1.
Range Part(int64_t count, int64_t parts, int64_t part) { return {count * part / parts, count * (part + 1) / parts}; }

// Computes `rows` rows of one panel in tiles of about the same height. If `packs`, the first fills the panel.
void MakeRows(const Tile& first, int64_t rows, int64_t vectors, bool packs) {
  const TileColumn& tiles = kTiles[vectors - 1];
  const int64_t count = CeilDiv(rows, tiles.max_rows);
  for (int64_t i = 0; i < count; ++i) {
    const Range part = Part(rows, count, i);
    Tile tile = first;
    tile.a += part.begin * tile.a_row;
    tile.c += part.begin * tile.c_row;
    const auto& column = packs && i == 0 ? tiles.packing : tiles.plain;
    column[static_cast<size_t>(part.size() - 1)](tile);
  }
}

// Computes to[k, i] = from[i * stride + k] for 16 i and k, where i < rows and k < depth; the remaining
// columns become 0. `to` has rows `to_row` apart.
COTAN_WIDE_TARGET void Transpose16(const float* from, int64_t stride, int64_t rows, int64_t depth, float* to,
                                   int64_t to_row) {
  Float16Lanes r[16];
  if (rows >= kVector && depth >= kVector) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = Float16Lanes(_mm512_loadu_ps(from + i * stride));
    Transpose16x16(r);
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) _mm512_store_ps(to + k * to_row, r[k]);
    return;
  }
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

// Packs columns [0, columns) of a right matrix that is stored by columns as rows of whole vectors.
void PackPanel(const float* b, int64_t b_column, int64_t depth, int64_t columns, float* panel) {
  const int64_t width = RoundUp(columns, kVector);
  for (int64_t n = 0; n < columns; n += kVector) {
    for (int64_t k = 0; k < depth; k += kVector) {
      Transpose16(b + n * b_column + k, b_column, std::min(kVector, columns - n), depth - k, panel + k * width + n,
                  width);
    }
  }
}

// Stores c[j, i] (+)= block[i, j] + bias[i] for `rows` i and `columns` j. The block has rows `width` apart.
COTAN_WIDE_TARGET void StoreTransposed(const float* block, int64_t width, int64_t rows, int64_t columns,
                                       const float* bias, bool adds, float* c, int64_t c_row) {
  for (int64_t i = 0; i < rows; i += kVector) {
    const int64_t count = std::min(kVector, rows - i);
    const auto mask = static_cast<__mmask16>(kWholeVector >> (kVector - count));
    const __m512 added = LoadBias(mask, bias == nullptr ? nullptr : bias + i);
    for (int64_t j = 0; j < columns; j += kVector) {
      Float16Lanes r[16];
#pragma GCC unroll 16
      for (int l = 0; l < 16; ++l)
        r[l] = l < count ? Float16Lanes(_mm512_load_ps(block + (i + l) * width + j)) : Float16Lanes{};
      Transpose16x16(r);
#pragma GCC unroll 16
      for (int l = 0; l < 16; ++l) {
        if (l >= columns - j) continue;
        float* const to = c + (j + l) * c_row + i;
        __m512 value = _mm512_add_ps(__m512(r[l]), added);
        if (adds) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, to));
        if (mask == kWholeVector) {
          _mm512_storeu_ps(to, value);
        } else {
          _mm512_mask_storeu_ps(to, mask, value);
        }
      }
    }
  }
}

// Estimates the time of a product in cycles: multiply-adds of whole vectors, and about half a cycle for each element
// that is transposed.
double EstimateCycles(const MatmulGeometry& g, bool is_transposed) {
  const auto cycles = [](int64_t m, int64_t k, int64_t n, int64_t transposed) {
    return static_cast<double>(m * k * CeilDiv(n, kVector)) + 0.5 * static_cast<double>(transposed);
  };
  if (!is_transposed) return cycles(g.m, g.k, g.n, g.b.column == 1 ? 0 : g.k * g.n);
  return cycles(g.n, g.k, g.m, (g.a.row == 1 ? 0 : g.k * g.m) + g.m * g.n);
}

bool IsFasterTransposed(const MatmulGeometry& g) { return EstimateCycles(g, true) < 0.9 * EstimateCycles(g, false); }

class Avx512Gemm final : public Kernel {
 public:
  Avx512Gemm(const MatmulGeometry& geometry, Addend addend, int threads)
      : g_(WithUnitStrides(geometry)),
        addend_(addend),
        threads_(ThreadsWorthwhile(threads, geometry.Flops())),
        is_transposed_(IsFasterTransposed(g_)) {
    if (is_transposed_) g_ = TransposedProduct(g_);
    depth_ = std::min(g_.k, kMaxDepth);
    vectors_ = CeilDiv(g_.n, kVector);
    panels_ = CeilDiv(vectors_, kMaxVectors);
    batch_ = g_.BatchSize();
    column_groups_ = std::min((threads_ + batch_ - 1) / batch_, panels_);
    row_groups_ = std::clamp<int64_t>(threads_ / (batch_ * column_groups_), 1, CeilDiv(g_.m, kMinGroupRows));
    const int64_t width = std::min(kMaxVectors, vectors_) * kVector;
    panel_floats_ = depth_ * width;
    worker_floats_ = panel_floats_ + (is_transposed_ ? kTransposedRows * width : 0);
    scratch_bytes_ = static_cast<size_t>(threads_ * worker_floats_) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const int64_t items = batch_ * row_groups_ * column_groups_;
    const int64_t grain = std::max<int64_t>((items + threads_ - 1) / threads_, 1);
    ParallelForWorker(threads_, items, grain, [&](int worker, int64_t begin, int64_t end) {
      float* const scratch = static_cast<float*>(args.scratch) + worker * worker_floats_;
      for (int64_t item = begin; item < end; ++item) RunItem(args, item, scratch);
    });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kMinGroupRows = 48;  // Packing the right matrix pays only if that many rows use it.

  void RunItem(const KernelArgs& args, int64_t item, float* scratch) const {
    const Range rows = Part(g_.m, row_groups_, item % row_groups_);
    item /= row_groups_;
    const Range panels = Part(panels_, column_groups_, item % column_groups_);
    item /= column_groups_;
    const BatchOffsets at = g_.OffsetsOf(item);
    const auto* a = static_cast<const float*>(args.inputs[is_transposed_ ? 1 : 0]) + at.a;
    const auto* b = static_cast<const float*>(args.inputs[is_transposed_ ? 0 : 1]) + at.b;
    auto* c = static_cast<float*>(args.outputs[0]) + at.c;
    const float* const bias = addend_ == Addend::kBias ? static_cast<const float*>(args.inputs[2]) : nullptr;
    for (int64_t k = 0; k < g_.k; k += depth_) {
      Tile tile = {.a = a + rows.begin * g_.a.row + k * g_.a.column, .a_row = g_.a.row, .a_column = g_.a.column};
      tile.b = b + k * g_.b.row;
      tile.b_row = g_.b.row;
      tile.depth = std::min(depth_, g_.k - k);
      tile.bias = k == 0 ? bias : nullptr;
      if (is_transposed_ && tile.bias != nullptr) tile.bias += rows.begin;
      tile.adds = k > 0 || addend_ == Addend::kInOutput;
      tile.c = c + rows.begin * g_.c.row;
      tile.panel = scratch;
      for (int64_t panel = panels.begin; panel < panels.end; ++panel) RunPanel(tile, rows.size(), panel);
    }
  }

  // Computes the rows of one panel for one range of k. `tile` is at the first column of the product and of the right
  // matrix.
  void RunPanel(Tile tile, int64_t rows, int64_t panel) const {
    const Range vectors = Part(vectors_, panels_, panel);
    const int64_t column = vectors.begin * kVector;
    const int64_t columns = std::min(vectors.size() * kVector, g_.n - column);
    tile.b += column * g_.b.column;
    tile.mask = static_cast<uint16_t>(kWholeVector >> (vectors.size() * kVector - columns));
    tile.c += column * g_.c.column;
    const bool packs = g_.b.column == 1;
    if (!packs) PackPanel(tile.b, g_.b.column, tile.depth, columns, tile.panel);
    if (is_transposed_) return RunTransposed(tile, rows, columns, packs);
    if (tile.bias != nullptr) tile.bias += column;
    tile.c_row = g_.c.row;
    MakeRows(tile, rows, vectors.size(), packs);
  }

  // Computes groups of rows in cache, and stores them as columns.
  void RunTransposed(const Tile& tile, int64_t rows, int64_t columns, bool packs) const {
    const int64_t vectors = CeilDiv(columns, kVector);
    for (int64_t row = 0; row < rows; row += kTransposedRows) {
      const int64_t count = std::min(kTransposedRows, rows - row);
      Tile group = tile;
      group.a += row * tile.a_row;
      group.bias = nullptr;
      group.adds = false;
      group.c = tile.panel + panel_floats_;
      group.c_row = vectors * kVector;
      MakeRows(group, count, vectors, packs && row == 0);
      StoreTransposed(group.c, group.c_row, count, columns, tile.bias == nullptr ? nullptr : tile.bias + row, tile.adds,
                      tile.c + row * g_.c.row, g_.c.column);
    }
  }

  MatmulGeometry g_;
  const Addend addend_;
  const int threads_;
  const bool is_transposed_;  // The geometry is that of c^T = b^T a^T.
  int64_t depth_ = 0;         // of a panel
  int64_t vectors_ = 0;       // of a row
  int64_t panels_ = 0;
  int64_t batch_ = 0;
  // A work item is some rows and some panels of a product.
  int64_t column_groups_ = 0;
  int64_t row_groups_ = 0;
  int64_t panel_floats_ = 0;
  int64_t worker_floats_ = 0;  // of scratch memory
};

}  // namespace

bool HasAvx512Gemm() { return __builtin_cpu_supports("avx512f"); }

std::unique_ptr<Kernel> MakeAvx512Gemm(const MatmulGeometry& geometry, Addend addend, int threads) {
  if (!HasAvx512Gemm()) return nullptr;
  return std::make_unique<Avx512Gemm>(geometry, addend, threads);
}

bool IsFastAvx512Gemm(const MatmulGeometry& geometry) {
  constexpr double kMinEfficiency = 0.8;
  constexpr int64_t kMinDepth = 8;  // otherwise writing the result takes the time
  constexpr int64_t kMinRowsOfBatch = 12;
  if (geometry.k < kMinDepth) return false;
  // oneDNN has no fast code for the strides of attention's heads inside of a packed projection.
  if (!geometry.batch.empty() && geometry.m >= kMinRowsOfBatch) return true;
  const MatmulGeometry g = WithUnitStrides(geometry);
  if (g.b.column == 1) return true;
  const auto products = static_cast<double>(g.m * g.k * CeilDiv(g.n, kVector));
  return products >= kMinEfficiency * EstimateCycles(g, IsFasterTransposed(g));
}

#else

bool HasAvx512Gemm() { return false; }

std::unique_ptr<Kernel> MakeAvx512Gemm(const MatmulGeometry& /*geometry*/, Addend /*addend*/, int /*threads*/) {
  return nullptr;
}

bool IsFastAvx512Gemm(const MatmulGeometry& /*geometry*/) { return false; }

#endif

}  // namespace cotan::cpu
