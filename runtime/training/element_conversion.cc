// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/element_conversion.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace cotan::training {
namespace {

template <typename From, typename To>
bool IsExact(From value) {
  if constexpr (std::is_floating_point_v<To>) {
    return true;
  } else if constexpr (std::is_same_v<To, bool>) {
    return value == From{0} || value == From{1};
  } else {
    const auto number = static_cast<double>(value);
    const double end = std::ldexp(1.0, std::numeric_limits<To>::digits);
    return number >= static_cast<double>(std::numeric_limits<To>::min()) && number < end &&
           std::floor(number) == number;
  }
}

template <typename From, typename To>
void Convert(const char* from, char* to, size_t count, double mean, double deviation) {
  const From* source = reinterpret_cast<const From*>(from);
  To* target = reinterpret_cast<To*>(to);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<To>) {
      target[i] = static_cast<To>((static_cast<double>(source[i]) - mean) / deviation);
    } else {
      target[i] = static_cast<To>(source[i]);
    }
  }
}

template <typename From, typename To>
int64_t FirstInexact(const char* from, size_t count) {
  const From* source = reinterpret_cast<const From*>(from);
  for (size_t i = 0; i < count; ++i) {
    if (!IsExact<From, To>(source[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

template <typename From>
ElementConversion FindConversionFrom(DType to) {
  switch (to) {
    case DType::kBool:
      return {Convert<From, bool>, FirstInexact<From, bool>};
    case DType::kUInt8:
      return {Convert<From, uint8_t>, FirstInexact<From, uint8_t>};
    case DType::kInt32:
      return {Convert<From, int32_t>, FirstInexact<From, int32_t>};
    case DType::kInt64:
      return {Convert<From, int64_t>, FirstInexact<From, int64_t>};
    case DType::kFloat32:
      return {Convert<From, float>, FirstInexact<From, float>};
    case DType::kFloat64:
      return {Convert<From, double>, FirstInexact<From, double>};
    default:
      return {};
  }
}

}  // namespace

ElementConversion FindConversion(DType from, DType to) {
  switch (from) {
    case DType::kBool:
      // The byte of a bool in a file may have any value.
      return FindConversionFrom<uint8_t>(to);
    case DType::kUInt8:
      return FindConversionFrom<uint8_t>(to);
    case DType::kInt8:
      return FindConversionFrom<int8_t>(to);
    case DType::kInt16:
      return FindConversionFrom<int16_t>(to);
    case DType::kInt32:
      return FindConversionFrom<int32_t>(to);
    case DType::kInt64:
      return FindConversionFrom<int64_t>(to);
    case DType::kFloat32:
      return FindConversionFrom<float>(to);
    case DType::kFloat64:
      return FindConversionFrom<double>(to);
    default:
      return {};
  }
}

}  // namespace cotan::training
