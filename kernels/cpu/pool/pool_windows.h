// SPDX-License-Identifier: Apache-2.0

// The windows of pools: their taps, and the maximum of one window in the lanes of a vector. Functions are inlined into
// functions that are compiled for several instruction sets (simd/simd.h).
#ifndef COTAN_KERNELS_CPU_POOL_POOL_WINDOWS_H_
#define COTAN_KERNELS_CPU_POOL_POOL_WINDOWS_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/base/casts.h"
#include "kernels/cpu/pool/pool_geometry.h"
#include "kernels/cpu/simd/gemm_core.h"

namespace cotan::cpu {

// Calls fn(offset in the input plane, flattened position) for each tap of the window at output (d, h, w) that
// is inside the input.
template <typename Fn>
[[gnu::always_inline]] inline void ForEachTap(const std::array<PoolAxis, 3>& axes, int64_t d, int64_t h, int64_t w,
                                              Fn fn) {
  const WindowRange depth = axes[0].windows[static_cast<size_t>(d)];
  const WindowRange height = axes[1].windows[static_cast<size_t>(h)];
  const WindowRange width = axes[2].windows[static_cast<size_t>(w)];
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    const int64_t id = depth.origin + kd * axes[0].dilation;
    for (int64_t kh = height.begin; kh < height.end; ++kh) {
      const int64_t ih = height.origin + kh * axes[1].dilation;
      for (int64_t kw = width.begin; kw < width.end; ++kw) {
        const int64_t iw = width.origin + kw * axes[2].dilation;
        fn(id * axes[0].input_stride + ih * axes[1].input_stride + iw * axes[2].input_stride,
           (id * axes[1].input + ih) * axes[2].input + iw);
      }
    }
  }
}

// A vector of positions: as many elements, of the same size, as Vector<T>; and one of positions as they are stored,
// i32.
template <typename T>
struct PositionsOf;
template <>
struct PositionsOf<float> {
  using Element = int32_t;
  typedef int32_t Type __attribute__((vector_size(64)));
  typedef int32_t Stored __attribute__((vector_size(64)));
};
template <>
struct PositionsOf<double> {
  using Element = int64_t;
  typedef int64_t Type __attribute__((vector_size(64)));
  typedef int32_t Stored __attribute__((vector_size(32)));
};
template <typename T>
using Positions = typename PositionsOf<T>::Type;
template <typename T>
using Position = typename PositionsOf<T>::Element;

// Returns the flattened position of the window's first tap inside the input, or 0 if there is none (a dilated
// window may be entirely in the padding).
[[gnu::always_inline]] inline int64_t FirstTap(const std::array<PoolAxis, 3>& axes, int64_t d, int64_t h, int64_t w) {
  const std::array<int64_t, 3> at = {d, h, w};
  int64_t flat = 0;
  for (size_t i = 0; i < 3; ++i) {
    const WindowRange& window = axes[i].windows[static_cast<size_t>(at[i])];
    if (window.begin == window.end) return 0;
    flat = flat * axes[i].input + window.origin + window.begin * axes[i].dilation;
  }
  return flat;
}

// Returns `a` where the bits of `mask` are set and `b` elsewhere.
template <typename T>
[[gnu::always_inline]] inline T Select(Position<T> mask, T a, T b) {
  const auto bits = (absl::bit_cast<Position<T>>(a) & mask) | (absl::bit_cast<Position<T>>(b) & ~mask);
  return absl::bit_cast<T>(bits);
}

// Computes the window's maximum and its position in kVectorSize lanes.
template <typename T>
[[gnu::always_inline]] inline void MaxOfLanes(const PoolGeometry& g, int64_t d, int64_t h, int64_t w, const T* input,
                                              T* output, int32_t* index) {
  constexpr int64_t kLanes = kVectorSize<T>;
  T best[kLanes];
  Position<T> position[kLanes];
  const auto first = static_cast<Position<T>>(FirstTap(g.axes, d, h, w));
  for (int64_t c = 0; c < kLanes; ++c) best[c] = -std::numeric_limits<T>::infinity();
  for (int64_t c = 0; c < kLanes; ++c) position[c] = first;
  ForEachTap(
      g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
        const T* value = input + offset;
        const auto here = static_cast<Position<T>>(flat);
        for (int64_t c = 0; c < kLanes; ++c) {
          // All bits for a larger value and for NaN, which then stays. Compilers vectorize masks, and not all of them
          // conditions.
          const auto larger = static_cast<Position<T>>(value[c] > best[c]);
          const auto nan = static_cast<Position<T>>(value[c] != value[c]);
          const Position<T> take = -(larger | nan);
          best[c] = Select(take, value[c], best[c]);
          position[c] = (here & take) | (position[c] & ~take);
        }
      });
  for (int64_t c = 0; c < kLanes; ++c) output[c] = best[c];
  if (index == nullptr) return;
  for (int64_t c = 0; c < kLanes; ++c) index[c] = static_cast<int32_t>(position[c]);
}

