// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/bfloat16_rows.h"

#include <algorithm>

#include "base/half.h"

namespace cotan::cpu::attention {
namespace {

#ifdef COTAN_LANES_TARGET

constexpr int64_t kLanes = 16;

// Returns the lanes of a vector that begins `left` elements before the end of a row.
__mmask16 MaskOf(int64_t left) { return static_cast<__mmask16>(0xffff >> (kLanes - std::min(kLanes, left))); }

COTAN_LANES_TARGET void WidenLanes(const BFloat16* from, int64_t columns, float* to) {
  for (int64_t e = 0; e < columns; e += kLanes) {
    const __m512 values = LoadLanes(from + e, MaskOf(columns - e));
    // Processors do not forward the data of masked stores to later loads.
    if (e + kLanes <= columns) {
      _mm512_storeu_ps(to + e, values);
    } else {
      StoreLanes(values, MaskOf(columns - e), to + e);
    }
  }
}

COTAN_LANES_TARGET void NarrowLanes(const float* from, float factor, int64_t columns, BFloat16* to) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (int64_t e = 0; e < columns; e += kLanes) {
    const __mmask16 mask = MaskOf(columns - e);
    StoreLanes(_mm512_mul_ps(LoadLanes(from + e, mask), factors), mask, to + e);
  }
}

#endif

}  // namespace

void WidenRows(const BFloat16* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
#ifdef COTAN_LANES_TARGET
    if (HasAvx512Lanes()) {
      WidenLanes(from, columns, to);
      continue;
    }
#endif
    for (int64_t e = 0; e < columns; ++e) to[e] = BFloat16ToFloat(from[e].bits);
  }
}

void NarrowRow(const float* from, float factor, int64_t columns, BFloat16* to) {
#ifdef COTAN_LANES_TARGET
  if (HasAvx512Lanes()) return NarrowLanes(from, factor, columns, to);
#endif
  for (int64_t e = 0; e < columns; ++e) to[e] = {FloatToBFloat16(from[e] * factor)};
}

}  // namespace cotan::cpu::attention
