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

// A value type. Sizes count elements, outermost first; strides and offset count
// elements, the offset from the start of the storage.
struct TensorGeometry {
  DType dtype = DType::kUndefined;
  SymIntVector sizes;
  SymIntVector strides;  // as many as sizes
  SymInt offset;

  int rank() const { return static_cast<int>(sizes.size()); }

  // InvalidArgument, naming the field below `field`: no dtype; a text that is no
  // size expression; strides and sizes of unequal number; more than kMaxRank
  // dimensions. Unimplemented: a dtype of a newer version.
  static absl::StatusOr<TensorGeometry> FromProto(const serialization::TensorGeometry& proto, absl::string_view field);
  serialization::TensorGeometry ToProto() const;

  // "f32[2, s0]{s0, 1}+4".
  std::string ToString() const;

  friend bool operator==(const TensorGeometry&, const TensorGeometry&) = default;
};

// Sizes, strides and offset when symbol i has the value symbols[i].
// InvalidArgument, OutOfRange: as SymInt::Evaluate(); a negative number.
absl::StatusOr<StridedLayout> EvaluateLayout(const TensorGeometry& geometry, absl::Span<const int64_t> symbols);

// InvalidArgument: the undefined dtype. Unimplemented: one of a newer version.
absl::StatusOr<DType> ParseDTypeProto(serialization::DTypeProto proto, absl::string_view field);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_TENSOR_GEOMETRY_H_
