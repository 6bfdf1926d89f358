// SPDX-License-Identifier: Apache-2.0

// The windows of pools: their taps, and the maximum of one window in the lanes of a vector. Functions are inlined into
// functions that are compiled for several instruction sets (simd/simd.h). S is the type of elements in memory: float,
// double or BFloat16.
#ifndef COTAN_KERNELS_CPU_POOL_POOL_WINDOWS_H_
#define COTAN_KERNELS_CPU_POOL_POOL_WINDOWS_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/base/casts.h"
#include "base/half.h"
#include "kernels/cpu/pool/pool_geometry.h"
#include "kernels/cpu/simd/avx512_lanes.h"
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

// The type in which elements stored as S are compared.
template <typename S>
struct PoolValueOf {
  using Type = S;
};
template <>
struct PoolValueOf<BFloat16> {
  using Type = float;
};
template <typename S>
using PoolValue = typename PoolValueOf<S>::Type;

// Converts an element, exactly.
template <typename S>
[[gnu::always_inline]] inline PoolValue<S> ToValue(S element) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    return BFloat16ToFloat(element.bits);
  } else {
    return element;
  }
}

// Converts a value that was converted from an element.
template <typename S>
[[gnu::always_inline]] inline S ToElement(PoolValue<S> value) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    return {static_cast<uint16_t>(absl::bit_cast<uint32_t>(value) >> 16)};
  } else {
    return value;
  }
}

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

// Vectors of kCount values, of their positions, of positions as they are stored, of the bits of bf16, and of f32.
template <typename T, int64_t kCount>
struct LaneVectors {
  typedef T Values __attribute__((vector_size(kCount * sizeof(T))));
  typedef Position<T> Positions __attribute__((vector_size(kCount * sizeof(T))));
  typedef int32_t Stored __attribute__((vector_size(kCount * sizeof(int32_t))));
  typedef uint16_t BFloat16Bits __attribute__((vector_size(kCount * sizeof(uint16_t))));
  typedef uint32_t FloatBits __attribute__((vector_size(kCount * sizeof(uint32_t))));
};

// Loads kCount elements as values.
template <int64_t kCount, typename S>
[[gnu::always_inline]] inline void LoadValues(const S* from,
                                              typename LaneVectors<PoolValue<S>, kCount>::Values& values) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    using Vectors = LaneVectors<float, kCount>;
    typename Vectors::BFloat16Bits stored;
    std::memcpy(&stored, from, sizeof(stored));
    const typename Vectors::FloatBits bits = __builtin_convertvector(stored, typename Vectors::FloatBits) << 16;
    std::memcpy(&values, &bits, sizeof(values));
  } else {
    std::memcpy(&values, from, sizeof(values));
  }
}

// Stores kCount values that were converted from elements.
template <int64_t kCount, typename S>
[[gnu::always_inline]] inline void StoreElements(const typename LaneVectors<PoolValue<S>, kCount>::Values& values,
                                                 S* to) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    using Vectors = LaneVectors<float, kCount>;
    typename Vectors::FloatBits bits;
    std::memcpy(&bits, &values, sizeof(bits));
    const auto stored = __builtin_convertvector(bits >> 16, typename Vectors::BFloat16Bits);
    std::memcpy(to, &stored, sizeof(stored));
  } else {
    std::memcpy(to, &values, sizeof(values));
  }
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

// Calls fn(lane, std::integral_constant of a count) for groups of half of kVectorSize lanes and for single ones, so
// that few channels, as those of a first layer, still fill vectors. `lane` is the first one.
template <typename T, typename Fn>
[[gnu::always_inline]] inline void ForEachFewLanes(int64_t lane, int64_t lanes, Fn fn) {
  constexpr int64_t kHalf = kVectorSize<T> / 2;
  for (; lane + kHalf <= lanes; lane += kHalf) fn(lane, std::integral_constant<int64_t, kHalf>());
  for (; lane < lanes; ++lane) fn(lane, std::integral_constant<int64_t, 1>());
}

