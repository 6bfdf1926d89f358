// SPDX-License-Identifier: Apache-2.0

// Reductions of tiles, in the stages of ReduceFns.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_REDUCE_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_REDUCE_H_

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/expr/tile_functions.h"
#include "kernels/cpu/expr/tile_lanes.h"
#include "kernels/cpu/expr/tile_ops.h"
#include "kernels/cpu/expr/tile_vector_math.h"

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

template <typename V>
inline constexpr bool kIsFloatVector = false;
template <>
inline constexpr bool kIsFloatVector<FloatVector> = true;

template <typename T>
struct MaxOf {
  using Value = T;
  using Total = T;
  static constexpr Total kStart = kLowest<T>;
  template <typename V>
  static V Step(V a, V b) {
    if constexpr (kIsFloatVector<V>) {  // one instruction, whose result is b if one of them is NaN
      const V greater = GreaterOrSecond(a, b);
      return a != a ? a : greater;
    } else {
      return (b > a) | (b != b) ? b : a;
    }
  }
};
template <typename T>
struct MinOf {
  using Value = T;
  using Total = T;
  static constexpr Total kStart = kHighest<T>;
  template <typename V>
  static V Step(V a, V b) {
    if constexpr (kIsFloatVector<V>) {
      const V lesser = LesserOrSecond(a, b);
      return a != a ? a : lesser;
    } else {
      return (b < a) | (b != b) ? b : a;
    }
  }
};
// any and all: bools are 0 and 1 in u8.
struct AnyOf : MaxOf<uint8_t> {
  static constexpr Total kStart = 0;
};
struct AllOf : MinOf<uint8_t> {
  static constexpr Total kStart = 1;
};

// The values that a reduction accumulates: a tile.
template <typename T>
struct TileValues {
  const T* x;
  TileValues From(int64_t i) const { return {x + i}; }
  [[gnu::always_inline]] T At(int64_t i) const { return x[i]; }
  [[gnu::always_inline]] typename VectorOf<T>::Type VectorAt(int64_t i) const { return LoadVector(x + i); }
};

// The products of two tiles. Functions that use it do not contract (see Contract() in tile_ops_impl.h).
template <typename T>
struct TileProducts {
  const T* x;
  const T* y;
  TileProducts From(int64_t i) const { return {x + i, y + i}; }
  [[gnu::always_inline]] T At(int64_t i) const {
    const T product = static_cast<T>(x[i] * y[i]);
    return product;
  }
  [[gnu::always_inline]] typename VectorOf<T>::Type VectorAt(int64_t i) const {
    const typename VectorOf<T>::Type product = LoadVector(x + i) * LoadVector(y + i);
    return product;
  }
};

// Reduces a run of n elements to one vector. Of fewer elements than lanes, `readable` may be read. Sums and products
// of f32 within a tile stay in f32: a tile has at most kMaxTile elements, spread over many partial results.
template <typename Op, typename Values>
[[gnu::always_inline]] inline auto ReduceToVector(Values values, int64_t n, int64_t readable) {
  using T = typename Op::Value;
  using Vector = typename VectorOf<T>::Type;
  constexpr int64_t kLanes = VectorOf<T>::kLanes;
  const Vector neutral = Splat<T>(static_cast<T>(Op::kStart));
  if (n < kLanes) {
    if (readable >= kLanes) return LaneNumbers<T>() < Splat(static_cast<T>(n)) ? values.VectorAt(0) : neutral;
    Vector lanes = neutral;
    for (int64_t i = 0; i < n; ++i) lanes[i] = values.At(i);
    return lanes;
  }
  Vector total = values.VectorAt(0);
  int64_t i = kLanes;
  if (n >= 4 * kLanes) {
    Vector t1 = values.VectorAt(kLanes);
    Vector t2 = values.VectorAt(2 * kLanes);
    Vector t3 = values.VectorAt(3 * kLanes);
    for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
      total = Op::Step(total, values.VectorAt(i));
      t1 = Op::Step(t1, values.VectorAt(i + kLanes));
      t2 = Op::Step(t2, values.VectorAt(i + 2 * kLanes));
      t3 = Op::Step(t3, values.VectorAt(i + 3 * kLanes));
    }
    total = Op::Step(Op::Step(total, t1), Op::Step(t2, t3));
  }
  for (; i + kLanes <= n; i += kLanes) total = Op::Step(total, values.VectorAt(i));
  if (i < n) {  // the last vector, without the lanes that are already in
    const Vector rest = values.VectorAt(n - kLanes);
    total = Op::Step(total, LaneNumbers<T>() >= Splat(static_cast<T>(kLanes - (n - i))) ? rest : neutral);
  }
  return total;
}

