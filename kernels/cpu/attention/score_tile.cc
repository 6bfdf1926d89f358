// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/score_tile.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/simd_math.h"

namespace cotan::cpu::attention {
namespace {

template <typename T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// Returns the number of columns of a tile, rounded up to whole vectors.
template <typename T>
int64_t WholeVectors(int64_t keys) {
  return (keys + kVectorSize<T> - 1) / kVectorSize<T> * kVectorSize<T>;
}

// Returns what a maximum is subtracted as: a row of -inf gives exp(-inf) = 0.
template <typename T>
T Shift(T max) {
  return max == kMinusInfinity<T> ? T{0} : max;
}

// Returns by what the sums of a row are multiplied when its maximum changes.
template <typename T>
T Correction(T old_max, T max) {
  return old_max == max ? T{1} : std::exp(old_max - max);
}

// Scales the first `visible` of `columns` scores and sets the others to -inf.
template <typename T>
[[gnu::always_inline]] inline void ScaleRow(T* row, int64_t visible, int64_t columns, T scale) {
  for (int64_t j = 0; j < visible; ++j) row[j] *= scale;
  std::fill(row + visible, row + columns, kMinusInfinity<T>);
}

// Returns the largest of a row of whole vectors and `largest`; NaN is not larger.
template <typename T>
[[gnu::always_inline]] inline T MaxOfRow(const T* row, int64_t columns, T largest) {
  T best[kVectorSize<T>];
  std::fill_n(best, kVectorSize<T>, largest);
  for (int64_t j = 0; j < columns; j += kVectorSize<T>) {
    for (int64_t k = 0; k < kVectorSize<T>; ++k) best[k] = row[j + k] > best[k] ? row[j + k] : best[k];
  }
  for (int64_t width = kVectorSize<T> / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) best[k] = best[k + width] > best[k] ? best[k + width] : best[k];
  }
  return best[0];
}

// Returns the sum of the elements of a vector in memory, which is overwritten.
template <typename T>
[[gnu::always_inline]] inline T SumOf(T (&parts)[kVectorSize<T>]) {
  for (int64_t width = kVectorSize<T> / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) parts[k] += parts[k + width];
  }
  return parts[0];
}

// Replaces the elements x of a row of whole vectors by exp(x - shift) and returns their sum.
template <typename T>
[[gnu::always_inline]] inline T ExpOfRow(T* row, int64_t columns, T shift) {
  Vector<T> sums = {};
  for (int64_t j = 0; j < columns; j += kVectorSize<T>) {
    Vector<T> x;
    Load(row + j, x);
    x -= shift;
    ExpOfNegative<T>(x);
    Store<T>(x, row + j);
    sums += x;
  }
  T parts[kVectorSize<T>];
  Store<T>(sums, parts);
  return SumOf(parts);
}

template <typename T>
COTAN_SIMD_VERSIONS void PortableSoftmax(const ScoreTile& tile, T scale, T* scores, T* max, T* total, T* corrections) {
  const int64_t columns = WholeVectors<T>(tile.keys);
  for (int64_t i = 0; i < tile.rows; ++i) {
    T* row = scores + i * kKeys;
    ScaleRow(row, tile.Visible(i), columns, scale);
    const T largest = MaxOfRow(row, columns, max[i]);
    const T sum = ExpOfRow(row, columns, Shift(largest));
    corrections[i] = Correction(max[i], largest);
    total[i] = total[i] * corrections[i] + sum;
    max[i] = largest;
  }
}

template <typename T>
COTAN_SIMD_VERSIONS void PortableGradient(const ScoreTile& tile, T scale, T slope_scale, const T* logsumexp,
                                          int64_t logsumexp_step, const T* dots, T* scores, T* slopes) {
  const int64_t columns = WholeVectors<T>(tile.keys);
  for (int64_t i = 0; i < tile.rows; ++i) {
    T* row = scores + i * kKeys;
    T* slope = slopes + i * kKeys;
    const int64_t visible = logsumexp[i * logsumexp_step] == kMinusInfinity<T> ? 0 : tile.Visible(i);
    ScaleRow(row, visible, columns, scale);
    ExpOfRow(row, columns, Shift(logsumexp[i * logsumexp_step]));
    for (int64_t j = 0; j < visible; ++j) slope[j] = row[j] * (slope[j] - dots[i]) * slope_scale;
    std::fill(slope + visible, slope + columns, T{0});
  }
}

