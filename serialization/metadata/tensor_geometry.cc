// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/tensor_geometry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {

absl::StatusOr<StridedLayout> EvaluateLayout(const TensorGeometry& geometry, absl::Span<const int64_t> symbols) {
  const auto evaluate = [symbols](const SymInt& number, int64_t& value) -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(value, number.Evaluate(symbols));
    return value >= 0
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat(number.ToString(), " is ", value, ", a negative number"));
  };
  StridedLayout layout;
  layout.sizes.resize(geometry.sizes.size());
  layout.strides.resize(geometry.strides.size());
  for (size_t i = 0; i < geometry.sizes.size(); ++i) {
    COTAN_RETURN_IF_ERROR(evaluate(geometry.sizes[i], layout.sizes[i]));
    COTAN_RETURN_IF_ERROR(evaluate(geometry.strides[i], layout.strides[i]));
  }
  COTAN_RETURN_IF_ERROR(evaluate(geometry.offset, layout.offset));
  return layout;
}

absl::StatusOr<DType> ParseDTypeProto(serialization::DTypeProto proto, absl::string_view field) {
  if (proto == serialization::DTYPE_UNDEFINED) return InvalidField(field, "is not set");
  const DType dtype = ToDType(proto);
  if (dtype == DType::kUndefined) return UnknownEnumerator(field, static_cast<int>(proto), "dtype");
  return dtype;
}

absl::StatusOr<TensorGeometry> TensorGeometry::FromProto(const serialization::TensorGeometry& proto,
                                                         absl::string_view field) {
  TensorGeometry result;
  COTAN_ASSIGN_OR_RETURN(result.dtype, ParseDTypeProto(proto.dtype(), absl::StrCat(field, ".dtype")));
  COTAN_ASSIGN_OR_RETURN(result.sizes, ParseSymInts(absl::StrCat(field, ".sizes"), proto.sizes()));
  if (result.rank() > kMaxRank)
    return InvalidField(absl::StrCat(field, ".sizes"), "more than ", kMaxRank, " dimensions");
  COTAN_ASSIGN_OR_RETURN(result.strides, ParseSymInts(absl::StrCat(field, ".strides"), proto.strides()));
  if (result.strides.size() != result.sizes.size()) {
    return InvalidField(absl::StrCat(field, ".strides"), result.strides.size(), " strides for ", result.sizes.size(),
                        " sizes");
  }
  if (!proto.offset().empty()) {
    absl::StatusOr<SymInt> offset = SymInt::Parse(proto.offset());
    if (!offset.ok()) {
      return InvalidField(absl::StrCat(field, ".offset"), offset.status().message());
    }
    result.offset = *std::move(offset);
  }
  return result;
}

serialization::TensorGeometry TensorGeometry::ToProto() const {
  serialization::TensorGeometry proto;
  proto.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  AddSymInts(sizes, proto.mutable_sizes());
  AddSymInts(strides, proto.mutable_strides());
  if (!(offset == SymInt(0))) proto.set_offset(offset.ToString());
  return proto;
}

std::string TensorGeometry::ToString() const {
  std::string result = absl::StrCat(DTypeName(dtype), "[", JoinSymInts(sizes), "]{", JoinSymInts(strides), "}");
  if (!(offset == SymInt(0))) absl::StrAppend(&result, "+", offset.ToString());
  return result;
}

}  // namespace cotan
