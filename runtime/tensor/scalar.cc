// SPDX-License-Identifier: Apache-2.0

#include "runtime/tensor/scalar.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/float8.h"
#include "base/half.h"

namespace cotan {
namespace {

template <typename T>
std::string BytesOf(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <typename T>
T ValueOf(absl::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T>
absl::StatusOr<std::string> EncodeInteger(double value, DType dtype) {
  // The bounds are powers of two, so that they are exact.
  const double below = static_cast<double>(std::numeric_limits<T>::min()) - 1;
  const double beyond = 2.0 * static_cast<double>(uint64_t{1} << (std::numeric_limits<T>::digits - 1));
  const bool fits = sizeof(T) == 8 ? value >= -beyond && value < beyond : value > below && value < beyond;
  if (fits) return BytesOf(static_cast<T>(value));
  return absl::OutOfRangeError(absl::StrCat(value, " is out of range for ", DTypeName(dtype)));
}

}  // namespace

absl::StatusOr<std::string> EncodeScalar(double value, DType dtype) {
  switch (dtype) {
    case DType::kUndefined:
      break;
    case DType::kBool:
      return std::string(1, value != 0 ? '\1' : '\0');
    case DType::kUInt8:
      return EncodeInteger<uint8_t>(value, dtype);
    case DType::kInt8:
      return EncodeInteger<int8_t>(value, dtype);
    case DType::kInt16:
      return EncodeInteger<int16_t>(value, dtype);
    case DType::kInt32:
      return EncodeInteger<int32_t>(value, dtype);
    case DType::kInt64:
      return EncodeInteger<int64_t>(value, dtype);
    case DType::kFloat16:
      return BytesOf(FloatToFloat16(static_cast<float>(value)));
    case DType::kBFloat16:
      return BytesOf(FloatToBFloat16(static_cast<float>(value)));
    case DType::kFloat8E4m3fn:
      return BytesOf(FloatToFloat8E4m3fn(static_cast<float>(value)));
    case DType::kFloat8E5m2:
      return BytesOf(FloatToFloat8E5m2(static_cast<float>(value)));
    case DType::kFloat32:
      return BytesOf(static_cast<float>(value));
    case DType::kFloat64:
      return BytesOf(value);
    case DType::kComplex64:
      return BytesOf(static_cast<float>(value)) + BytesOf(0.0f);
    case DType::kComplex128:
      return BytesOf(value) + BytesOf(0.0);
  }
  return absl::InvalidArgumentError("the dtype of a number is undefined");
}

absl::StatusOr<double> DecodeScalar(absl::string_view bytes, DType dtype) {
  if (dtype == DType::kUndefined || bytes.size() != ByteSize(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes are not one element of ", DTypeName(dtype)));
  }
  switch (dtype) {
    case DType::kUndefined:
      break;
    case DType::kBool:
      return bytes[0] != 0 ? 1 : 0;
    case DType::kUInt8:
      return ValueOf<uint8_t>(bytes);
    case DType::kInt8:
      return ValueOf<int8_t>(bytes);
    case DType::kInt16:
      return ValueOf<int16_t>(bytes);
    case DType::kInt32:
      return ValueOf<int32_t>(bytes);
    case DType::kInt64:
      return static_cast<double>(ValueOf<int64_t>(bytes));
    case DType::kFloat16:
      return Float16ToFloat(ValueOf<uint16_t>(bytes));
    case DType::kBFloat16:
      return BFloat16ToFloat(ValueOf<uint16_t>(bytes));
    case DType::kFloat8E4m3fn:
      return Float8E4m3fnToFloat(ValueOf<uint8_t>(bytes));
    case DType::kFloat8E5m2:
      return Float8E5m2ToFloat(ValueOf<uint8_t>(bytes));
    case DType::kFloat32:
    case DType::kComplex64:
      return ValueOf<float>(bytes);
    case DType::kFloat64:
    case DType::kComplex128:
      return ValueOf<double>(bytes);
  }
  return 0;
}

}  // namespace cotan
