// SPDX-License-Identifier: Apache-2.0

// Composition of tensors of registered wrapper types (quantized, jagged, ...) from plain tensors: the typed
// forms of serialization::FlatMeta, PlainTensorMeta, WrapperMeta and OpaqueMeta.
//
// A program takes and returns flat values only. Each tensor of the user is either one flat value or a
// wrapper of consecutive flat values, possibly through nested wrappers:
//
//   user inputs   x: plain    q: quantized{data: plain, scale: plain}
//   flat inputs   0           1           2
#ifndef COTAN_SERIALIZATION_METADATA_WRAPPER_META_H_
#define COTAN_SERIALIZATION_METADATA_WRAPPER_META_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sym_int.h"
#include "google/protobuf/repeated_field.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// A tensor that is itself a flat value.
struct PlainTensorMeta {
  int flat_index = 0;
  std::optional<TensorGeometry> expected;  // of a tangent
  friend bool operator==(const PlainTensorMeta&, const PlainTensorMeta&) = default;
};

// An inner value of a wrapper that is not a tensor.
struct OpaqueMeta {
  std::string type_name;
  std::string content;
  friend bool operator==(const OpaqueMeta&, const OpaqueMeta&) = default;
};

struct WrapperAttribute;

// A tensor of a wrapper type; the fields of serialization::WrapperMeta document the members.
struct WrapperMeta {
  std::string type_name;
  int flat_start = 0;
  int flat_count = 0;
  std::vector<WrapperAttribute> attributes;
  SymIntVector outer_sizes;
  SymIntVector outer_strides;
  std::string metadata;
  friend bool operator==(const WrapperMeta& a, const WrapperMeta& b);
};

struct WrapperAttribute {
  std::string name;
  std::variant<PlainTensorMeta, WrapperMeta, OpaqueMeta> value;
  friend bool operator==(const WrapperAttribute&, const WrapperAttribute&) = default;
};

inline bool operator==(const WrapperMeta& a, const WrapperMeta& b) {
  return a.type_name == b.type_name && a.flat_start == b.flat_start && a.flat_count == b.flat_count &&
         a.attributes == b.attributes && a.outer_sizes == b.outer_sizes && a.outer_strides == b.outer_strides &&
         a.metadata == b.metadata;
}

// One tensor of the user: a flat value or a wrapper.
using FlatMeta = std::variant<PlainTensorMeta, WrapperMeta>;

// Returns the number of flat values of one tensor.
int FlatCount(const FlatMeta& meta);
// Returns the number of flat values of all tensors.
int FlatCount(absl::Span<const FlatMeta> metas);

// Returns the wrapper type's name, or "" for a plain tensor.
absl::string_view WrapperTypeName(const FlatMeta& meta);

// Returns the names of the flat values of tensors named `names`: "x" for a plain tensor, "q.data",
// "q.scale" for a wrapper.
std::vector<std::string> FlatNames(absl::Span<const FlatMeta> metas, absl::Span<const std::string> names);

// Returns whether one of the tensors is a wrapper.
bool HasWrappers(absl::Span<const FlatMeta> metas);

// Returns InvalidArgument, with the member's path below `field`, unless the tensors take the flat values 0,
// 1, 2, ... in order without gaps, and each wrapper has a type name, unique attribute names, a flat_count
// equal to the sum of its attributes' counts, and as many strides as sizes.
absl::Status ValidateFlatMetas(absl::Span<const FlatMeta> metas, absl::string_view field);

// Converts without ValidateFlatMetas(). InvalidArgument: a kind that is not set; a count above kMaxCount; a
// text that is not a size expression; wrappers nested too deeply.
absl::StatusOr<std::vector<FlatMeta>> ParseFlatMetas(
    const google::protobuf::RepeatedPtrField<serialization::FlatMeta>& protos, absl::string_view field);

serialization::FlatMeta ToProto(const FlatMeta& meta);

// Returns "flat 0", "quantized{data: flat 1, scale: flat 2}".
std::string ToString(const FlatMeta& meta);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_WRAPPER_META_H_
