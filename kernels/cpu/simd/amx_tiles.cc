// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/simd/amx_tiles.h"

#include <algorithm>

#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/transpose16.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define COTAN_HAS_AMX 1
#define COTAN_AMX_TARGET __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#endif

namespace cotan::cpu::amx {

Config ConfigOf(int64_t block_rows) {
  // Registers 0 to 3 have the sums of a block, 4 and 5 tiles of the left matrix, 6 and 7 of the right one.
  const auto upper = static_cast<uint8_t>(std::min(block_rows, kLines));
  const auto lower = static_cast<uint8_t>(std::max(block_rows - kLines, int64_t{1}));
  Config config;
  for (size_t i = 0; i < 8; ++i) config.row_bytes[i] = 64;
  config.rows = {upper, upper, lower, lower, upper, lower, kLines, kLines};
  return config;
}

Block BlockOfPacked(const uint16_t* rows, const uint16_t* columns, int64_t steps) {
  return {.a = rows, .a_row = 64, .a_lower = kTileElements, .a_step = kStepElements, .b = columns, .steps = steps};
}

#ifdef COTAN_HAS_AMX
namespace {

// Returns true if the processor has tiles and their products of bf16. Compilers do not all know these features by name.
bool HasTiles() {
  constexpr unsigned kBf16 = 1U << 22, kTiles = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTiles) != 0;
}

// Asks the operating system for tile registers, for all threads of the process.
bool RequestTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Adds the products of a block. Its lower rows, or its last 16 columns, may not exist.
template <bool kHasLower, bool kHasSecond>
COTAN_AMX_TARGET void MultiplyBlock(const Block& block) {
  const auto row_bytes = static_cast<int64_t>(block.sums_row * sizeof(float));
  float* const lower = block.sums + kLines * block.sums_row;
  if (block.continues) {
    _tile_loadd(0, block.sums, row_bytes);
    if constexpr (kHasSecond) _tile_loadd(1, block.sums + kLines, row_bytes);
    if constexpr (kHasLower) _tile_loadd(2, lower, row_bytes);
    if constexpr (kHasLower && kHasSecond) _tile_loadd(3, lower + kLines, row_bytes);
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
  const int64_t b_row = block.b_row;
  const int64_t b_right = block.b_right;
  for (int64_t step = 0; step < block.steps; ++step, a += block.a_step, b += kStepElements) {
    _tile_loadd(6, b, b_row);
    _tile_loadd(4, a, a_row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kHasSecond) {
      _tile_loadd(7, b + b_right, b_row);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kHasLower) {
      _tile_loadd(5, a + a_lower, a_row);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kHasSecond) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, block.sums, row_bytes);
  if constexpr (kHasSecond) _tile_stored(1, block.sums + kLines, row_bytes);
  if constexpr (kHasLower) _tile_stored(2, lower, row_bytes);
  if constexpr (kHasLower && kHasSecond) _tile_stored(3, lower + kLines, row_bytes);
}

__mmask32 MaskOf(int64_t count) { return count >= 32 ? 0xffffffffU : (1U << std::max(count, int64_t{0})) - 1; }

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
      const __m512i high = _mm512_maskz_cvtepu16_epi32(odd, _mm256_maskz_loadu_epi16(odd, pair + from.depth));
      r[i] = Float16Lanes(_mm512_castsi512_ps(_mm512_or_si512(low, _mm512_maskz_slli_epi32(odd, high, 16))));
    }
  }
  if ((from.depth == 1) == pairs_are_rows) Transpose16x16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * kDepth, __m512(r[i]));
}

constexpr __mmask8 kAll8 = 0xff;
constexpr __mmask16 kAll16 = 0xffff;
constexpr __mmask32 kAll32 = 0xffffffffU;

// Loads the elements of `mask`, in the order in which FirstPairs() and LastPairs() take them.
COTAN_AMX_TARGET inline __m512i LoadForPairs(const uint16_t* from, __mmask32 mask) {
  const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  return _mm512_maskz_permutexvar_epi64(kAll8, order, _mm512_maskz_loadu_epi16(mask, from));
}

// Returns the pairs of elements 0 to 15, or 16 to 31, of two vectors.
COTAN_AMX_TARGET inline __m512i FirstPairs(__m512i low, __m512i high) {
  return _mm512_maskz_unpacklo_epi16(kAll32, low, high);
}
COTAN_AMX_TARGET inline __m512i LastPairs(__m512i low, __m512i high) {
  return _mm512_maskz_unpackhi_epi16(kAll32, low, high);
}

