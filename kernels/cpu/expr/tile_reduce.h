// SPDX-License-Identifier: Apache-2.0

// Reductions of tiles, in the stages of ReduceFns.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_REDUCE_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_REDUCE_H_

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/expr/tile_functions.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// The type of a total: double for f32.
template <typename T>
struct TotalOf {
  using Type = T;
};
template <>
struct TotalOf<float> {
  using Type = double;
};

template <typename T>
struct SumOf {
  using Value = T;
  using Total = typename TotalOf<T>::Type;
  static constexpr Total kStart = 0;
  template <typename V>
  static V Step(V a, V b) {
    return a + b;
  }
};
template <typename T>
struct ProdOf {
  using Value = T;
  using Total = typename TotalOf<T>::Type;
  static constexpr Total kStart = 1;
  template <typename V>
  static V Step(V a, V b) {
    return a * b;
  }
};

template <typename T>
inline constexpr T kLowest = static_cast<T>(-1) < 0 ? static_cast<T>(T{1} << (kBits<T> - 1)) : T{0};
template <>
inline constexpr float kLowest<float> = -__builtin_inff();
template <>
inline constexpr double kLowest<double> = -__builtin_inf();
template <typename T>
inline constexpr T kHighest = static_cast<T>(~kLowest<T>);
template <>
inline constexpr float kHighest<float> = __builtin_inff();
template <>
inline constexpr double kHighest<double> = __builtin_inf();

template <typename T>
struct MaxOf {
  using Value = T;
  using Total = T;
  static constexpr Total kStart = kLowest<T>;
  template <typename V>
  static V Step(V a, V b) {
    return (b > a) | (b != b) ? b : a;
  }
};
template <typename T>
struct MinOf {
  using Value = T;
  using Total = T;
  static constexpr Total kStart = kHighest<T>;
  template <typename V>
  static V Step(V a, V b) {
    return (b < a) | (b != b) ? b : a;
  }
};
// any and all: bools are 0 and 1 in u8.
struct AnyOf : MaxOf<uint8_t> {
  static constexpr Total kStart = 0;
};
struct AllOf : MinOf<uint8_t> {
  static constexpr Total kStart = 1;
};

// Reduces a run of n elements. Sums and products of f32 within a tile stay in f32: a tile has at most
// kMaxTile elements, spread over many partial results.
template <typename Op>
typename Op::Value ReduceRun(const typename Op::Value* x, int64_t n) {
  using T = typename Op::Value;
  typedef T Vector __attribute__((vector_size(64)));
  constexpr int64_t kLanes = static_cast<int64_t>(64 / sizeof(T));
  const auto load = [](const T* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  };
  int64_t i = 0;
  T result = static_cast<T>(Op::kStart);
  if (n >= kLanes) {
    Vector total = load(x);
    i = kLanes;
    if (n >= 4 * kLanes) {
      Vector t1 = load(x + kLanes);
      Vector t2 = load(x + 2 * kLanes);
      Vector t3 = load(x + 3 * kLanes);
      for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
        total = Op::Step(total, load(x + i));
        t1 = Op::Step(t1, load(x + i + kLanes));
        t2 = Op::Step(t2, load(x + i + 2 * kLanes));
        t3 = Op::Step(t3, load(x + i + 3 * kLanes));
      }
      total = Op::Step(Op::Step(total, t1), Op::Step(t2, t3));
    }
    for (; i + kLanes <= n; i += kLanes) total = Op::Step(total, load(x + i));
    T lanes[kLanes];
    __builtin_memcpy(lanes, &total, sizeof(lanes));
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t k = 0; k < width; ++k) lanes[k] = static_cast<T>(Op::Step(lanes[k], lanes[k + width]));
    }
    result = lanes[0];
  }
  for (; i < n; ++i) result = static_cast<T>(Op::Step(result, x[i]));
  return result;
}

template <typename Op>
void ReduceInit(void* total, int64_t width) {
  auto* t = static_cast<typename Op::Total*>(total);
  for (int64_t i = 0; i < width; ++i) t[i] = Op::kStart;
}

