// SPDX-License-Identifier: Apache-2.0

// Reads and writes single elements of any dtype as double or int64, and iterates over index spaces. Simple
// rather than fast.
#ifndef COTAN_KERNELS_REFERENCE_ELEMENT_H_
#define COTAN_KERNELS_REFERENCE_ELEMENT_H_

#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/float8.h"
#include "base/half.h"
#include "base/layout.h"

namespace cotan::reference {

// The value of one element: `f` for floating-point dtypes, `i` for integers and bool (0 or 1).
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

template <typename T>
T ReadAs(const void* base, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void WriteAs(void* base, int64_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

inline Scalar Load(DType dtype, const void* base, int64_t index) {
  switch (dtype) {
    case DType::kBool:
      return {0, ReadAs<uint8_t>(base, index) != 0};
    case DType::kUInt8:
      return {0, ReadAs<uint8_t>(base, index)};
    case DType::kInt8:
      return {0, ReadAs<int8_t>(base, index)};
    case DType::kInt16:
      return {0, ReadAs<int16_t>(base, index)};
    case DType::kInt32:
      return {0, ReadAs<int32_t>(base, index)};
    case DType::kInt64:
      return {0, ReadAs<int64_t>(base, index)};
    case DType::kFloat16:
      return {Float16ToFloat(ReadAs<uint16_t>(base, index)), 0};
    case DType::kBFloat16:
      return {BFloat16ToFloat(ReadAs<uint16_t>(base, index)), 0};
    case DType::kFloat32:
      return {ReadAs<float>(base, index), 0};
    case DType::kFloat64:
      return {ReadAs<double>(base, index), 0};
    case DType::kFloat8E4m3fn:
      return {Float8E4m3fnToFloat(ReadAs<uint8_t>(base, index)), 0};
    case DType::kFloat8E5m2:
      return {Float8E5m2ToFloat(ReadAs<uint8_t>(base, index)), 0};
    case DType::kUndefined:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  return {};
}

// Rounds a float to `dtype` and wraps an integer into its range.
inline Scalar RoundTo(DType dtype, Scalar value) {
  switch (dtype) {
    case DType::kBool:
      return {0, value.i != 0};
    case DType::kUInt8:
      return {0, static_cast<uint8_t>(value.i)};
    case DType::kInt8:
      return {0, static_cast<int8_t>(value.i)};
    case DType::kInt16:
      return {0, static_cast<int16_t>(value.i)};
    case DType::kInt32:
      return {0, static_cast<int32_t>(value.i)};
    case DType::kFloat16:
      return {Float16ToFloat(FloatToFloat16(static_cast<float>(value.f))), 0};
    case DType::kBFloat16:
      return {BFloat16ToFloat(FloatToBFloat16(static_cast<float>(value.f))), 0};
    case DType::kFloat32:
      return {static_cast<float>(value.f), 0};
    case DType::kFloat8E4m3fn:
      return {Float8E4m3fnToFloat(FloatToFloat8E4m3fn(static_cast<float>(value.f))), 0};
    case DType::kFloat8E5m2:
      return {Float8E5m2ToFloat(FloatToFloat8E5m2(static_cast<float>(value.f))), 0};
    default:
      return value;
  }
}

inline void Store(DType dtype, void* base, int64_t index, Scalar value) {
  switch (dtype) {
    case DType::kBool:
      return WriteAs<uint8_t>(base, index, value.i != 0);
    case DType::kUInt8:
      return WriteAs(base, index, static_cast<uint8_t>(value.i));
    case DType::kInt8:
      return WriteAs(base, index, static_cast<int8_t>(value.i));
    case DType::kInt16:
      return WriteAs(base, index, static_cast<int16_t>(value.i));
    case DType::kInt32:
      return WriteAs(base, index, static_cast<int32_t>(value.i));
    case DType::kInt64:
      return WriteAs(base, index, value.i);
    case DType::kFloat16:
      return WriteAs(base, index, FloatToFloat16(static_cast<float>(value.f)));
    case DType::kBFloat16:
      return WriteAs(base, index, FloatToBFloat16(static_cast<float>(value.f)));
    case DType::kFloat32:
      return WriteAs(base, index, static_cast<float>(value.f));
    case DType::kFloat64:
      return WriteAs(base, index, value.f);
    case DType::kFloat8E4m3fn:
      return WriteAs(base, index, FloatToFloat8E4m3fn(static_cast<float>(value.f)));
    case DType::kFloat8E5m2:
      return WriteAs(base, index, FloatToFloat8E5m2(static_cast<float>(value.f)));
    case DType::kUndefined:
    case DType::kComplex64:
    case DType::kComplex128:
      return;
  }
}

// Returns the offset of `index` in elements.
inline int64_t Offset(absl::Span<const int64_t> index, absl::Span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

// Calls fn(index) for every index of the space, row-major.
template <typename Fn>
void ForEachIndex(absl::Span<const int64_t> sizes, Fn fn) {
  if (NumElements(sizes) == 0) return;
  DimVector index(sizes.size(), 0);
  while (true) {
    fn(absl::MakeConstSpan(index));
    size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace cotan::reference

#endif  // COTAN_KERNELS_REFERENCE_ELEMENT_H_