template <typename T>
COTAN_SIMD_VERSIONS void PortableDotProducts(const T* a, int64_t a_row, const T* b, int64_t b_row, int64_t rows,
                                             int64_t size, T* dots) {
  for (int64_t i = 0; i < rows; ++i) {
    // Independent sums can be computed as vectors.
    T parts[kVectorSize<T>] = {};
    int64_t e = 0;
    for (; e + kVectorSize<T> <= size; e += kVectorSize<T>) {
      for (int64_t k = 0; k < kVectorSize<T>; ++k) parts[k] += a[i * a_row + e + k] * b[i * b_row + e + k];
    }
    for (; e < size; ++e) parts[0] += a[i * a_row + e] * b[i * b_row + e];
    dots[i] = SumOf(parts);
  }
}

#ifdef COTAN_LANES_TARGET

constexpr int64_t kLanes = 16;
constexpr int kMaxVectors = kKeys / kLanes;

// Returns exp(x) for x <= 0, and 0 for lanes outside of `mask` and for arguments whose result would be subnormal. NaN
// stays NaN.
COTAN_LANES_INLINE __m512 ExpOfNegativeLanes(__m512 x, __mmask16 mask) {
  Vector<float> scale, rest;
  SplitExp<float>(Vector<float>(x), scale, rest);
  mask = _mm512_mask_cmp_ps_mask(mask, x, _mm512_set1_ps(-ExpTraits<float>::kLargest), _CMP_NLT_UQ);
  return _mm512_maskz_fmadd_ps(mask, __m512(scale), __m512(rest), __m512(scale));
}

// Returns the first `visible` of the 64 columns of a row, a bit each.
uint64_t MaskOfRow(int64_t visible) {
  static_assert(kKeys == 64);
  return visible == kKeys ? ~uint64_t{0} : (uint64_t{1} << visible) - 1;
}

// Returns the lanes of vector `v` of a row.
__mmask16 MaskOfVector(uint64_t row, int v) { return static_cast<__mmask16>(row >> (v * kLanes)); }