// Packs a tile of PackRowsOf().
template <bool kIsSecond>
COTAN_AMX_TARGET void PackRowTile(const ScatteredLines& from, __mmask32 mask, uint16_t* to) {
  Float16Lanes r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const __m512i low = LoadForPairs(from.terms[2 * i] + from.first, mask);
    const __m512i high = LoadForPairs(from.terms[2 * i + 1] + from.first, mask);
    r[i] = Float16Lanes(_mm512_castsi512_ps(kIsSecond ? LastPairs(low, high) : FirstPairs(low, high)));
  }
  Transpose16x16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * kDepth, __m512(r[i]));
}

template <bool kHasOdd>
COTAN_AMX_TARGET void PackColumnPairs(const ScatteredLines& from, int64_t pairs, __mmask32 mask, uint16_t* even,
                                      uint16_t* odd) {
  __m512i next = _mm512_setzero_si512();
  if constexpr (kHasOdd) next = LoadForPairs(from.terms[0] + from.first, mask);
  for (int64_t i = 0; i < pairs; ++i, even += 2 * kDepth) {
    const __m512i first = kHasOdd ? next : LoadForPairs(from.terms[2 * i] + from.first, mask);
    const __m512i second = LoadForPairs(from.terms[2 * i + 1] + from.first, mask);
    _mm512_store_si512(even, FirstPairs(first, second));
    _mm512_store_si512(even + kDepth, LastPairs(first, second));
    if constexpr (kHasOdd) {
      next = LoadForPairs(from.terms[2 * i + 2] + from.first, mask);
      _mm512_store_si512(odd, FirstPairs(second, next));
      _mm512_store_si512(odd + kDepth, LastPairs(second, next));
      odd += 2 * kDepth;
    }
  }
}

// Does what RoundTransposed() says.
COTAN_AMX_TARGET void RoundColumns(const float* from, int64_t from_row, int64_t rows, int64_t columns, uint16_t* to,
                                   int64_t to_row) {
  Float16Lanes r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    r[i] = Float16Lanes(i < rows ? _mm512_loadu_ps(from + i * from_row) : _mm512_setzero_ps());
  }
  Transpose16x16(r);
  const auto mask = static_cast<__mmask16>(MaskOf(rows));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i < columns) _mm256_mask_storeu_epi16(to + i * to_row, mask, (__m256i)_mm512_cvtneps_pbh(__m512(r[i])));
  }
}

// Does what RoundStrided() says.
COTAN_AMX_TARGET void RoundApart(const float* from, int64_t stride, int64_t count, uint16_t* to) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i index = _mm512_maskz_mullo_epi32(kAll16, lanes, _mm512_set1_epi32(static_cast<int>(stride)));
  for (int64_t i = 0; i < count; i += kLines) {
    const auto mask = static_cast<__mmask16>(MaskOf(std::min(count - i, kLines)));
    const __m512 sums = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, index, from + i * stride, 4);
    _mm256_mask_storeu_epi16(to + i, mask, (__m256i)_mm512_cvtneps_pbh(sums));
  }
}

// Rounds a row of RoundRows().
COTAN_AMX_TARGET void RoundRow(const float* from, int64_t columns, int64_t width, uint16_t* to) {
  for (int64_t e = 0; e < width; e += kBlock) {
    const __mmask32 mask = MaskOf(columns - e);
    const __m512 first = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from + e);
    const __m512 second = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + e + kLines);
    _mm512_storeu_si512(to + e, (__m512i)_mm512_cvtne2ps_pbh(second, first));
  }
}

const BFloat16* ToBFloat16(const uint16_t* bits) { return reinterpret_cast<const BFloat16*>(bits); }

// Does what StoreBlock() says.
COTAN_AMX_TARGET void StoreRows(const float* sums, int64_t rows, int64_t columns, const uint16_t* bias, bool adds,
                                uint16_t* c, int64_t c_row) {
  const __mmask32 mask = MaskOf(columns);
  const auto first_mask = static_cast<__mmask16>(mask);
  const auto second_mask = static_cast<__mmask16>(mask >> 16);
  const bool has_bias = bias != nullptr;
  const __m512 first_bias = has_bias ? LoadLanes(ToBFloat16(bias), first_mask) : _mm512_setzero_ps();
  const __m512 second_bias = has_bias ? LoadLanes(ToBFloat16(bias + kLines), second_mask) : _mm512_setzero_ps();
  for (int64_t i = 0; i < rows; ++i, sums += kBlock, c += c_row) {
    __m512 first = _mm512_loadu_ps(sums);
    __m512 second = _mm512_loadu_ps(sums + kLines);
    if (has_bias) {
      first = _mm512_add_ps(first, first_bias);
      second = _mm512_add_ps(second, second_bias);
    }
    if (adds) {
      first = _mm512_add_ps(first, LoadLanes(ToBFloat16(c), first_mask));
      second = _mm512_add_ps(second, LoadLanes(ToBFloat16(c + kLines), second_mask));
    }
    _mm512_mask_storeu_epi16(c, mask, (__m512i)_mm512_cvtne2ps_pbh(second, first));
  }
}

