// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/transposed_panels.h"

#include <algorithm>

#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/transpose16.h"

namespace cotan::cpu::attention {

#ifdef COTAN_LANES_TARGET
namespace {

constexpr int64_t kLanes = 16;

// Writes `lanes` rows of 16 columns of a panel.
COTAN_LANES_TARGET void PackSquare(const float* from, int64_t stride, int64_t columns, int64_t lanes, float* to) {
  const auto mask = static_cast<__mmask16>(0xffff >> (kLanes - lanes));
  Float16Lanes r[kLanes];
#pragma GCC unroll 16
  for (int64_t n = 0; n < kLanes; ++n) {
    r[n] = n < columns ? Float16Lanes(LoadLanes(from + n * stride, mask)) : Float16Lanes{};
  }
  Transpose16x16(r);
#pragma GCC unroll 16
  for (int64_t k = 0; k < kLanes; ++k) {
    if (k < lanes) _mm512_storeu_ps(to + k * kPanelColumns<float>, __m512(r[k]));
  }
}

}  // namespace

bool PackTransposedPanels(const float* from, int64_t stride, int64_t depth, int64_t columns, float* to) {
  if (!HasAvx512Lanes()) return false;
  for (int64_t panel = 0; panel < columns; panel += kPanelColumns<float>, to += depth * kPanelColumns<float>) {
    for (int64_t n = 0; n < kPanelColumns<float>; n += kLanes) {
      const int64_t left = std::clamp<int64_t>(columns - panel - n, 0, kLanes);
      for (int64_t k = 0; k < depth; k += kLanes) {
        PackSquare(from + (panel + n) * stride + k, stride, left, std::min(kLanes, depth - k),
                   to + k * kPanelColumns<float> + n);
      }
    }
  }
  return true;
}

#else

bool PackTransposedPanels(const float* /*from*/, int64_t /*stride*/, int64_t /*depth*/, int64_t /*columns*/,
                          float* /*to*/) {
  return false;
}

#endif

}  // namespace cotan::cpu::attention
