// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/amx_bf16_gemm.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/rounding.h"
#include "kernels/cpu/simd/transpose16.h"
#include "kernels/cpu/threading/parallel.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define COTAN_HAS_AMX_MATMUL 1
#define COTAN_AMX_TARGET __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#endif

namespace cotan::cpu {

#ifdef COTAN_HAS_AMX_MATMUL
namespace {

// A tile register has 16 rows of 64 bytes: of the left matrix, 16 rows of 32 elements; of the right matrix, 16 pairs of
// k of 16 columns; of the result, 16 x 16 sums.
constexpr int64_t kLines = 16;
constexpr int64_t kDepth = 32;
constexpr int64_t kTileBytes = 1024;
constexpr int64_t kTileElements = kTileBytes / 2;

// A block of the result has 2 x 2 tiles, whose sums stay in registers beside two tiles of either matrix.
constexpr int64_t kBlock = 2 * kLines;
constexpr int64_t kBlockSums = kBlock * kBlock;
constexpr int64_t kStepElements = 2 * kTileElements;  // of 32 packed lines, for 32 k

// What stays in the first-level cache while panels of 32 columns pass: 8 steps of 32 rows, 16 KiB.
constexpr int64_t kStepsAtOnce = 8;
// What stays in the second-level cache while rows pass.
constexpr int64_t kMaxPanels = 8;
constexpr int64_t kMaxSteps = 64;  // of a panel, 128 KiB
constexpr int64_t kMaxRightElements = 256 << 10;

constexpr int64_t kMaxRows = 512;  // whose sums are kept if there are more steps
constexpr int64_t kMinRows = 128;  // of a thread that packs columns for itself
constexpr double kRate = 8;        // of AMX, relative to what ThreadsWorthwhile() expects

// Operands of TILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  std::array<uint8_t, 14> reserved{};
  std::array<uint16_t, 16> row_bytes{};
  std::array<uint8_t, 16> rows{};
};

// Registers 0 to 3 have the sums of a block, 4 and 5 tiles of the left matrix, 6 and 7 of the right one.
TileConfig ConfigOf(int64_t block_rows) {
  const auto upper = static_cast<uint8_t>(std::min(block_rows, kLines));
  const auto lower = static_cast<uint8_t>(std::max(block_rows - kLines, int64_t{1}));
  TileConfig config;
  for (size_t i = 0; i < 8; ++i) config.row_bytes[i] = 64;
  config.rows = {upper, upper, lower, lower, upper, lower, kLines, kLines};
  return config;
}

// The tile registers of the calling thread, which are in use while this lives: the operating system saves those that
// are.
class TileRegisters {
 public:
  TileRegisters() = default;
  COTAN_AMX_TARGET ~TileRegisters() {
    if (config_ != nullptr) _tile_release();
  }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  // Prepares them for `config`, which must outlive this. Their contents are lost, unless they are prepared already.
  COTAN_AMX_TARGET void Use(const TileConfig& config) {
    if (config_ == &config) return;
    config_ = &config;
    asm volatile("" ::: "memory");  // GCC's intrinsic reads 8 bytes of the operand as far as GCC knows
    _tile_loadconfig(&config);
  }

 private:
  const TileConfig* config_ = nullptr;
};

struct Block {
  const uint16_t* a = nullptr;  // its rows
  int64_t a_row = 0;            // bytes from row to row of a tile
  int64_t a_lower = 0;          // elements from the upper tile to the lower one
  int64_t a_step = 0;           // elements from 32 k to the next
  const uint16_t* b = nullptr;  // packed columns: [steps, 2, tile]
  int64_t steps = 0;
  bool continues = false;  // from the sums, which are zeros otherwise
  float* sums = nullptr;   // [32, 32]
};

// Adds the products of a block. Its lower rows, or its last 16 columns, may not exist.
template <bool kHasLower, bool kHasSecond>
COTAN_AMX_TARGET void MultiplyBlock(const Block& block) {
  constexpr int64_t kRowBytes = kBlock * sizeof(float);
  float* const lower = block.sums + kLines * kBlock;
  if (block.continues) {
    _tile_loadd(0, block.sums, kRowBytes);
    if constexpr (kHasSecond) _tile_loadd(1, block.sums + kLines, kRowBytes);
    if constexpr (kHasLower) _tile_loadd(2, lower, kRowBytes);
    if constexpr (kHasLower && kHasSecond) _tile_loadd(3, lower + kLines, kRowBytes);
  } else {
    _tile_zero(0);
    if constexpr (kHasSecond) _tile_zero(1);
    if constexpr (kHasLower) _tile_zero(2);
    if constexpr (kHasLower && kHasSecond) _tile_zero(3);
  }
  const uint16_t* a = block.a;
  const uint16_t* b = block.b;
  const int64_t a_row = block.a_row;
  const int64_t a_lower = block.a_lower;
  for (int64_t step = 0; step < block.steps; ++step, a += block.a_step, b += kStepElements) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, a_row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kHasSecond) {
      _tile_loadd(7, b + kTileElements, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kHasLower) {
      _tile_loadd(5, a + a_lower, a_row);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kHasSecond) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, block.sums, kRowBytes);
  if constexpr (kHasSecond) _tile_stored(1, block.sums + kLines, kRowBytes);
  if constexpr (kHasLower) _tile_stored(2, lower, kRowBytes);
  if constexpr (kHasLower && kHasSecond) _tile_stored(3, lower + kLines, kRowBytes);
}