// Computes MaxOfLanes() in kCount lanes, less than kVectorSize. GCC 12 compiles comparisons of 64-byte vectors to one
// per lane, and loops over 8 lanes as well: each of the two forms is several times faster for its sizes.
template <typename S, int64_t kCount>
[[gnu::always_inline]] inline void MaxOfFewLanes(const PoolGeometry& g, int64_t d, int64_t h, int64_t w, const S* input,
                                                 S* output, int32_t* index) {
  using T = PoolValue<S>;
  using Vectors = LaneVectors<T, kCount>;
  typename Vectors::Values best = typename Vectors::Values{} - std::numeric_limits<T>::infinity();
  typename Vectors::Positions position =
      typename Vectors::Positions{} + static_cast<Position<T>>(FirstTap(g.axes, d, h, w));
  ForEachTap(
      g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
        typename Vectors::Values value;
        LoadValues<kCount>(input + offset, value);
        const typename Vectors::Positions take = (value > best) | (value != value);  // NaN then stays
        best = take ? value : best;
        position = take ? typename Vectors::Positions{} + static_cast<Position<T>>(flat) : position;
      });
  StoreElements<kCount>(best, output);
  if (index == nullptr) return;
  const auto stored = __builtin_convertvector(position, typename Vectors::Stored);
  std::memcpy(index, &stored, sizeof(stored));
}

// Adds to kCount elements, or assigns them if `assigns`, the gradient where `position` is `here`, and 0 elsewhere.
// Elements of bf16 are always assigned.
template <int64_t kCount, typename A>
[[gnu::always_inline]] inline void AddGradient(bool assigns,
                                               const typename LaneVectors<PoolValue<A>, kCount>::Values& gradient,
                                               const typename LaneVectors<PoolValue<A>, kCount>::Positions& position,
                                               Position<PoolValue<A>> here, A* to) {
  using Values = typename LaneVectors<PoolValue<A>, kCount>::Values;
  Values sum = {};
  if constexpr (!std::is_same_v<A, BFloat16>) {
    if (!assigns) std::memcpy(&sum, to, sizeof(sum));
    sum += position == here ? gradient : Values{};
  } else {
    sum = position == here ? gradient : Values{};
  }
  StoreElements<kCount>(sum, to);
}

// Adds the gradient of a window to its taps in kCount lanes, or assigns it if `assigns`. A is S, or float for BFloat16.
template <int64_t kCount, typename S, typename A>
[[gnu::always_inline]] inline void MaxOfFewLanesBackward(const PoolGeometry& g, bool assigns, int64_t d, int64_t h,
                                                         int64_t w, const S* grad_output, const int32_t* index,
                                                         A* grad_input) {
  using T = PoolValue<S>;
  using Vectors = LaneVectors<T, kCount>;
  typename Vectors::Stored stored;
  std::memcpy(&stored, index, sizeof(stored));
  const auto position = __builtin_convertvector(stored, typename Vectors::Positions);
  typename Vectors::Values gradient;
  LoadValues<kCount>(grad_output, gradient);
  ForEachTap(
      g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
        AddGradient<kCount>(assigns, gradient, position, static_cast<Position<T>>(flat), grad_input + offset);
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

// Adds the gradient of a whole window to its taps, or assigns it if `assigns`. A is S, or float for BFloat16.
template <int kSide, typename S, typename A>
[[gnu::always_inline]] inline void MaxOfWholeBackward(const WholeWindow& window, bool assigns, const S* grad_output,
                                                      const int32_t* index, A* grad_input) {
  using T = PoolValue<S>;
  constexpr int64_t kLanes = kVectorSize<T>;
  typename PositionsOf<T>::Stored stored;
  std::memcpy(&stored, index, sizeof(stored));
  const auto position = __builtin_convertvector(stored, Positions<T>);
  Vector<T> gradient;
  LoadValues<kLanes>(grad_output, gradient);
#pragma GCC unroll 3
  for (int r = 0; r < kSide; ++r) {
#pragma GCC unroll 3
    for (int c = 0; c < kSide; ++c) {
      const auto here =
          static_cast<Position<T>>(window.position + r * window.position_row + c * window.position_column);
      A* const to = grad_input + window.offset + r * window.row + c * window.column;
      AddGradient<kLanes>(assigns, gradient, position, here, to);
    }
  }
}

template <typename S>
[[gnu::always_inline]] inline void MaxOfLane(const PoolGeometry& g, int64_t d, int64_t h, int64_t w, const S* input,
                                             S* output, int32_t* index) {
  using T = PoolValue<S>;
  T best = -std::numeric_limits<T>::infinity();
  int64_t position = FirstTap(g.axes, d, h, w);
  ForEachTap(
      g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
        const T value = ToValue(input[offset]);
        const bool take = value > best || value != value;
        best = take ? value : best;
        position = take ? flat : position;
      });
  *output = ToElement<S>(best);
  if (index != nullptr) *index = static_cast<int32_t>(position);
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_POOL_WINDOWS_H_