COTAN_AMX_TARGET void Load(const Config& config) {
  asm volatile("" ::: "memory");  // GCC's intrinsic reads 8 bytes of the operand as far as GCC knows
  _tile_loadconfig(&config);
}

COTAN_AMX_TARGET void Release() { _tile_release(); }

}  // namespace

bool IsAvailable() {
  static const bool is_available = [] {
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && HasTiles() && RequestTiles();
  }();
  return is_available;
}

Registers::~Registers() {
  if (config_ != nullptr) Release();
}

void Registers::Use(const Config& config) {
  if (config_ != &config) Load(config);
  config_ = &config;
}

void Multiply(const Block& block, int64_t rows, int64_t columns) {
  if (rows > kLines) {
    columns > kLines ? MultiplyBlock<true, true>(block) : MultiplyBlock<true, false>(block);
  } else {
    columns > kLines ? MultiplyBlock<false, true>(block) : MultiplyBlock<false, false>(block);
  }
}

void PackLines(const Lines& from, int64_t lines, int64_t depths, bool pairs_are_rows, uint16_t* to) {
  for (int64_t k = 0; k < depths; k += kDepth) {
    for (int64_t half = 0; half < kBlock; half += kLines, to += kTileElements) {
      const Lines tile = {from.data + half * from.line + k * from.depth, from.line, from.depth};
      if (half < lines) PackTile(tile, lines - half, depths - k, pairs_are_rows, to);
    }
  }
}

void PackRowsOf(const ScatteredLines& from, int64_t lines, uint16_t* to) {
  const __mmask32 mask = MaskOf(lines);
  PackRowTile<false>(from, mask, to);
  if (lines > kLines) PackRowTile<true>(from, mask, to + kTileElements);
}

void PackColumnsOf(const ScatteredLines& from, int64_t pairs, int64_t columns, uint16_t* even, uint16_t* odd) {
  const __mmask32 mask = MaskOf(columns);
  odd != nullptr ? PackColumnPairs<true>(from, pairs, mask, even, odd)
                 : PackColumnPairs<false>(from, pairs, mask, even, odd);
}

void RoundTransposed(const float* from, int64_t from_row, int64_t rows, int64_t columns, uint16_t* to, int64_t to_row) {
  RoundColumns(from, from_row, rows, columns, to, to_row);
}

void RoundStrided(const float* from, int64_t stride, int64_t count, uint16_t* to) {
  RoundApart(from, stride, count, to);
}

void StoreBlock(const float* sums, int64_t rows, int64_t columns, const uint16_t* bias, bool adds, uint16_t* c,
                int64_t c_row) {
  StoreRows(sums, rows, columns, bias, adds, c, c_row);
}

void RoundRows(const float* from, int64_t from_row, int64_t rows, int64_t columns, int64_t width, uint16_t* to,
               int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i) RoundRow(from + i * from_row, columns, width, to + i * to_row);
}

#else

bool IsAvailable() { return false; }

Registers::~Registers() = default;

void Registers::Use(const Config& config) { config_ = &config; }

void Multiply(const Block& /*block*/, int64_t /*rows*/, int64_t /*columns*/) {}

void PackLines(const Lines& /*from*/, int64_t /*lines*/, int64_t /*depths*/, bool /*pairs_are_rows*/,
               uint16_t* /*to*/) {}

void PackRowsOf(const ScatteredLines& /*from*/, int64_t /*lines*/, uint16_t* /*to*/) {}

void PackColumnsOf(const ScatteredLines& /*from*/, int64_t /*pairs*/, int64_t /*columns*/, uint16_t* /*even*/,
                   uint16_t* /*odd*/) {}

void RoundTransposed(const float* /*from*/, int64_t /*from_row*/, int64_t /*rows*/, int64_t /*columns*/,
                     uint16_t* /*to*/, int64_t /*to_row*/) {}

void RoundStrided(const float* /*from*/, int64_t /*stride*/, int64_t /*count*/, uint16_t* /*to*/) {}

void StoreBlock(const float* /*sums*/, int64_t /*rows*/, int64_t /*columns*/, const uint16_t* /*bias*/, bool /*adds*/,
                uint16_t* /*c*/, int64_t /*c_row*/) {}

void RoundRows(const float* /*from*/, int64_t /*from_row*/, int64_t /*rows*/, int64_t /*columns*/, int64_t /*width*/,
               uint16_t* /*to*/, int64_t /*to_row*/) {}

#endif

}  // namespace cotan::cpu::amx