using BlockFn = void (*)(const Block& block);

// By whether there are lower rows and a second tile of columns.
constexpr BlockFn kBlocks[2][2] = {{MultiplyBlock<false, false>, MultiplyBlock<false, true>},
                                   {MultiplyBlock<true, false>, MultiplyBlock<true, true>}};

__mmask32 MaskOf(int64_t count) { return count >= 32 ? 0xffffffffU : (1U << std::max(count, int64_t{0})) - 1; }

// Returns 16 elements as f32, or zeros.
COTAN_AMX_TARGET inline __m512 Load16(const uint16_t* from, __mmask16 mask) {
  const __m512i low = _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, from));
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(mask, low, 16));
}

// Rounds the sums of a block, plus those of `bias` unless it is null, plus what is in `c` if `adds`.
COTAN_AMX_TARGET void StoreBlock(const float* sums, int64_t rows, int64_t columns, const uint16_t* bias, bool adds,
                                 uint16_t* c, int64_t c_row) {
  const __mmask32 mask = MaskOf(columns);
  const auto first_mask = static_cast<__mmask16>(mask);
  const auto second_mask = static_cast<__mmask16>(mask >> 16);
  const bool has_bias = bias != nullptr;
  const __m512 first_bias = has_bias ? Load16(bias, first_mask) : _mm512_setzero_ps();
  const __m512 second_bias = has_bias ? Load16(bias + kLines, second_mask) : _mm512_setzero_ps();
  for (int64_t i = 0; i < rows; ++i, sums += kBlock, c += c_row) {
    __m512 first = _mm512_loadu_ps(sums);
    __m512 second = _mm512_loadu_ps(sums + kLines);
    if (has_bias) {
      first = _mm512_add_ps(first, first_bias);
      second = _mm512_add_ps(second, second_bias);
    }
    if (adds) {
      first = _mm512_add_ps(first, Load16(c, first_mask));
      second = _mm512_add_ps(second, Load16(c + kLines, second_mask));
    }
    _mm512_mask_storeu_epi16(c, mask, (__m512i)_mm512_cvtne2ps_pbh(second, first));
  }
}

// A matrix whose lines are the rows of a left matrix or the columns of a right one. One of the strides is 1.
struct Lines {
  const uint16_t* data = nullptr;
  int64_t line = 0;   // elements from line to line
  int64_t depth = 0;  // elements from k to the next
};

// Packs a tile of at most 16 lines and 32 k with zeros for what does not exist: its rows are lines, or pairs of k if
// `pairs_are_rows`.
COTAN_AMX_TARGET void PackTile(const Lines& from, int64_t lines, int64_t depths, bool pairs_are_rows, uint16_t* to) {
  Float16Lanes r[16];
  if (from.depth == 1) {
    const __mmask32 mask = MaskOf(depths);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const __mmask32 row = i < lines ? mask : 0;
      r[i] = Float16Lanes(_mm512_castsi512_ps(_mm512_maskz_loadu_epi16(row, from.data + i * from.line)));
    }
  } else {
    const auto mask = static_cast<__mmask16>(MaskOf(lines));
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const uint16_t* const pair = from.data + 2 * i * from.depth;
      const __mmask16 even = 2 * i < depths ? mask : 0;
      const __mmask16 odd = 2 * i + 1 < depths ? mask : 0;
      const __m512i low = _mm512_maskz_cvtepu16_epi32(even, _mm256_maskz_loadu_epi16(even, pair));
      const __m512i high = _mm512_castps_si512(Load16(pair + from.depth, odd));
      r[i] = Float16Lanes(_mm512_castsi512_ps(_mm512_or_si512(low, high)));
    }
  }
  if ((from.depth == 1) == pairs_are_rows) Transpose16x16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * kDepth, __m512(r[i]));
}

