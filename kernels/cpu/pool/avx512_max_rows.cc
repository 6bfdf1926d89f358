// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/avx512_max_rows.h"

#include <limits>

#include "kernels/cpu/simd/avx512_lanes.h"

namespace cotan::cpu {

#ifdef COTAN_LANES_TARGET
namespace {

constexpr int64_t kVectorLanes = 16;
constexpr int kGroup = 2;  // vectors of lanes that are computed side by side

// Maxima of 16 lanes, and their positions.
struct Maxima {
  __m512 value;
  __m512i position;
};

// Takes larger values, and NaN, which then stays.
COTAN_LANES_INLINE void Take(__m512 value, __m512i position, Maxima& maxima) {
  const __mmask16 take = static_cast<__mmask16>(_mm512_cmp_ps_mask(value, maxima.value, _CMP_GT_OQ) |
                                                _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q));
  maxima.value = _mm512_mask_mov_ps(maxima.value, take, value);
  maxima.position = _mm512_mask_mov_epi32(maxima.position, take, position);
}

// The lanes of kVectors vectors, of which the last one has those of `mask`.
template <int kVectors>
struct Lanes {
  static constexpr int64_t kCount = kVectors * kVectorLanes;

  COTAN_LANES_INLINE Lanes(int64_t first, __mmask16 mask) : first(first), last(mask) {}
  COTAN_LANES_INLINE __mmask16 Mask(int vector) const {
    return vector + 1 == kVectors ? last : static_cast<__mmask16>(0xffff);
  }

  int64_t first;
  __mmask16 last;
};

// The maxima of a window in kVectors vectors of lanes.
template <typename S, int kVectors>
struct WindowMaxima {
  COTAN_LANES_INLINE explicit WindowMaxima(int64_t first_position) {
#pragma GCC unroll 2
    for (Maxima& m : maxima) {
      m.value = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
      m.position = _mm512_set1_epi32(static_cast<int32_t>(first_position));
    }
  }

  COTAN_LANES_INLINE void Add(const Lanes<kVectors>& lanes, int64_t position, const S* tap) {
    const __m512i here = _mm512_set1_epi32(static_cast<int32_t>(position));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Take(LoadLanes(tap + lanes.first + v * kVectorLanes, lanes.Mask(v)), here, maxima[v]);
    }
  }

  COTAN_LANES_INLINE void Store(const Lanes<kVectors>& lanes, S* output, int32_t* index) const {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const int64_t lane = lanes.first + v * kVectorLanes;
      StoreLanes(maxima[v].value, lanes.Mask(v), output + lane);
      if (index != nullptr) _mm512_mask_storeu_epi32(index + lane, lanes.Mask(v), maxima[v].position);
    }
  }

  Maxima maxima[kVectors];
};

// An output position of a row.
template <typename S>
struct At {
  int64_t d;
  int64_t h;
  int64_t w;
  const S* input;  // the plane
  S* output;
  int32_t* index;
};

// ForEachTap() cannot call what is compiled for other instructions than itself.
template <typename S, int kVectors>
COTAN_LANES_INLINE void MaxOfWindow(const PoolGeometry& g, const Lanes<kVectors>& lanes, const At<S>& at) {
  const auto& axes = g.axes;
  const WindowRange& depth = axes[0].windows[static_cast<size_t>(at.d)];
  const WindowRange& height = axes[1].windows[static_cast<size_t>(at.h)];
  const WindowRange& width = axes[2].windows[static_cast<size_t>(at.w)];
  WindowMaxima<S, kVectors> maxima(FirstTap(axes, at.d, at.h, at.w));
  const int64_t step = axes[2].dilation * axes[2].input_stride;
  const int64_t iw = width.origin + width.begin * axes[2].dilation;
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    const int64_t id = depth.origin + kd * axes[0].dilation;
    for (int64_t kh = height.begin; kh < height.end; ++kh) {
      const int64_t ih = height.origin + kh * axes[1].dilation;
      const S* from = at.input + id * axes[0].input_stride + ih * axes[1].input_stride + iw * axes[2].input_stride;
      int64_t position = (id * axes[1].input + ih) * axes[2].input + iw;
      for (int64_t kw = width.begin; kw < width.end; ++kw, from += step, position += axes[2].dilation) {
        maxima.Add(lanes, position, from);
      }
    }
  }
  maxima.Store(lanes, at.output, at.index);
}

// Computes a whole window of 2 x 2 taps.
template <typename S, int kVectors>
COTAN_LANES_INLINE void MaxOfFour(const WholeWindow& window, const Lanes<kVectors>& lanes, const At<S>& at) {
  WindowMaxima<S, kVectors> maxima(window.position);
#pragma GCC unroll 4
  for (int tap = 0; tap < 4; ++tap) {
    const int64_t row = tap / 2;
    const int64_t column = tap % 2;
    maxima.Add(lanes, window.position + row * window.position_row + column * window.position_column,
               at.input + window.offset + row * window.row + column * window.column);
  }
  maxima.Store(lanes, at.output, at.index);
}

// Computes a row. `kAreFours`: its windows are of 2 x 2 taps, and whole along their height. They take half the time
// without the loops over taps; windows of 3 x 3 taps would take 1.1 times as long.
template <typename S, bool kAreFours>
COTAN_LANES_TARGET void MaxRowOfVectors(const PoolGeometry& g, At<S> at) {
  using Group = Lanes<kGroup>;
  for (at.w = 0; at.w < g.axes[2].output; ++at.w) {
    const bool is_four = kAreFours && IsWhole(g.axes[2], at.w);
    const WholeWindow window = is_four ? WholeWindowAt(g.axes, at.d, at.h, at.w) : WholeWindow{};
    int64_t lane = 0;
    for (; lane + Group::kCount <= g.lanes.size; lane += Group::kCount) {
      const Group lanes(lane, 0xffff);
      is_four ? MaxOfFour<S, kGroup>(window, lanes, at) : MaxOfWindow<S, kGroup>(g, lanes, at);
    }
    for (; lane < g.lanes.size; lane += kVectorLanes) {
      const int64_t rest = g.lanes.size - lane;
      const Lanes<1> lanes(lane, static_cast<__mmask16>(rest >= kVectorLanes ? 0xffff : (1 << rest) - 1));
      is_four ? MaxOfFour<S, 1>(window, lanes, at) : MaxOfWindow<S, 1>(g, lanes, at);
    }
    at.output += g.axes[2].output_stride;
    if (at.index != nullptr) at.index += g.axes[2].index_stride;
  }
}

template <typename S>
void MaxRow(const PoolGeometry& g, int64_t d, int64_t h, const S* input, S* output, int32_t* index) {
  const At<S> at = {.d = d, .h = h, .w = 0, .input = input, .output = output, .index = index};
  if (IsWhole(g.axes[1], h) && SquareSide(g) == 2) return MaxRowOfVectors<S, true>(g, at);
  MaxRowOfVectors<S, false>(g, at);
}

}  // namespace

template <typename S>
MaxRowFunction<S> Avx512MaxRow() {
  return HasAvx512Lanes() ? MaxRow<S> : nullptr;
}

#else

template <typename S>
MaxRowFunction<S> Avx512MaxRow() {
  return nullptr;
}

#endif

template MaxRowFunction<float> Avx512MaxRow();
template MaxRowFunction<BFloat16> Avx512MaxRow();

}  // namespace cotan::cpu