template <typename Op>
void ReduceInit(void* total, int64_t width) {
  auto* t = static_cast<typename Op::Total*>(total);
  for (int64_t i = 0; i < width; ++i) t[i] = Op::kStart;
}

// Reduces rows of bools by words of eight: kAll of them, or any.
template <bool kAll>
void ReduceFlagRows(void* total, const void* tile, int64_t rows, int64_t cols) {
  auto* t = static_cast<uint8_t*>(total);
  const auto* x = static_cast<const uint8_t*>(tile);
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    uint64_t all = kAll ? ~uint64_t{0} : 0;
    uint8_t rest = kAll ? 1 : 0;
    int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
      uint64_t word;
      __builtin_memcpy(&word, x + c, sizeof(word));
      all = kAll ? all & word : all | word;
    }
    for (; c < cols; ++c) rest = static_cast<uint8_t>(kAll ? rest & x[c] : rest | x[c]);
    constexpr uint64_t kTrue = 0x0101010101010101;
    const bool words = kAll ? (all & kTrue) == kTrue : (all & kTrue) != 0;
    t[r] = static_cast<uint8_t>(kAll ? t[r] & rest & static_cast<uint8_t>(words)
                                     : t[r] | rest | static_cast<uint8_t>(words));
  }
}

template <typename Op, typename Values>
[[gnu::always_inline]] inline void ReduceRowsOf(void* total, Values values, int64_t rows, int64_t cols) {
  using T = typename Op::Value;
  using Total = typename Op::Total;
  constexpr int64_t kLanes = VectorOf<T>::kLanes;
  auto* t = static_cast<Total*>(total);
  int64_t r = 0;
  if constexpr (kLanes <= 16) {
    // As many rows at once as there are lanes.
    for (; r + kLanes <= rows; r += kLanes) {
      typename VectorOf<T>::Type partial[kLanes];
      for (int64_t k = 0; k < kLanes; ++k) {
        partial[k] = ReduceToVector<Op>(values.From((r + k) * cols), cols, (rows - r - k) * cols);
      }
      TransposeReduce<Op, kLanes / 2, T>(partial);
      for (int64_t k = 0; k < kLanes; ++k) {
        t[r + k] = static_cast<Total>(Op::Step(t[r + k], static_cast<Total>(partial[0][k])));
      }
    }
  }
  for (; r < rows; ++r) {
    const auto partial = ReduceToVector<Op>(values.From(r * cols), cols, (rows - r) * cols);
    t[r] = static_cast<Total>(Op::Step(t[r], static_cast<Total>(ReduceLanes<Op, kLanes / 2, T>(partial))));
  }
}

// Reduces `rows` rows of `width` values to one, in kVectors vectors from column c on.
template <typename Op, int kVectors, typename Values>
[[gnu::always_inline]] inline void ReduceColumnBlock(Values values, int64_t rows, int64_t width, int64_t c,
                                                     typename Op::Value* out) {
  using T = typename Op::Value;
  constexpr int64_t kLanes = VectorOf<T>::kLanes;
  typename VectorOf<T>::Type total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = values.VectorAt(c + v * kLanes);
  for (int64_t r = 1; r < rows; ++r) {
    for (int v = 0; v < kVectors; ++v) total[v] = Op::Step(total[v], values.VectorAt(r * width + c + v * kLanes));
  }
  for (int v = 0; v < kVectors; ++v) StoreVector(out + c + v * kLanes, total[v]);
}

// Returns how many rows of `cols` columns, a power of two, are processed as one: enough for several independent sums,
// and for whole vectors, if there are so many rows.
template <typename T>
int64_t StackedRows(int64_t rows, int64_t cols) {
  constexpr int64_t kLanes = VectorOf<T>::kLanes;
  if (cols >= 4 * kLanes) return 1;
  int64_t stacked = 1;
  while (stacked < kLanes && stacked * cols % kLanes != 0) stacked *= 2;
  while (stacked * cols < 4 * kLanes) stacked *= 2;
  while (stacked > rows || stacked * cols > kMaxTile) stacked /= 2;
  return stacked;
}