// Packs at most 32 lines as [steps, 2, tile], from k = 0 to `depths`.
void PackLines(const Lines& from, int64_t lines, int64_t depths, bool pairs_are_rows, uint16_t* to) {
  for (int64_t k = 0; k < depths; k += kDepth) {
    for (int64_t half = 0; half < kBlock; half += kLines, to += kTileElements) {
      const Lines tile = {from.data + half * from.line + k * from.depth, from.line, from.depth};
      if (half < lines) PackTile(tile, lines - half, depths - k, pairs_are_rows, to);
    }
  }
}

class AmxBf16Gemm final : public Kernel {
 public:
  AmxBf16Gemm(const MatmulGeometry& geometry, Addend addend, int threads)
      : g_(geometry),
        addend_(addend),
        threads_(ThreadsWorthwhile(threads, geometry.Flops() / kRate)),
        row_blocks_(CeilDiv(g_.m, kBlock)),
        panels_(CeilDiv(g_.n, kBlock)),
        steps_(CeilDiv(g_.k, kDepth)),
        packs_left_(g_.a.column != 1 || g_.k % kDepth != 0),
        parallel_items_(g_.BatchSize() >= threads_),
        config_(ConfigOf(kBlock)),
        last_config_(ConfigOf(g_.m - (row_blocks_ - 1) * kBlock)) {
    part_steps_ = std::min(steps_, kMaxSteps);
    const int64_t most = std::clamp<int64_t>(kMaxRightElements / (part_steps_ * kStepElements), 1, kMaxPanels);
    // Each thread gets columns of its own, or else rows of the same columns.
    const int64_t team = parallel_items_ ? 1 : threads_;
    part_panels_ = CeilDiv(panels_, std::max(CeilDiv(panels_, most), std::min(panels_, team)));
    column_parts_ = CeilDiv(panels_, part_panels_);
    int64_t row_parts = std::clamp<int64_t>(g_.m / kMinRows, 1, CeilDiv(team, column_parts_));
    if (part_steps_ < steps_) row_parts = std::max(row_parts, CeilDiv(g_.m, kMaxRows));
    part_blocks_ = CeilDiv(row_blocks_, row_parts);
    row_parts_ = CeilDiv(row_blocks_, part_blocks_);

    left_bytes_ = packs_left_ ? row_blocks_ * steps_ * kStepElements * 2 : 0;
    right_bytes_ = part_panels_ * part_steps_ * kStepElements * 2;
    panel_sums_ = steps_ > kStepsAtOnce ? kBlockSums : 0;
    block_sums_ = steps_ > part_steps_ ? part_panels_ * kBlockSums : 0;
    sums_bytes_ = std::max({part_blocks_ * block_sums_, part_panels_ * panel_sums_, kBlockSums}) * 4;
    const int64_t unit_bytes = right_bytes_ + sums_bytes_;
    scratch_bytes_ = static_cast<size_t>(parallel_items_ ? threads_ * (left_bytes_ + unit_bytes)
                                                         : left_bytes_ + threads_ * unit_bytes);
  }

  absl::Status Run(const KernelArgs& args) override {
    char* const scratch = static_cast<char*>(args.scratch);
    const int64_t items = g_.BatchSize();
    if (!parallel_items_) {
      for (int64_t item = 0; item < items; ++item) RunOnTeam(MatricesOf(args, item, scratch), scratch + left_bytes_);
      return absl::OkStatus();
    }
    const int64_t bytes = left_bytes_ + right_bytes_ + sums_bytes_;
    ParallelForWorker(threads_, items, CeilDiv(items, int64_t{threads_}), [&](int worker, int64_t begin, int64_t end) {
      char* const own = scratch + worker * bytes;
      TileRegisters tiles;
      for (int64_t item = begin; item < end; ++item) {
        const Matrices matrices = MatricesOf(args, item, own);
        if (packs_left_) PackLeft(matrices, 0, row_blocks_);
        RunUnits(matrices, 0, column_parts_ * row_parts_, own + left_bytes_, tiles);
      }
    });
    return absl::OkStatus();
  }

