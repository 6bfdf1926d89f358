// Single numbers in the bytes of any dtype.
#ifndef COTAN_RUNTIME_TENSOR_SCALAR_H_
#define COTAN_RUNTIME_TENSOR_SCALAR_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace cotan {

// The bytes of `value` as one element of `dtype`, rounded to nearest (floating
// point) or toward zero (integers); as the real part of a complex number.
// InvalidArgument: `dtype` is undefined. OutOfRange: an integer dtype that
// cannot hold it, NaN included.
absl::StatusOr<std::string> EncodeScalar(double value, DType dtype);

// The inverse. i64 beyond 2^53 loses digits, complex its imaginary part.
// InvalidArgument: `dtype` is undefined, or `bytes` is not one element of it.
absl::StatusOr<double> DecodeScalar(absl::string_view bytes, DType dtype);

}  // namespace cotan

#endif  // COTAN_RUNTIME_TENSOR_SCALAR_H_