// Returns the lanes with the halves of groups of 2 * kWidth exchanged.
template <int kWidth>
COTAN_LANES_INLINE __m512 ExchangedLanes(__m512 x) {
  if constexpr (kWidth == 8) return _mm512_maskz_shuffle_f32x4(0xffff, x, x, 0b01'00'11'10);
  if constexpr (kWidth == 4) return _mm512_maskz_shuffle_f32x4(0xffff, x, x, 0b10'11'00'01);
  if constexpr (kWidth == 2) return _mm512_maskz_permute_ps(0xffff, x, 0b01'00'11'10);
  if constexpr (kWidth == 1) return _mm512_maskz_permute_ps(0xffff, x, 0b10'11'00'01);
}

struct Largest {
  COTAN_LANES_INLINE static __m512 Of(__m512 a, __m512 b) { return _mm512_maskz_max_ps(0xffff, a, b); }
};
struct Sum {
  COTAN_LANES_INLINE static __m512 Of(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
};

// Returns the reductions of kWidth neighbouring lanes of a in lanes whose number has bit kWidth clear, and those of b
// in the others.
template <typename Reduction, int kWidth>
COTAN_LANES_INLINE __m512 Halved(__m512 a, __m512 b) {
  constexpr __mmask16 kSecond = kWidth == 8 ? 0xff00 : kWidth == 4 ? 0xf0f0 : kWidth == 2 ? 0xcccc : 0xaaaa;
  const __m512 kept = _mm512_mask_mov_ps(a, kSecond, b);
  const __m512 moved = ExchangedLanes<kWidth>(_mm512_mask_mov_ps(b, kSecond, a));
  return Reduction::Of(kept, moved);
}

// Returns the reduction of all lanes of rows[i] in lanes 2 i and 2 i + 1.
template <typename Reduction>
COTAN_LANES_INLINE __m512 ReducedRows(const __m512 (&rows)[kTileRows]) {
  __m512 four[4], two[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) four[i] = Halved<Reduction, 8>(rows[i], rows[i + 4]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) two[i] = Halved<Reduction, 4>(four[i], four[i + 2]);
  const __m512 one = Halved<Reduction, 2>(two[0], two[1]);
  return Reduction::Of(one, ExchangedLanes<1>(one));
}

// Loads one element for each row into lanes 2 i and 2 i + 1; 0 for rows that are not there.
COTAN_LANES_INLINE __m512 LoadRows(const float* from, int64_t rows) {
  const __m512i index = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const auto mask = static_cast<__mmask16>((1 << rows) - 1);
  return _mm512_maskz_permutexvar_ps(0xffff, index, _mm512_maskz_loadu_ps(mask, from));
}

// The inverse of LoadRows().
COTAN_LANES_INLINE void StoreRows(__m512 values, int64_t rows, float* to) {
  const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
  const auto mask = static_cast<__mmask16>((1 << rows) - 1);
  _mm512_mask_storeu_ps(to, mask, _mm512_maskz_permutexvar_ps(0xffff, index, values));
}

template <int kVectors>
COTAN_LANES_TARGET void SoftmaxOfLanes(const ScoreTile& tile, float scale, float* scores, float* max, float* total,
                                       float* corrections) {
  const __m512 scales = _mm512_set1_ps(scale);
  const __m512 lowest = _mm512_set1_ps(kMinusInfinity<float>);
  uint64_t masks[kTileRows] = {};
  __m512 rows[kTileRows];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
    rows[i] = lowest;
    if (i >= tile.rows) continue;
    masks[i] = MaskOfRow(tile.Visible(i));
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512 x = _mm512_mul_ps(scales, _mm512_loadu_ps(scores + i * kKeys + v * kLanes));
      rows[i] = _mm512_mask_max_ps(rows[i], MaskOfVector(masks[i], v), x, rows[i]);
    }
  }
  const __m512 old_max = LoadRows(max, tile.rows);
  const __m512 new_max = Largest::Of(ReducedRows<Largest>(rows), old_max);
  StoreRows(new_max, tile.rows, max);
  // A row of -inf is shifted by 0, which gives exp(-inf) = 0. The sums of a row without a score so far are 0.
  const __mmask16 is_seen = _mm512_cmp_ps_mask(new_max, lowest, _CMP_NEQ_UQ);
  const __m512 shift = _mm512_maskz_mov_ps(is_seen, new_max);
  const __mmask16 is_changed = _mm512_cmp_ps_mask(old_max, new_max, _CMP_NEQ_UQ);
  const __m512 factor =
      _mm512_mask_mov_ps(_mm512_set1_ps(1), is_changed, ExpOfNegativeLanes(_mm512_sub_ps(old_max, shift), is_changed));
  alignas(64) float shifts[kLanes];
  _mm512_store_ps(shifts, shift);
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
    rows[i] = _mm512_setzero_ps();
    if (i >= tile.rows) continue;
    float* row = scores + i * kKeys;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512 x = _mm512_fmsub_ps(scales, _mm512_loadu_ps(row + v * kLanes), _mm512_set1_ps(shifts[2 * i]));
      const __m512 p = ExpOfNegativeLanes(x, MaskOfVector(masks[i], v));
      _mm512_storeu_ps(row + v * kLanes, p);
      rows[i] = _mm512_add_ps(rows[i], p);
    }
  }
  const __m512 sums = ReducedRows<Sum>(rows);
  StoreRows(_mm512_fmadd_ps(LoadRows(total, tile.rows), factor, sums), tile.rows, total);
  StoreRows(factor, tile.rows, corrections);
}

template <int kVectors>
COTAN_LANES_TARGET void GradientOfLanes(const ScoreTile& tile, float scale, float slope_scale, const float* logsumexp,
                                        int64_t logsumexp_step, const float* dots, float* scores, float* slopes) {
  const __m512 scales = _mm512_set1_ps(scale);
  const __m512 slope_scales = _mm512_set1_ps(slope_scale);
  for (int64_t i = 0; i < tile.rows; ++i) {
    float* row = scores + i * kKeys;
    float* slope = slopes + i * kKeys;
    const float shift = logsumexp[i * logsumexp_step];
    const uint64_t row_mask = MaskOfRow(shift == kMinusInfinity<float> ? 0 : tile.Visible(i));
    const __m512 shifts = _mm512_set1_ps(shift);
    const __m512 dot = _mm512_set1_ps(dots[i]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __mmask16 mask = MaskOfVector(row_mask, v);
      const __m512 x = _mm512_fmsub_ps(scales, _mm512_loadu_ps(row + v * kLanes), shifts);
      const __m512 p = ExpOfNegativeLanes(x, mask);
      const __m512 difference = _mm512_sub_ps(_mm512_loadu_ps(slope + v * kLanes), dot);
      _mm512_storeu_ps(row + v * kLanes, p);
      _mm512_storeu_ps(slope + v * kLanes, _mm512_maskz_mul_ps(mask, _mm512_mul_ps(p, slope_scales), difference));
    }
  }
}

COTAN_LANES_TARGET void DotProductsOfLanes(const float* a, int64_t a_row, const float* b, int64_t b_row, int64_t rows,
                                           int64_t size, float* dots) {
  for (int64_t first = 0; first < rows; first += kTileRows) {
    const int64_t count = std::min(kTileRows, rows - first);
    __m512 sums[kTileRows];
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      sums[i] = _mm512_setzero_ps();
      if (i >= count) continue;
      const float* x = a + (first + i) * a_row;
      const float* y = b + (first + i) * b_row;
      for (int64_t e = 0; e < size; e += kLanes) {
        const auto mask = static_cast<__mmask16>(0xffff >> (kLanes - std::min(kLanes, size - e)));
        sums[i] = _mm512_fmadd_ps(LoadLanes(x + e, mask), LoadLanes(y + e, mask), sums[i]);
      }
    }
    StoreRows(ReducedRows<Sum>(sums), count, dots + first);
  }
}