 private:
  // One product of the batch.
  struct Matrices {
    const uint16_t* a;
    const uint16_t* b;
    const uint16_t* bias;  // null: none
    uint16_t* c;
    uint16_t* left;  // packed rows: [row blocks, steps, 2, tile]
  };

  // A part of a product for one thread, whose columns are packed, and whose sums are kept between parts of k.
  struct Unit {
    int64_t first_block;
    int64_t first_panel;
    int64_t blocks;
    int64_t panels;
    uint16_t* right;  // [panels, steps, 2, tile]
    float* sums;
  };

  // A range of steps of 32 k.
  struct Steps {
    int64_t begin;
    int64_t end;
    int64_t size() const { return end - begin; }
  };

  Matrices MatricesOf(const KernelArgs& args, int64_t item, char* left) const {
    Matrices matrices = {.a = static_cast<const uint16_t*>(args.inputs[0]),
                         .b = static_cast<const uint16_t*>(args.inputs[1]),
                         .bias = addend_ == Addend::kBias ? static_cast<const uint16_t*>(args.inputs[2]) : nullptr,
                         .c = static_cast<uint16_t*>(args.outputs[0]),
                         .left = reinterpret_cast<uint16_t*>(left)};
    for (size_t l = g_.batch.size(); l-- > 0;) {
      const BatchLoop& loop = g_.batch[l];
      const int64_t at = item % loop.size;
      item /= loop.size;
      matrices.a += at * loop.a;
      matrices.b += at * loop.b;
      matrices.c += at * loop.c;
    }
    return matrices;
  }

  void RunOnTeam(const Matrices& matrices, char* scratch) const {
    if (packs_left_) {
      ParallelFor(threads_, row_blocks_, CeilDiv(row_blocks_, int64_t{threads_}),
                  [&](int64_t begin, int64_t end) { PackLeft(matrices, begin, end); });
    }
    const int64_t units = column_parts_ * row_parts_;
    ParallelForWorker(threads_, units, CeilDiv(units, int64_t{threads_}), [&](int worker, int64_t begin, int64_t end) {
      TileRegisters tiles;
      RunUnits(matrices, begin, end, scratch + worker * (right_bytes_ + sums_bytes_), tiles);
    });
  }

  void PackLeft(const Matrices& matrices, int64_t begin, int64_t end) const {
    for (int64_t block = begin; block < end; ++block) {
      const Lines rows = {matrices.a + block * kBlock * g_.a.row, g_.a.row, g_.a.column};
      PackLines(rows, g_.m - block * kBlock, g_.k, /*pairs_are_rows=*/false,
                matrices.left + block * steps_ * kStepElements);
    }
  }

