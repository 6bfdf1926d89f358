// SPDX-License-Identifier: Apache-2.0

// Dtype, sizes and strides of a tensor at trace time: the typed form of
// serialization::TensorGeometry.
#ifndef COTAN_SERIALIZATION_METADATA_TENSOR_GEOMETRY_H_
#define COTAN_SERIALIZATION_METADATA_TENSOR_GEOMETRY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/sym_int.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Typed form of serialization::TensorGeometry. Sizes, strides and offset count elements; dimensions are
// outermost first; the offset is from the start of the storage.
struct TensorGeometry {
  DType dtype = DType::kUndefined;
  SymIntVector sizes;
  SymIntVector strides;  // as many as sizes
  SymInt offset;

  int rank() const { return static_cast<int>(sizes.size()); }

  // Converts and checks. InvalidArgument, with the member's path below `field`: no dtype; a text that is
  // not a size expression; different numbers of strides and sizes; more than kMaxRank dimensions.
  // Unimplemented: a dtype of a newer version.
  static absl::StatusOr<TensorGeometry> FromProto(const serialization::TensorGeometry& proto, absl::string_view field);
  serialization::TensorGeometry ToProto() const;

  // Returns "f32[2, s0]{s0, 1}+4".
  std::string ToString() const;

  friend bool operator==(const TensorGeometry&, const TensorGeometry&) = default;
};

// Returns sizes, strides and offset for symbol i = symbols[i]. InvalidArgument: a negative number, a symbol
// without a value, division by zero. OutOfRange: int64 overflow.
absl::StatusOr<StridedLayout> EvaluateLayout(const TensorGeometry& geometry, absl::Span<const int64_t> symbols);

// Converts a dtype. InvalidArgument: DTYPE_UNDEFINED. Unimplemented: a dtype of a newer version.
absl::StatusOr<DType> ParseDTypeProto(serialization::DTypeProto proto, absl::string_view field);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_TENSOR_GEOMETRY_H_