// Vectors of kCount values, of their positions, and of positions as they are stored.
template <typename T, int64_t kCount>
struct LaneVectors {
  typedef T Values __attribute__((vector_size(kCount * sizeof(T))));
  typedef Position<T> Positions __attribute__((vector_size(kCount * sizeof(T))));
  typedef int32_t Stored __attribute__((vector_size(kCount * sizeof(int32_t))));
};

// Calls fn(lane, std::integral_constant of a count) for a group of half of kVectorSize lanes, if there is one, and for
// single ones, so that few channels, as those of a first layer, still fill vectors. `lane` is the first one; fewer than
// kVectorSize are left.
template <typename T, typename Fn>
[[gnu::always_inline]] inline void ForEachFewLanes(int64_t lane, int64_t lanes, Fn fn) {
  constexpr int64_t kHalf = kVectorSize<T> / 2;
  if (lane + kHalf <= lanes) {
    fn(lane, std::integral_constant<int64_t, kHalf>());
    lane += kHalf;
  }
  for (; lane < lanes; ++lane) fn(lane, std::integral_constant<int64_t, 1>());
}

// Computes MaxOfLanes() in kCount lanes, less than kVectorSize. GCC 12 compiles comparisons of 64-byte vectors to one
// per lane, and loops over 8 lanes as well: each of the two forms is several times faster for its sizes.
template <typename T, int64_t kCount>
[[gnu::always_inline]] inline void MaxOfFewLanes(const PoolGeometry& g, int64_t d, int64_t h, int64_t w, const T* input,
                                                 T* output, int32_t* index) {
  using Vectors = LaneVectors<T, kCount>;
  typename Vectors::Values best = typename Vectors::Values{} - std::numeric_limits<T>::infinity();
  typename Vectors::Positions position =
      typename Vectors::Positions{} + static_cast<Position<T>>(FirstTap(g.axes, d, h, w));
  ForEachTap(
      g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
        typename Vectors::Values value;
        std::memcpy(&value, input + offset, sizeof(value));
        const typename Vectors::Positions take = (value > best) | (value != value);  // NaN then stays
        best = take ? value : best;
        position = take ? typename Vectors::Positions{} + static_cast<Position<T>>(flat) : position;
      });
  std::memcpy(output, &best, sizeof(best));
  if (index == nullptr) return;
  const auto stored = __builtin_convertvector(position, typename Vectors::Stored);
  std::memcpy(index, &stored, sizeof(stored));
}

// Adds the gradient of a window to its taps in kCount lanes, or assigns it if `assigns`.
template <typename T, int64_t kCount>
[[gnu::always_inline]] inline void MaxOfFewLanesBackward(const PoolGeometry& g, bool assigns, int64_t d, int64_t h,
                                                         int64_t w, const T* grad_output, const int32_t* index,
                                                         T* grad_input) {
  using Vectors = LaneVectors<T, kCount>;
  typename Vectors::Stored stored;
  std::memcpy(&stored, index, sizeof(stored));
  const auto position = __builtin_convertvector(stored, typename Vectors::Positions);
  typename Vectors::Values gradient;
  std::memcpy(&gradient, grad_output, sizeof(gradient));
  ForEachTap(
      g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
        const typename Vectors::Positions here = position == static_cast<Position<T>>(flat);
        typename Vectors::Values sum = {};
        if (!assigns) std::memcpy(&sum, grad_input + offset, sizeof(sum));
        sum += here ? gradient : typename Vectors::Values{};
        std::memcpy(grad_input + offset, &sum, sizeof(sum));
      });
}

// A 2-D window of kSide x kSide taps, all inside the input, in elements of the input and in flattened positions.
struct WholeWindow {
  int64_t offset;  // of the first tap
  int64_t row;     // from tap to tap
  int64_t column;
  int64_t position;
  int64_t position_row;
  int64_t position_column;
};