  void RunUnits(const Matrices& matrices, int64_t begin, int64_t end, char* scratch, TileRegisters& tiles) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i % row_parts_ * part_blocks_;
      const int64_t panel = i / row_parts_ * part_panels_;
      const Unit unit = {.first_block = block,
                         .first_panel = panel,
                         .blocks = std::min(part_blocks_, row_blocks_ - block),
                         .panels = std::min(part_panels_, panels_ - panel),
                         .right = reinterpret_cast<uint16_t*>(scratch),
                         .sums = reinterpret_cast<float*>(scratch + right_bytes_)};
      for (int64_t step = 0; step < steps_; step += part_steps_) {
        RunUnit(matrices, unit, {step, std::min(step + part_steps_, steps_)}, tiles);
      }
    }
  }

  // Adds the products of some k, and stores the result after the last.
  void RunUnit(const Matrices& matrices, const Unit& unit, Steps steps, TileRegisters& tiles) const {
    PackRight(matrices, unit, steps);
    for (int64_t i = 0; i < unit.blocks; ++i) {
      const int64_t block = unit.first_block + i;
      tiles.Use(RowsOf(block) < kBlock ? last_config_ : config_);
      for (Steps now = {steps.begin, 0}; now.begin < steps.end; now.begin = now.end) {
        now.end = std::min(now.begin + kStepsAtOnce, steps.end);
        const uint16_t* right = unit.right + (now.begin - steps.begin) * kStepElements;
        for (int64_t j = 0; j < unit.panels; ++j, right += steps.size() * kStepElements) {
          float* const sums = unit.sums + i * block_sums_ + j * panel_sums_;
          Multiply(matrices, block, unit.first_panel + j, now, right, sums);
          if (now.end == steps_) Store(matrices, block, unit.first_panel + j, sums);
        }
      }
    }
  }

  void PackRight(const Matrices& matrices, const Unit& unit, Steps steps) const {
    const int64_t begin = steps.begin * kDepth;
    const int64_t end = std::min(steps.end * kDepth, g_.k);
    for (int64_t j = 0; j < unit.panels; ++j) {
      const int64_t column = (unit.first_panel + j) * kBlock;
      const Lines columns = {matrices.b + column * g_.b.column + begin * g_.b.row, g_.b.column, g_.b.row};
      PackLines(columns, g_.n - column, end - begin, /*pairs_are_rows=*/true,
                unit.right + j * steps.size() * kStepElements);
    }
  }

  void Multiply(const Matrices& matrices, int64_t row_block, int64_t panel, Steps steps, const uint16_t* right,
                float* sums) const {
    Block block = {.b = right, .steps = steps.size(), .continues = steps.begin > 0, .sums = sums};
    if (packs_left_) {
      block.a = matrices.left + (row_block * steps_ + steps.begin) * kStepElements;
      block.a_row = 64;
      block.a_lower = kTileElements;
      block.a_step = kStepElements;
    } else {
      block.a = matrices.a + row_block * kBlock * g_.a.row + steps.begin * kDepth;
      block.a_row = g_.a.row * 2;
      block.a_lower = kLines * g_.a.row;
      block.a_step = kDepth;
    }
    kBlocks[RowsOf(row_block) > kLines ? 1 : 0][g_.n - panel * kBlock > kLines ? 1 : 0](block);
  }

  void Store(const Matrices& matrices, int64_t row_block, int64_t panel, const float* sums) const {
    const int64_t column = panel * kBlock;
    StoreBlock(sums, RowsOf(row_block), std::min(kBlock, g_.n - column),
               matrices.bias == nullptr ? nullptr : matrices.bias + column, addend_ == Addend::kInOutput,
               matrices.c + row_block * kBlock * g_.c.row + column, g_.c.row);
  }

  int64_t RowsOf(int64_t row_block) const { return std::min(kBlock, g_.m - row_block * kBlock); }

  const MatmulGeometry g_;
  const Addend addend_;
  const int threads_;
  // Of a product: blocks of 32 rows, panels of 32 columns, steps of 32 k.
  const int64_t row_blocks_;
  const int64_t panels_;
  const int64_t steps_;
  const bool packs_left_;
  const bool parallel_items_;  // products of the batch run in parallel, otherwise units of each
  const TileConfig config_;
  const TileConfig last_config_;  // of the last block of rows
  // Of a unit, and how many there are.
  int64_t part_blocks_ = 0;
  int64_t part_panels_ = 0;
  int64_t part_steps_ = 0;
  int64_t row_parts_ = 0;
  int64_t column_parts_ = 0;
  // From the sums of a block to those of the next block or panel: 0 if they are not kept.
  int64_t block_sums_ = 0;
  int64_t panel_sums_ = 0;
  // Of scratch memory: of a product, and of a thread.
  int64_t left_bytes_ = 0;
  int64_t right_bytes_ = 0;
  int64_t sums_bytes_ = 0;
};

// Asks the operating system for tile registers, for all threads of the process.
bool RequestTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool HasAmxBf16() {
  static const bool has_amx = [] {
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") && RequestTiles();
  }();
  return has_amx;
}

std::unique_ptr<Kernel> MakeAmxBf16Gemm(const MatmulGeometry& geometry, Addend addend, int threads) {
  const bool is_fast = !geometry.batch.empty() || (geometry.m > 1 && geometry.k > 4);
  if (!is_fast || !HasAmxBf16()) return nullptr;
  return std::make_unique<AmxBf16Gemm>(WithUnitStrides(geometry), addend, threads);
}

#else

bool HasAmxBf16() { return false; }

std::unique_ptr<Kernel> MakeAmxBf16Gemm(const MatmulGeometry& /*geometry*/, Addend /*addend*/, int /*threads*/) {
  return nullptr;
}

#endif

}  // namespace cotan::cpu
