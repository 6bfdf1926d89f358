// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/call_argument.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "runtime/tensor/scalar.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::TensorType;

// Returns whether the input is an integer that decides sizes.
bool IsSizeNumber(const TensorType& type) {
  return ToDType(type.dtype()) == DType::kInt64 && type.sizes_size() == 2 && type.sizes(1) == "0";
}

absl::StatusOr<Tensor> TensorOfInteger(int64_t number, DType dtype, absl::string_view name) {
  if (dtype == DType::kInt64) return Tensor::Scalar(number);
  // 2^63 itself is not an int64.
  const auto rounded = static_cast<double>(number);
  const bool is_exact = rounded < 0x1p63 && static_cast<int64_t>(rounded) == number;
  COTAN_ASSIGN_OR_RETURN(const std::string bytes, EncodeScalar(rounded, dtype));
  COTAN_ASSIGN_OR_RETURN(const double held, DecodeScalar(bytes, dtype));
  if (!is_exact || held != rounded) {
    return absl::OutOfRangeError(absl::StrCat("argument '", name, "': ", DTypeName(dtype), " cannot hold ", number));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(dtype, {}));
  bytes.copy(static_cast<char*>(tensor.address()), bytes.size());
  return tensor;
}

absl::StatusOr<Tensor> TensorOfDouble(double number, DType dtype) {
  COTAN_ASSIGN_OR_RETURN(const std::string bytes, EncodeScalar(number, dtype));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(dtype, {}));
  bytes.copy(static_cast<char*>(tensor.address()), bytes.size());
  return tensor;
}

}  // namespace

absl::StatusOr<Tensor> TensorOfNumber(NumberValue number, const TensorType& type, absl::string_view name) {
  const DType dtype = ToDType(type.dtype());
  const int64_t* integer = std::get_if<int64_t>(&number);
  if (IsSizeNumber(type) && integer != nullptr && *integer >= 0) return Tensor::Empty(DType::kInt64, {*integer, 0});
  if (type.sizes_size() == 0) {
    if (integer != nullptr && dtype != DType::kBool) return TensorOfInteger(*integer, dtype, name);
    const bool* truth = std::get_if<bool>(&number);
    if (truth != nullptr && dtype == DType::kBool) return Tensor::Scalar(*truth);
    const double* real = std::get_if<double>(&number);
    if (real != nullptr && IsFloatingPoint(dtype)) return TensorOfDouble(*real, dtype);
  }
  const std::string text = integer != nullptr ? absl::StrCat("the integer ", *integer)
                           : std::get_if<bool>(&number) != nullptr
                               ? "a bool"
                               : absl::StrCat("the number ", std::get<double>(number));
  return absl::InvalidArgumentError(
      absl::StrCat("argument '", name, "': expected ", TensorTypeText(type), ", got ", text));
}

}  // namespace cotan