template <typename Op>
void ReduceRows(void* total, const void* tile, int64_t rows, int64_t cols) {
  using Total = typename Op::Total;
  auto* t = static_cast<Total*>(total);
  const auto* x = static_cast<const typename Op::Value*>(tile);
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    t[r] = static_cast<Total>(Op::Step(t[r], static_cast<Total>(ReduceRun<Op>(x, cols))));
  }
}

template <typename Op>
void ReduceCols(void* total, const void* tile, int64_t rows, int64_t cols) {
  using T = typename Op::Value;
  using Total = typename Op::Total;
  auto* t = static_cast<Total*>(total);
  const auto* x = static_cast<const T*>(tile);
  // With few columns, several rows are processed at once as one longer row.
  int64_t stacked = cols < 64 ? 64 / cols + 1 : 1;
  if (stacked > rows) stacked = rows;
  const int64_t width = stacked * cols;
  T partial[kMaxTile];
  for (int64_t c = 0; c < width; ++c) partial[c] = x[c];
  int64_t r = stacked;
  for (; r + stacked <= rows; r += stacked) {
    const T* row = x + r * cols;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) partial[c] = static_cast<T>(Op::Step(partial[c], row[c]));
  }
  for (int64_t c = cols; c < width; ++c) {
    partial[c % cols] = static_cast<T>(Op::Step(partial[c % cols], partial[c]));
  }
  for (; r < rows; ++r) {
    const T* row = x + r * cols;
    for (int64_t c = 0; c < cols; ++c) partial[c] = static_cast<T>(Op::Step(partial[c], row[c]));
  }
#pragma GCC ivdep
  for (int64_t c = 0; c < cols; ++c) t[c] = static_cast<Total>(Op::Step(t[c], static_cast<Total>(partial[c])));
}

template <typename Op>
void ReduceCombine(void* total, const void* other, int64_t width) {
  using Total = typename Op::Total;
  auto* t = static_cast<Total*>(total);
  const auto* o = static_cast<const Total*>(other);
  for (int64_t i = 0; i < width; ++i) t[i] = static_cast<Total>(Op::Step(t[i], o[i]));
}

template <typename Op>
void ReduceFinish(void* out, const void* total, int64_t width) {
  auto* o = static_cast<typename Op::Value*>(out);
  const auto* t = static_cast<const typename Op::Total*>(total);
  for (int64_t i = 0; i < width; ++i) o[i] = static_cast<typename Op::Value>(t[i]);
}

template <typename Op>
constexpr ReduceFns MakeReduce() {
  return {sizeof(typename Op::Total), ReduceInit<Op>,  ReduceRows<Op>, ReduceCols<Op>,
          ReduceCombine<Op>,          ReduceFinish<Op>};
}

template <typename T>
constexpr ReduceFns FindReduceOf(ScalarFn fn) {
  switch (fn) {
    case FN_REDUCE_PROD:
      return MakeReduce<ProdOf<T>>();
    case FN_REDUCE_MAX:
      return MakeReduce<MaxOf<T>>();
    case FN_REDUCE_MIN:
      return MakeReduce<MinOf<T>>();
    default:
      return MakeReduce<SumOf<T>>();
  }
}

constexpr ReduceFns FindReduce(ScalarFn fn, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return fn == FN_REDUCE_SUM || fn == FN_REDUCE_MAX ? MakeReduce<AnyOf>() : MakeReduce<AllOf>();
    case DType::kUInt8:
      return FindReduceOf<uint8_t>(fn);
    case DType::kInt8:
      return FindReduceOf<int8_t>(fn);
    case DType::kInt16:
      return FindReduceOf<int16_t>(fn);
    case DType::kInt32:
      return FindReduceOf<int32_t>(fn);
    case DType::kInt64:
      return FindReduceOf<int64_t>(fn);
    case DType::kFloat32:
      return FindReduceOf<float>(fn);
    default:
      return FindReduceOf<double>(fn);
  }
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_REDUCE_H_
