// SPDX-License-Identifier: Apache-2.0

// Conversions between register dtypes, and copies between memory and registers.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_COPY_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_COPY_H_

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/expr/tile_functions.h"
#include "kernels/cpu/expr/tile_lanes.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {
namespace {

// --- Casts -----------------------------------------------------------------

template <typename To, typename From>
To Convert(From x) {
  if constexpr (kIsBool<To>) {
    return static_cast<Bool>(x != From{0});
  } else if constexpr (kIsFloat<From> && !kIsFloat<To> && sizeof(To) < 4) {
    // Through int64, so that values wrap around as in ATen.
    return static_cast<To>(static_cast<int64_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <typename To, typename From>
void CastLoop(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* o = static_cast<To*>(out);
  const auto* x = static_cast<const From*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = Convert<To, From>(x[i]);
}

template <typename From>
constexpr TileFn FindCastFrom(DType to) {
  switch (to) {
    case DType::kBool:
      return CastLoop<Bool, From>;
    case DType::kUInt8:
      return CastLoop<uint8_t, From>;
    case DType::kInt8:
      return CastLoop<int8_t, From>;
    case DType::kInt16:
      return CastLoop<int16_t, From>;
    case DType::kInt32:
      return CastLoop<int32_t, From>;
    case DType::kInt64:
      return CastLoop<int64_t, From>;
    case DType::kFloat32:
      return CastLoop<float, From>;
    case DType::kFloat64:
      return CastLoop<double, From>;
    default:
      return nullptr;
  }
}

constexpr TileFn FindCast(DType from, DType to) {
  switch (from) {
    case DType::kBool:
    case DType::kUInt8:
      return FindCastFrom<uint8_t>(to);
    case DType::kInt8:
      return FindCastFrom<int8_t>(to);
    case DType::kInt16:
      return FindCastFrom<int16_t>(to);
    case DType::kInt32:
      return FindCastFrom<int32_t>(to);
    case DType::kInt64:
      return FindCastFrom<int64_t>(to);
    case DType::kFloat32:
      return FindCastFrom<float>(to);
    case DType::kFloat64:
      return FindCastFrom<double>(to);
    default:
      return nullptr;
  }
}

// --- Memory ----------------------------------------------------------------

struct SameBits {
  template <typename T>
  static T Do(T x) {
    return x;
  }
};
struct BFloat16Load {
  static float Do(uint16_t x) { return BFloat16BitsToFloat(x); }
};
struct BFloat16Store {
  static uint16_t Do(float x) { return FloatToBFloat16Bits(x); }
};
struct Float16Load {
  static float Do(uint16_t x) { return Float16BitsToFloat(x); }
};
struct Float16Store {
  static uint16_t Do(float x) { return FloatToFloat16Bits(x); }
};

struct Float8E4m3fnLoad {
  static float Do(uint8_t x) { return Float8E4m3fnBitsToFloat(x); }
};
struct Float8E4m3fnStore {
  static uint8_t Do(float x) { return FloatToFloat8E4m3fnBits(x); }
};
struct Float8E5m2Load {
  static float Do(uint8_t x) { return Float8E5m2BitsToFloat(x); }
};
struct Float8E5m2Store {
  static uint8_t Do(float x) { return FloatToFloat8E5m2Bits(x); }
};

// Writes row r of a dense tile full of from[r * row_stride], in whole vectors: what they write past the end of a row is
// written again with the next one.
template <typename T>
void SpreadRows(T* out, const T* from, int64_t rows, int64_t cols, int64_t row_stride) {
  constexpr int64_t kLanes = VectorOf<T>::kLanes;
  T* const end = out + rows * cols;
  for (int64_t r = 0; r < rows; ++r, out += cols) {
    const auto value = Splat(from[r * row_stride]);
    T* const row_end = out + cols;
    T* to = out;
    for (; to < row_end && to + kLanes <= end; to += kLanes) StoreVector(to, value);
    for (; to < row_end; ++to) *to = value[0];
  }
}

template <typename Fn, typename From>
void Load(void* to, const void* from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  auto* out = static_cast<decltype(Fn::Do(From{}))*>(to);
  const auto* in = static_cast<const From*>(from);
  if constexpr (sizeof(From) == sizeof(*out)) {  // the bits are copied
    if (col_stride == 0) return SpreadRows(out, in, rows, cols, row_stride);
  }
  for (int64_t r = 0; r < rows; ++r, out += cols, in += row_stride) {
    if (col_stride == 1) {
#pragma GCC ivdep
      for (int64_t c = 0; c < cols; ++c) out[c] = Fn::Do(in[c]);
    } else if (col_stride == 0) {
      const auto value = Fn::Do(in[0]);
      for (int64_t c = 0; c < cols; ++c) out[c] = value;
    } else {
      for (int64_t c = 0; c < cols; ++c) out[c] = Fn::Do(in[c * col_stride]);
    }
  }
}

template <typename Fn, typename From>
void Store(void* to, const void* from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  auto* out = static_cast<decltype(Fn::Do(From{}))*>(to);
  const auto* in = static_cast<const From*>(from);
  for (int64_t r = 0; r < rows; ++r, out += row_stride, in += cols) {
    if (col_stride == 1) {
#pragma GCC ivdep
      for (int64_t c = 0; c < cols; ++c) out[c] = Fn::Do(in[c]);
    } else {
      for (int64_t c = 0; c < cols; ++c) out[c * col_stride] = Fn::Do(in[c]);
    }
  }
}

constexpr CopyFn FindLoad(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return Load<BFloat16Load, uint16_t>;
    case DType::kFloat16:
      return Load<Float16Load, uint16_t>;
    case DType::kFloat8E4m3fn:
      return Load<Float8E4m3fnLoad, uint8_t>;
    case DType::kFloat8E5m2:
      return Load<Float8E5m2Load, uint8_t>;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return Load<SameBits, uint8_t>;
    case DType::kInt16:
      return Load<SameBits, uint16_t>;
    case DType::kInt32:
    case DType::kFloat32:
      return Load<SameBits, uint32_t>;
    default:
      return Load<SameBits, uint64_t>;
  }
}

constexpr CopyFn FindStore(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return Store<BFloat16Store, float>;
    case DType::kFloat16:
      return Store<Float16Store, float>;
    case DType::kFloat8E4m3fn:
      return Store<Float8E4m3fnStore, float>;
    case DType::kFloat8E5m2:
      return Store<Float8E5m2Store, float>;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return Store<SameBits, uint8_t>;
    case DType::kInt16:
      return Store<SameBits, uint16_t>;
    case DType::kInt32:
    case DType::kFloat32:
      return Store<SameBits, uint32_t>;
    default:
      return Store<SameBits, uint64_t>;
  }
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_COPY_H_
