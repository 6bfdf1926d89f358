// SPDX-License-Identifier: Apache-2.0

// Vectors as long as a vector register of the instruction set, and reductions over their lanes.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_LANES_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_LANES_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace cotan::cpu::expr {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  static constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
};

template <typename T>
[[gnu::always_inline]] inline typename VectorOf<T>::Type LoadVector(const T* from) {
  typename VectorOf<T>::Type v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

template <typename T>
[[gnu::always_inline]] inline void StoreVector(T* to, typename VectorOf<T>::Type v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

template <typename T>
[[gnu::always_inline]] inline typename VectorOf<T>::Type Splat(T value) {
  return typename VectorOf<T>::Type{} + value;
}

// Returns 0, 1, 2, ...
template <typename T>
[[gnu::always_inline]] inline typename VectorOf<T>::Type LaneNumbers() {
  typename VectorOf<T>::Type v{};
  for (int64_t k = 0; k < VectorOf<T>::kLanes; ++k) v[k] = static_cast<T>(k);
  return v;
}

// Returns number i of those lanes of two vectors, counted through both, whose number has the bit `width` if `upper`
// and does not have it otherwise.
constexpr int PickLane(int i, int width, bool upper) { return (i / width * 2 + (upper ? 1 : 0)) * width + i % width; }

// Combines lane k of each group of 2 * kWidth lanes of `a` and `b` with lane k + kWidth. The results, half as many
// for each operand, are those of `a` followed by those of `b`.
template <typename Op, int kWidth, typename Vector, size_t... kLane>
[[gnu::always_inline]] inline Vector HalveLanes(Vector a, Vector b, std::index_sequence<kLane...>) {
  return Op::Step(__builtin_shufflevector(a, b, PickLane(static_cast<int>(kLane), kWidth, false)...),
                  __builtin_shufflevector(a, b, PickLane(static_cast<int>(kLane), kWidth, true)...));
}

// Reduces each of the 2 * kWidth vectors v to one lane of v[0]; with as many vectors as lanes, lane r is the result
// of v[r]. Lanes are combined with those half a vector away first.
template <typename Op, int kWidth, typename T>
[[gnu::always_inline]] inline void TransposeReduce(typename VectorOf<T>::Type* v) {
  constexpr auto kAll = std::make_index_sequence<static_cast<size_t>(VectorOf<T>::kLanes)>();
  for (int r = 0; r < kWidth; ++r) v[r] = HalveLanes<Op, kWidth>(v[2 * r], v[2 * r + 1], kAll);
  if constexpr (kWidth > 1) TransposeReduce<Op, kWidth / 2, T>(v);
}

// Reduces the lanes of one vector in the same order.
template <typename Op, int kWidth, typename T>
[[gnu::always_inline]] inline T ReduceLanes(typename VectorOf<T>::Type v) {
  constexpr auto kAll = std::make_index_sequence<static_cast<size_t>(VectorOf<T>::kLanes)>();
  const auto halved = HalveLanes<Op, kWidth>(v, v, kAll);
  if constexpr (kWidth > 1) {
    return ReduceLanes<Op, kWidth / 2, T>(halved);
  } else {
    return halved[0];
  }
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_LANES_H_
