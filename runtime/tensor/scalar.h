// SPDX-License-Identifier: Apache-2.0

// Converts single numbers to and from the bytes of one element of any dtype.
#ifndef COTAN_RUNTIME_TENSOR_SCALAR_H_
#define COTAN_RUNTIME_TENSOR_SCALAR_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace cotan {

// Returns `value` as the bytes of one element of `dtype`: rounded to nearest for floating-point dtypes,
// toward zero for integer dtypes, and as the real part for complex dtypes.
// InvalidArgument: `dtype` is undefined.
// OutOfRange: `dtype` is an integer dtype that cannot hold `value`, or `value` is NaN.
absl::StatusOr<std::string> EncodeScalar(double value, DType dtype);

// Returns the value of `bytes`, one element of `dtype`: the inverse of EncodeScalar(). An i64 beyond 2^53
// loses digits; the imaginary part of a complex number is dropped.
// InvalidArgument: `dtype` is undefined, or `bytes` is not the size of one element.
absl::StatusOr<double> DecodeScalar(absl::string_view bytes, DType dtype);

}  // namespace cotan

#endif  // COTAN_RUNTIME_TENSOR_SCALAR_H_
