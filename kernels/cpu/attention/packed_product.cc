// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/packed_product.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"

namespace cotan::cpu::attention {
namespace {

template <typename T>
COTAN_SIMD_VERSIONS void Multiply(const T* a, int64_t a_row, int64_t a_column, const T* panels, int64_t packed_depth,
                                  int64_t rows, int64_t columns, int64_t depth, T* c, int64_t c_row, bool adds) {
  MultiplyPacked(a, a_row, a_column, panels, packed_depth, rows, columns, depth, c, c_row, adds);
}

#ifdef COTAN_LANES_TARGET

constexpr int64_t kLanes = 16;

// A product of some rows of a left matrix and a panel.
struct PanelProduct {
  const float* a;
  int64_t a_row;
  int64_t a_column;
  const float* panel;
  int64_t depth;
  float* c;
  int64_t c_row;
  bool adds;
  __mmask16 last;  // lanes of the last vector of columns
};

template <int kRows, int kVectors>
COTAN_LANES_INLINE void MultiplyRows(const PanelProduct& p, int64_t row) {
  const float* a = p.a + row * p.a_row;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
#pragma GCC unroll 1
  for (int64_t k = 0; k < p.depth; ++k, a += p.a_column) {
    __m512 right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_ps(p.panel + k * kPanelColumns<float> + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const __m512 left = _mm512_set1_ps(a[i * p.a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(left, right[v], sum[i][v]);
    }
  }
  // Processors do not forward the data of masked stores to later loads.
  const bool is_whole = p.last == 0xffff;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = p.c + (row + i) * p.c_row + v * kLanes;
      if (v < kVectors - 1 || is_whole) {
        _mm512_storeu_ps(to, _mm512_add_ps(p.adds ? _mm512_loadu_ps(to) : _mm512_setzero_ps(), sum[i][v]));
      } else {
        const __m512 old = _mm512_maskz_loadu_ps(static_cast<__mmask16>(p.adds ? p.last : 0), to);
        _mm512_mask_storeu_ps(to, p.last, _mm512_add_ps(old, sum[i][v]));
      }
    }
  }
}

template <int kVectors>
COTAN_LANES_TARGET void MultiplyPanel(const PanelProduct& p, int64_t rows) {
  int64_t row = 0;
  for (; row + 8 <= rows; row += 8) MultiplyRows<8, kVectors>(p, row);
  if (row + 4 <= rows) {
    MultiplyRows<4, kVectors>(p, row);
    row += 4;
  }
  if (row + 2 <= rows) {
    MultiplyRows<2, kVectors>(p, row);
    row += 2;
  }
  if (row < rows) MultiplyRows<1, kVectors>(p, row);
}

void MultiplyLanes(const float* a, int64_t a_row, int64_t a_column, const float* panels, int64_t packed_depth,
                   int64_t rows, int64_t columns, int64_t depth, float* c, int64_t c_row, bool adds) {
  for (int64_t n = 0; n < columns; n += kPanelColumns<float>) {
    const int64_t count = std::min(kPanelColumns<float>, columns - n);
    const int64_t vectors = (count + kLanes - 1) / kLanes;
    const auto last = static_cast<__mmask16>(0xffff >> (vectors * kLanes - count));
    const PanelProduct p{a, a_row, a_column, panels + n * packed_depth, depth, c + n, c_row, adds, last};
    if (vectors == 1) {
      MultiplyPanel<1>(p, rows);
    } else {
      MultiplyPanel<2>(p, rows);
    }
  }
}

#endif

}  // namespace

template <typename T>
void MultiplyTilePacked(const T* a, int64_t a_row, int64_t a_column, const T* panels, int64_t packed_depth,
                        int64_t rows, int64_t columns, int64_t depth, T* c, int64_t c_row, bool adds) {
#ifdef COTAN_LANES_TARGET
  if constexpr (std::is_same_v<T, float>) {
    if (HasAvx512Lanes()) {
      return MultiplyLanes(a, a_row, a_column, panels, packed_depth, rows, columns, depth, c, c_row, adds);
    }
  }
#endif
  Multiply(a, a_row, a_column, panels, packed_depth, rows, columns, depth, c, c_row, adds);
}

template void MultiplyTilePacked(const float*, int64_t, int64_t, const float*, int64_t, int64_t, int64_t, int64_t,
                                 float*, int64_t, bool);
template void MultiplyTilePacked(const double*, int64_t, int64_t, const double*, int64_t, int64_t, int64_t, int64_t,
                                 double*, int64_t, bool);

}  // namespace cotan::cpu::attention
