// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/avx512_bf16_gemm.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/rounding.h"
#include "kernels/cpu/simd/transpose16.h"
#include "kernels/cpu/threading/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define COTAN_HAS_BF16_MATMUL 1
#define COTAN_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#endif

namespace cotan::cpu {

#ifdef COTAN_HAS_BF16_MATMUL
namespace {

constexpr int64_t kVector = 16;     // pairs, and elements of the result
constexpr int64_t kMaxVectors = 4;  // of a panel of the right matrix
constexpr int64_t kMinRows = 12;
constexpr int64_t kMaxPackedBytes = 128 << 10;

uint32_t MaskOf(int64_t count) { return count >= 32 ? 0xffffffffU : (1U << count) - 1; }

// Computes c[rows, columns] = a b for the columns of one panel. A pair is the elements at k and k + 1.
struct Tile {
  const char* a = nullptr;          // its first pair
  int64_t a_row = 0;                // bytes from row to row
  int64_t a_pair = 0;               // bytes from pair to pair
  const uint32_t* panel = nullptr;  // [pairs, vectors of columns]
  int64_t pairs = 0;
  uint16_t* c = nullptr;
  int64_t c_row = 0;
  uint16_t mask = 0xffff;  // of the last vector
};

template <int kVectors, int kRows>
COTAN_BF16_TARGET void MakeTile(const Tile& tile) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  const char* a = tile.a;
  const uint32_t* panel = tile.panel;
  const int64_t a_row = tile.a_row;
#pragma GCC unroll 1
  for (int64_t k = 0; k < tile.pairs; ++k, a += tile.a_pair, panel += kVectors * kVector) {
    __m512bh right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = (__m512bh)_mm512_load_si512(panel + v * kVector);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      int32_t pair;
      __builtin_memcpy(&pair, a + i * a_row, sizeof(pair));
      const auto left = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], left, right[v]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto rounded = (__m256i)_mm512_cvtneps_pbh(sum[i][v]);
      uint16_t* const c = tile.c + i * tile.c_row + v * kVector;
      if (v < kVectors - 1 || tile.mask == 0xffff) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(c), rounded);
      } else {
        _mm256_mask_storeu_epi16(c, tile.mask, rounded);
      }
    }
  }
}

using TileFn = void (*)(const Tile& tile);

// Tiles of one width, by their rows - 1.
struct TileColumn {
  int64_t max_rows;
  std::array<TileFn, 12> tiles;
};

template <int kVectors, int... kRows>
constexpr TileColumn ColumnOf(std::integer_sequence<int, kRows...> /*rows*/) {
  return {sizeof...(kRows), {MakeTile<kVectors, kRows + 1>...}};
}

constexpr TileColumn kTiles[kMaxVectors] = {
    ColumnOf<1>(std::make_integer_sequence<int, 12>()), ColumnOf<2>(std::make_integer_sequence<int, 12>()),
    ColumnOf<3>(std::make_integer_sequence<int, 8>()), ColumnOf<4>(std::make_integer_sequence<int, 6>())};

// Writes the pairs of two rows of `columns` elements, `row` apart, with zeros up to a whole vector.
COTAN_BF16_TARGET void PackRows(const uint16_t* from, int64_t row, int64_t columns, uint32_t* to) {
  for (int64_t n = 0; n < columns; n += kVector) {
    const auto mask = static_cast<__mmask16>(MaskOf(std::min(kVector, columns - n)));
    const __m512i first = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + n));
    const __m512i second = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + row + n));
    _mm512_store_si512(to + n, _mm512_or_si512(first, _mm512_slli_epi32(second, 16)));
  }
}

// Writes the pairs of 16 columns, `column` apart, of which `columns` exist: to[k * width + n] for `pairs` k.
COTAN_BF16_TARGET void PackColumns(const uint16_t* from, int64_t column, int64_t columns, int64_t pairs, uint32_t* to,
                                   int64_t width) {
  for (int64_t k = 0; k < pairs; k += kVector) {
    const int64_t count = std::min(kVector, pairs - k);
    const auto mask = static_cast<__mmask16>(MaskOf(count));
    Float16Lanes r[16];
#pragma GCC unroll 16
    for (int n = 0; n < 16; ++n) {
      r[n] = n < columns ? Float16Lanes(_mm512_maskz_loadu_ps(mask, from + n * column + 2 * k)) : Float16Lanes{};
    }
    Transpose16x16(r);
#pragma GCC unroll 16
    for (int l = 0; l < 16; ++l) {
      if (l < count) _mm512_store_ps(to + (k + l) * width, __m512(r[l]));
    }
  }
}