#endif

}  // namespace

template <typename T>
void SoftmaxOfTile(const ScoreTile& tile, T scale, T* scores, T* max, T* total, T* corrections) {
#ifdef COTAN_LANES_TARGET
  if constexpr (std::is_same_v<T, float>) {
    constexpr decltype(&SoftmaxOfLanes<1>) kFunctions[kMaxVectors] = {SoftmaxOfLanes<1>, SoftmaxOfLanes<2>,
                                                                      SoftmaxOfLanes<3>, SoftmaxOfLanes<4>};
    if (HasAvx512Lanes()) return kFunctions[(tile.keys - 1) / kLanes](tile, scale, scores, max, total, corrections);
  }
#endif
  PortableSoftmax(tile, scale, scores, max, total, corrections);
}

template <typename T>
void SoftmaxGradientOfTile(const ScoreTile& tile, T scale, T slope_scale, const T* logsumexp, int64_t logsumexp_step,
                           const T* dots, T* scores, T* slopes) {
#ifdef COTAN_LANES_TARGET
  if constexpr (std::is_same_v<T, float>) {
    constexpr decltype(&GradientOfLanes<1>) kFunctions[kMaxVectors] = {GradientOfLanes<1>, GradientOfLanes<2>,
                                                                       GradientOfLanes<3>, GradientOfLanes<4>};
    if (HasAvx512Lanes()) {
      return kFunctions[(tile.keys - 1) / kLanes](tile, scale, slope_scale, logsumexp, logsumexp_step, dots, scores,
                                                  slopes);
    }
  }
#endif
  PortableGradient(tile, scale, slope_scale, logsumexp, logsumexp_step, dots, scores, slopes);
}

template <typename T>
void DotProductsOfRows(const T* a, int64_t a_row, const T* b, int64_t b_row, int64_t rows, int64_t size, T* dots) {
#ifdef COTAN_LANES_TARGET
  if constexpr (std::is_same_v<T, float>) {
    if (HasAvx512Lanes()) return DotProductsOfLanes(a, a_row, b, b_row, rows, size, dots);
  }
#endif
  PortableDotProducts(a, a_row, b, b_row, rows, size, dots);
}

template void SoftmaxOfTile(const ScoreTile&, float, float*, float*, float*, float*);
template void SoftmaxOfTile(const ScoreTile&, double, double*, double*, double*, double*);
template void SoftmaxGradientOfTile(const ScoreTile&, float, float, const float*, int64_t, const float*, float*,
                                    float*);
template void SoftmaxGradientOfTile(const ScoreTile&, double, double, const double*, int64_t, const double*, double*,
                                    double*);
template void DotProductsOfRows(const float*, int64_t, const float*, int64_t, int64_t, int64_t, float*);
template void DotProductsOfRows(const double*, int64_t, const double*, int64_t, int64_t, int64_t, double*);

}  // namespace cotan::cpu::attention
