// SPDX-License-Identifier: Apache-2.0

// Checks, evaluates and prints TensorType messages and size expressions.
#ifndef COTAN_SERIALIZATION_SCHEMA_TENSOR_TYPE_H_
#define COTAN_SERIALIZATION_SCHEMA_TENSOR_TYPE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/sym_int.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Maximum rank of a tensor in an artifact.
inline constexpr int kMaxRank = 64;

// Maximum number of elements of a tensor in an artifact; also the bound of its strides and offsets. Sums of
// a few such numbers, times a few bytes, fit int64.
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

// Converts a dtype; returns kUndefined if it is unset or of a newer version.
DType ToDType(serialization::DTypeProto dtype);

// Returns the product of the sizes if every size is in [0, kMaxElements] and the product of the nonzero
// sizes is at most kMaxElements; else -1.
int64_t BoundedElements(absl::Span<const int64_t> sizes);

// Parses `text` and checks that it uses only symbols s0 ... s(num_symbols - 1). InvalidArgument: malformed
// text, or another symbol.
absl::StatusOr<SymInt> ParseSize(const std::string& text, int num_symbols);

// Returns the value of `text` for s<i> = symbols[i]. InvalidArgument: malformed text, a symbol without a
// value, division by zero. OutOfRange: int64 overflow.
absl::StatusOr<int64_t> EvaluateSize(const std::string& text, absl::Span<const int64_t> symbols);

// Returns the value of each text. Errors of EvaluateSize().
absl::StatusOr<DimVector> EvaluateSizes(const google::protobuf::RepeatedPtrField<std::string>& texts,
                                        absl::Span<const int64_t> symbols);

// Returns InvalidArgument unless `type` has a known dtype, at most kMaxRank sizes that ParseSize() accepts,
// constant sizes in [0, kMaxElements], and a dim_order that is empty or a permutation of the dimensions.
absl::Status CheckTensorType(const serialization::TensorType& type, int num_symbols);

// Returns the dense layout of a type that passed CheckTensorType(). InvalidArgument: a size is out of range
// (see BoundedElements()). OutOfRange: an expression exceeds int64.
absl::StatusOr<StridedLayout> DenseLayout(const serialization::TensorType& type, absl::Span<const int64_t> symbols);

// Returns "f32[32,(s0 * 2)]"; with a dim_order, "f32[8,3,32,32]{0,2,3,1}".
std::string TensorTypeText(const serialization::TensorType& type);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_SCHEMA_TENSOR_TYPE_H_