// Returns the side of the windows if they are square, of two dimensions, and have code of their own (2 or 3), else 0.
[[gnu::always_inline]] inline int64_t SquareSide(const PoolGeometry& g) {
  const int64_t side = g.axes[1].kernel;
  const bool is_square = g.axes[0].kernel == 1 && g.axes[2].kernel == side;
  return is_square && (side == 2 || side == 3) ? side : 0;
}

[[gnu::always_inline]] inline bool IsWhole(const PoolAxis& axis, int64_t at) {
  const WindowRange& window = axis.windows[static_cast<size_t>(at)];
  return window.begin == 0 && window.end == axis.kernel;
}

[[gnu::always_inline]] inline WholeWindow WholeWindowAt(const std::array<PoolAxis, 3>& axes, int64_t d, int64_t h,
                                                        int64_t w) {
  const int64_t id = axes[0].windows[static_cast<size_t>(d)].origin;
  const int64_t ih = axes[1].windows[static_cast<size_t>(h)].origin;
  const int64_t iw = axes[2].windows[static_cast<size_t>(w)].origin;
  return {.offset = id * axes[0].input_stride + ih * axes[1].input_stride + iw * axes[2].input_stride,
          .row = axes[1].dilation * axes[1].input_stride,
          .column = axes[2].dilation * axes[2].input_stride,
          .position = (id * axes[1].input + ih) * axes[2].input + iw,
          .position_row = axes[1].dilation * axes[2].input,
          .position_column = axes[2].dilation};
}

// Computes MaxOfLanes() of a whole window. The lanes are the outer loop, which is vectorized, so that the maximum stays
// in a register.
template <typename T, int kSide>
[[gnu::always_inline]] inline void MaxOfWhole(const WholeWindow& window, const T* input, T* output, int32_t* index) {
  constexpr int64_t kLanes = kVectorSize<T>;
  T best[kLanes];
  Position<T> position[kLanes];
  const T* const first = input + window.offset;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    T largest = -std::numeric_limits<T>::infinity();
    auto at = static_cast<Position<T>>(window.position);
#pragma GCC unroll 3
    for (int r = 0; r < kSide; ++r) {
#pragma GCC unroll 3
      for (int c = 0; c < kSide; ++c) {
        const T value = first[r * window.row + c * window.column + lane];
        const auto here =
            static_cast<Position<T>>(window.position + r * window.position_row + c * window.position_column);
        const auto larger = static_cast<Position<T>>(value > largest);
        const auto nan = static_cast<Position<T>>(value != value);  // which then stays
        const Position<T> take = -(larger | nan);
        largest = Select(take, value, largest);
        at = (here & take) | (at & ~take);
      }
    }
    best[lane] = largest;
    position[lane] = at;
  }
  for (int64_t lane = 0; lane < kLanes; ++lane) output[lane] = best[lane];
  if (index == nullptr) return;
  for (int64_t lane = 0; lane < kLanes; ++lane) index[lane] = static_cast<int32_t>(position[lane]);
}

// Adds the gradient of a whole window to its taps, or assigns it if `assigns`.
template <typename T, int kSide>
[[gnu::always_inline]] inline void MaxOfWholeBackward(const WholeWindow& window, bool assigns, const T* grad_output,
                                                      const int32_t* index, T* grad_input) {
  typename PositionsOf<T>::Stored stored;
  std::memcpy(&stored, index, sizeof(stored));
  const auto position = __builtin_convertvector(stored, Positions<T>);
  Vector<T> gradient;
  Load(grad_output, gradient);
#pragma GCC unroll 3
  for (int r = 0; r < kSide; ++r) {
#pragma GCC unroll 3
    for (int c = 0; c < kSide; ++c) {
      const auto here =
          static_cast<Position<T>>(window.position + r * window.position_row + c * window.position_column);
      T* const to = grad_input + window.offset + r * window.row + c * window.column;
      Vector<T> sum = {};
      if (!assigns) Load(to, sum);
      Store<T>(sum + (position == here ? gradient : Vector<T>{}), to);
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void MaxOfLane(const PoolGeometry& g, int64_t d, int64_t h, int64_t w, const T* input,
                                             T* output, int32_t* index) {
  T best = -std::numeric_limits<T>::infinity();
  int64_t position = FirstTap(g.axes, d, h, w);
  ForEachTap(
      g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
        const T value = input[offset];
        const bool take = value > best || value != value;
        best = take ? value : best;
        position = take ? flat : position;
      });
  *output = best;
  if (index != nullptr) *index = static_cast<int32_t>(position);
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_POOL_WINDOWS_H_