template <typename Op, typename Values>
[[gnu::always_inline]] inline void ReduceColsOf(void* total, Values values, int64_t rows, int64_t cols) {
  using T = typename Op::Value;
  using Total = typename Op::Total;
  constexpr int64_t kLanes = VectorOf<T>::kLanes;
  auto* t = static_cast<Total*>(total);
  const int64_t stacked = StackedRows<T>(rows, cols);
  const int64_t width = stacked * cols;
  const int64_t groups = rows / stacked;
  T partial[kMaxTile];
  int64_t c = 0;
  for (; c + 8 * kLanes <= width; c += 8 * kLanes) ReduceColumnBlock<Op, 8>(values, groups, width, c, partial);
  for (; c + 2 * kLanes <= width; c += 2 * kLanes) ReduceColumnBlock<Op, 2>(values, groups, width, c, partial);
  for (; c + kLanes <= width; c += kLanes) ReduceColumnBlock<Op, 1>(values, groups, width, c, partial);
  if (c < width && width >= kLanes) {  // the last vector; some of its columns are there already
    ReduceColumnBlock<Op, 1>(values, groups, width, width - kLanes, partial);
    c = width;
  }
  for (; c < width; ++c) {
    partial[c] = values.At(c);
    for (int64_t r = 1; r < groups; ++r) partial[c] = static_cast<T>(Op::Step(partial[c], values.At(r * width + c)));
  }
  for (int64_t half = stacked / 2; half > 0; half /= 2) {
    const T* const upper = partial + half * cols;
#pragma GCC ivdep
    for (int64_t k = 0; k < half * cols; ++k) partial[k] = static_cast<T>(Op::Step(partial[k], upper[k]));
  }
  for (int64_t r = groups * stacked; r < rows; ++r) {
#pragma GCC ivdep
    for (int64_t k = 0; k < cols; ++k) partial[k] = static_cast<T>(Op::Step(partial[k], values.At(r * cols + k)));
  }
#pragma GCC ivdep
  for (int64_t k = 0; k < cols; ++k) t[k] = static_cast<Total>(Op::Step(t[k], static_cast<Total>(partial[k])));
}

template <typename Op>
void ReduceRows(void* total, const void* tile, int64_t rows, int64_t cols) {
  ReduceRowsOf<Op>(total, TileValues<typename Op::Value>{static_cast<const typename Op::Value*>(tile)}, rows, cols);
}

template <typename Op>
void ReduceCols(void* total, const void* tile, int64_t rows, int64_t cols) {
  ReduceColsOf<Op>(total, TileValues<typename Op::Value>{static_cast<const typename Op::Value*>(tile)}, rows, cols);
}

template <typename Op>
__attribute__((optimize("fp-contract=off"))) void SumRowProducts(void* total, const void* a, const void* b,
                                                                 int64_t rows, int64_t cols) {
  using T = typename Op::Value;
  ReduceRowsOf<Op>(total, TileProducts<T>{static_cast<const T*>(a), static_cast<const T*>(b)}, rows, cols);
}

template <typename Op>
__attribute__((optimize("fp-contract=off"))) void SumColProducts(void* total, const void* a, const void* b,
                                                                 int64_t rows, int64_t cols) {
  using T = typename Op::Value;
  ReduceColsOf<Op>(total, TileProducts<T>{static_cast<const T*>(a), static_cast<const T*>(b)}, rows, cols);
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
  return {sizeof(typename Op::Total), ReduceInit<Op>,   ReduceRows<Op>, ReduceCols<Op>,
          ReduceCombine<Op>,          ReduceFinish<Op>, nullptr,        nullptr};
}

// A reduction to whether all or any of the bools hold.
template <typename Op, bool kAll>
constexpr ReduceFns MakeFlagReduce() {
  ReduceFns fns = MakeReduce<Op>();
  fns.rows = ReduceFlagRows<kAll>;
  return fns;
}

// A sum, which can also accumulate products.
template <typename T>
constexpr ReduceFns MakeSum() {
  ReduceFns fns = MakeReduce<SumOf<T>>();
  if constexpr (kIsFloat<T>) {
    fns.row_products = SumRowProducts<SumOf<T>>;
    fns.col_products = SumColProducts<SumOf<T>>;
  }
  return fns;
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
      return MakeSum<T>();
  }
}

constexpr ReduceFns FindReduce(ScalarFn fn, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return fn == FN_REDUCE_SUM || fn == FN_REDUCE_MAX ? MakeFlagReduce<AnyOf, false>()
                                                        : MakeFlagReduce<AllOf, true>();
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