class Avx512Bf16Gemm final : public Kernel {
 public:
  Avx512Bf16Gemm(const MatmulGeometry& geometry, int threads)
      : g_(geometry), threads_(ThreadsWorthwhile(threads, geometry.Flops())), pairs_(geometry.k / 2) {
    right_pairs_ = pairs_ * RoundUp(g_.n, kVector);
    left_pairs_ = g_.a.column == 1 ? 0 : pairs_ * RoundUp(g_.m, kVector);
    scratch_bytes_ = static_cast<size_t>(threads_ * (right_pairs_ + left_pairs_)) * sizeof(uint32_t);
  }

  absl::Status Run(const KernelArgs& args) override {
    const int64_t items = g_.BatchSize();
    const int64_t grain = std::max<int64_t>((items + threads_ - 1) / threads_, 1);
    ParallelForWorker(threads_, items, grain, [&](int worker, int64_t begin, int64_t end) {
      uint32_t* const scratch = static_cast<uint32_t*>(args.scratch) + worker * (right_pairs_ + left_pairs_);
      for (int64_t item = begin; item < end; ++item) RunItem(args, item, scratch);
    });
    return absl::OkStatus();
  }

 private:
  void RunItem(const KernelArgs& args, int64_t item, uint32_t* scratch) const {
    const BatchOffsets at = g_.OffsetsOf(item);
    const auto* a = static_cast<const uint16_t*>(args.inputs[0]) + at.a;
    const auto* b = static_cast<const uint16_t*>(args.inputs[1]) + at.b;
    auto* c = static_cast<uint16_t*>(args.outputs[0]) + at.c;
    Tile tile = {.a = reinterpret_cast<const char*>(a), .a_row = g_.a.row * 2, .a_pair = 4};
    if (g_.a.column != 1) {
      uint32_t* const left = scratch + right_pairs_;
      const int64_t width = RoundUp(g_.m, kVector);
      for (int64_t k = 0; k < pairs_; ++k) {
        PackRows(a + 2 * k * g_.a.column, g_.a.column, g_.m, left + k * width);
      }
      tile.a = reinterpret_cast<const char*>(left);
      tile.a_row = 4;
      tile.a_pair = width * 4;
    }
    tile.pairs = pairs_;
    tile.c_row = g_.c.row;
    for (int64_t n = 0; n < g_.n; n += kMaxVectors * kVector) {
      const int64_t columns = std::min(kMaxVectors * kVector, g_.n - n);
      PackPanel(b + n * g_.b.column, columns, scratch);
      tile.panel = scratch;
      tile.c = c + n;
      tile.mask = static_cast<uint16_t>(MaskOf(columns - (RoundUp(columns, kVector) - kVector)));
      MakeRows(tile, CeilDiv(columns, kVector));
    }
  }

  // Packs columns [0, columns) of a right matrix.
  void PackPanel(const uint16_t* b, int64_t columns, uint32_t* panel) const {
    const int64_t width = RoundUp(columns, kVector);
    if (g_.b.column == 1) {
      for (int64_t k = 0; k < pairs_; ++k) PackRows(b + 2 * k * g_.b.row, g_.b.row, columns, panel + k * width);
      return;
    }
    for (int64_t n = 0; n < columns; n += kVector) {
      PackColumns(b + n * g_.b.column, g_.b.column, std::min(kVector, columns - n), pairs_, panel + n, width);
    }
  }

  // Computes all rows of one panel in tiles of about the same height.
  void MakeRows(const Tile& first, int64_t vectors) const {
    const TileColumn& column = kTiles[vectors - 1];
    const int64_t count = CeilDiv(g_.m, column.max_rows);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = g_.m * i / count, end = g_.m * (i + 1) / count;
      Tile tile = first;
      tile.a += begin * tile.a_row;
      tile.c += begin * tile.c_row;
      column.tiles[static_cast<size_t>(end - begin - 1)](tile);
    }
  }

  const MatmulGeometry g_;
  const int threads_;
  const int64_t pairs_;
  // Of scratch memory, per worker.
  int64_t right_pairs_ = 0;
  int64_t left_pairs_ = 0;
};

bool IsForSmallBatches(const MatmulGeometry& g) {
  if (g.batch.empty() || g.m < kMinRows || g.k % 2 != 0 || g.c.column != 1) return false;
  return g.k / 2 * (RoundUp(g.n, kVector) + RoundUp(g.m, kVector)) * 4 <= kMaxPackedBytes;
}

}  // namespace

std::unique_ptr<Kernel> MakeAvx512Bf16Gemm(const MatmulGeometry& geometry, Addend addend, int threads) {
  const MatmulGeometry g = WithUnitStrides(geometry);
  if (addend != Addend::kNone || !IsForSmallBatches(g)) return nullptr;
  const bool is_supported = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return is_supported ? std::make_unique<Avx512Bf16Gemm>(g, threads) : nullptr;
}

#else

std::unique_ptr<Kernel> MakeAvx512Bf16Gemm(const MatmulGeometry& /*geometry*/, Addend /*addend*/, int /*threads*/) {
  return nullptr;
}

#endif

}  // namespace cotan::cpu
