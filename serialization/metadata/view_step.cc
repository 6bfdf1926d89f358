// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_step.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_geometry.h"
#include "serialization/schema/field.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using ProtoStep = serialization::ViewStep;

absl::StatusOr<int> ParseDim(absl::string_view field, uint32_t dim) {
  COTAN_RETURN_IF_ERROR(CheckIndex(field, dim, kMaxRank, "dimensions of any tensor"));
  return static_cast<int>(dim);
}

absl::StatusOr<SymInt> ParseSymInt(absl::string_view field, const std::string& text) {
  absl::StatusOr<SymInt> value = SymInt::Parse(text);
  if (!value.ok()) return InvalidField(field, value.status().message());
  return value;
}

absl::StatusOr<ViewStep> ParsePermute(const ProtoStep::Permute& proto, absl::string_view field) {
  view::Permute step;
  COTAN_ASSIGN_OR_RETURN(step.dims, ParseIndexes(field, proto.dims()));
  std::vector<bool> seen(step.dims.size(), false);
  for (size_t i = 0; i < step.dims.size(); ++i) {
    const int dim = step.dims[i];
    COTAN_RETURN_IF_ERROR(CheckIndex(Element(field, i), dim, static_cast<int64_t>(seen.size()), "dimensions"));
    if (seen[static_cast<size_t>(dim)]) {
      return InvalidField(Element(field, i), "dimension ", dim, " occurs twice");
    }
    seen[static_cast<size_t>(dim)] = true;
  }
  return step;
}

absl::StatusOr<ViewStep> ParseSlice(const ProtoStep::Slice& proto, absl::string_view field) {
  view::Slice step;
  COTAN_ASSIGN_OR_RETURN(step.dim, ParseDim(absl::StrCat(field, ".dim"), proto.dim()));
  COTAN_ASSIGN_OR_RETURN(step.start, ParseSymInt(absl::StrCat(field, ".start"), proto.start()));
  COTAN_ASSIGN_OR_RETURN(step.end, ParseSymInt(absl::StrCat(field, ".end"), proto.end()));
  COTAN_ASSIGN_OR_RETURN(step.step, ParseSymInt(absl::StrCat(field, ".step"), proto.step()));
  if (step.step.is_constant() && step.step.constant() < 1) {
    return InvalidField(absl::StrCat(field, ".step"), step.step.constant(), " is not positive");
  }
  return step;
}

absl::StatusOr<ViewStep> ParseSelect(const ProtoStep::Select& proto, absl::string_view field) {
  view::Select step;
  COTAN_ASSIGN_OR_RETURN(step.dim, ParseDim(absl::StrCat(field, ".dim"), proto.dim()));
  COTAN_ASSIGN_OR_RETURN(step.index, ParseSymInt(absl::StrCat(field, ".index"), proto.index()));
  return step;
}

absl::StatusOr<ViewStep> ParseAsStrided(const ProtoStep::AsStrided& proto, absl::string_view field) {
  view::AsStrided step;
  COTAN_ASSIGN_OR_RETURN(step.sizes, ParseSymInts(absl::StrCat(field, ".sizes"), proto.sizes()));
  COTAN_ASSIGN_OR_RETURN(step.strides, ParseSymInts(absl::StrCat(field, ".strides"), proto.strides()));
  if (step.strides.size() != step.sizes.size()) {
    return InvalidField(absl::StrCat(field, ".strides"), step.strides.size(), " strides for ", step.sizes.size(),
                        " sizes");
  }
  COTAN_ASSIGN_OR_RETURN(step.offset, ParseSymInt(absl::StrCat(field, ".offset"), proto.offset()));
  return step;
}

absl::StatusOr<ViewStep> ParseSqueeze(const ProtoStep::Squeeze& proto, absl::string_view field) {
  view::Squeeze step;
  COTAN_ASSIGN_OR_RETURN(step.dims, ParseIndexes(field, proto.dims()));
  COTAN_RETURN_IF_ERROR(CheckAscending(field, step.dims, kMaxRank, "dimensions of any tensor"));
  return step;
}

absl::StatusOr<ViewStep> ParseDiagonal(const ProtoStep::Diagonal& proto, absl::string_view field) {
  view::Diagonal step;
  COTAN_ASSIGN_OR_RETURN(step.dim1, ParseDim(absl::StrCat(field, ".dim1"), proto.dim1()));
  COTAN_ASSIGN_OR_RETURN(step.dim2, ParseDim(absl::StrCat(field, ".dim2"), proto.dim2()));
  if (step.dim1 == step.dim2) {
    return InvalidField(absl::StrCat(field, ".dim2"), "equals dim1, ", step.dim1);
  }
  step.offset = proto.offset();
  return step;
}

absl::StatusOr<ViewStep> ParseUnfold(const ProtoStep::Unfold& proto, absl::string_view field) {
  view::Unfold step;
  COTAN_ASSIGN_OR_RETURN(step.dim, ParseDim(absl::StrCat(field, ".dim"), proto.dim()));
  if (proto.size() < 0) {
    return InvalidField(absl::StrCat(field, ".size"), proto.size(), " is negative");
  }
  if (proto.step() < 1) {
    return InvalidField(absl::StrCat(field, ".step"), proto.step(), " is not positive");
  }
  step.size = proto.size();
  step.step = proto.step();
  return step;
}

void Encode(const view::View& step, ProtoStep& proto) { AddSymInts(step.sizes, proto.mutable_view()->mutable_sizes()); }
void Encode(const view::Permute& step, ProtoStep& proto) {
  AddIndexes(step.dims, proto.mutable_permute()->mutable_dims());
}
void Encode(const view::Expand& step, ProtoStep& proto) {
  AddSymInts(step.sizes, proto.mutable_expand()->mutable_sizes());
}
void Encode(const view::Slice& step, ProtoStep& proto) {
  proto.mutable_slice()->set_dim(static_cast<uint32_t>(step.dim));
  proto.mutable_slice()->set_start(step.start.ToString());
  proto.mutable_slice()->set_end(step.end.ToString());
  proto.mutable_slice()->set_step(step.step.ToString());
}
void Encode(const view::Select& step, ProtoStep& proto) {
  proto.mutable_select()->set_dim(static_cast<uint32_t>(step.dim));
  proto.mutable_select()->set_index(step.index.ToString());
}
void Encode(const view::AsStrided& step, ProtoStep& proto) {
  AddSymInts(step.sizes, proto.mutable_as_strided()->mutable_sizes());
  AddSymInts(step.strides, proto.mutable_as_strided()->mutable_strides());
  proto.mutable_as_strided()->set_offset(step.offset.ToString());
}
void Encode(const view::Squeeze& step, ProtoStep& proto) {
  AddIndexes(step.dims, proto.mutable_squeeze()->mutable_dims());
}
void Encode(const view::Unsqueeze& step, ProtoStep& proto) {
  proto.mutable_unsqueeze()->set_dim(static_cast<uint32_t>(step.dim));
}
void Encode(const view::Diagonal& step, ProtoStep& proto) {
  proto.mutable_diagonal()->set_dim1(static_cast<uint32_t>(step.dim1));
  proto.mutable_diagonal()->set_dim2(static_cast<uint32_t>(step.dim2));
  proto.mutable_diagonal()->set_offset(step.offset);
}
void Encode(const view::Unfold& step, ProtoStep& proto) {
  proto.mutable_unfold()->set_dim(static_cast<uint32_t>(step.dim));
  proto.mutable_unfold()->set_size(step.size);
  proto.mutable_unfold()->set_step(step.step);
}
void Encode(const view::DTypeView& step, ProtoStep& proto) {
  proto.mutable_dtype_view()->set_dtype(static_cast<serialization::DTypeProto>(step.dtype));
}
void Encode(view::ViewAsReal, ProtoStep& proto) { proto.mutable_view_as_real(); }
void Encode(view::ViewAsComplex, ProtoStep& proto) { proto.mutable_view_as_complex(); }
void Encode(view::Detach, ProtoStep& proto) { proto.mutable_detach(); }
void Encode(view::Conjugate, ProtoStep& proto) { proto.mutable_conjugate(); }
void Encode(view::Negate, ProtoStep& proto) { proto.mutable_negate(); }
void Encode(view::Alias, ProtoStep& proto) { proto.mutable_alias(); }

}  // namespace

absl::StatusOr<ViewStep> ParseViewStep(const ProtoStep& proto, absl::string_view field) {
  switch (proto.kind_case()) {
    case ProtoStep::kView: {
      view::View step;
      COTAN_ASSIGN_OR_RETURN(step.sizes, ParseSymInts(absl::StrCat(field, ".view.sizes"), proto.view().sizes()));
      return step;
    }
    case ProtoStep::kPermute:
      return ParsePermute(proto.permute(), absl::StrCat(field, ".permute.dims"));
    case ProtoStep::kExpand: {
      view::Expand step;
      COTAN_ASSIGN_OR_RETURN(step.sizes, ParseSymInts(absl::StrCat(field, ".expand.sizes"), proto.expand().sizes()));
      return step;
    }
    case ProtoStep::kSlice:
      return ParseSlice(proto.slice(), absl::StrCat(field, ".slice"));
    case ProtoStep::kSelect:
      return ParseSelect(proto.select(), absl::StrCat(field, ".select"));
    case ProtoStep::kAsStrided:
      return ParseAsStrided(proto.as_strided(), absl::StrCat(field, ".as_strided"));
    case ProtoStep::kSqueeze:
      return ParseSqueeze(proto.squeeze(), absl::StrCat(field, ".squeeze.dims"));
    case ProtoStep::kUnsqueeze: {
      view::Unsqueeze step;
      COTAN_ASSIGN_OR_RETURN(step.dim, ParseDim(absl::StrCat(field, ".unsqueeze.dim"), proto.unsqueeze().dim()));
      return step;
    }
    case ProtoStep::kDiagonal:
      return ParseDiagonal(proto.diagonal(), absl::StrCat(field, ".diagonal"));
    case ProtoStep::kUnfold:
      return ParseUnfold(proto.unfold(), absl::StrCat(field, ".unfold"));
    case ProtoStep::kDtypeView: {
      view::DTypeView step;
      COTAN_ASSIGN_OR_RETURN(step.dtype,
                             ParseDTypeProto(proto.dtype_view().dtype(), absl::StrCat(field, ".dtype_view.dtype")));
      return step;
    }
    case ProtoStep::kViewAsReal:
      return view::ViewAsReal{};
    case ProtoStep::kViewAsComplex:
      return view::ViewAsComplex{};
    case ProtoStep::kDetach:
      return view::Detach{};
    case ProtoStep::kConjugate:
      return view::Conjugate{};
    case ProtoStep::kNegate:
      return view::Negate{};
    case ProtoStep::kAlias:
      return view::Alias{};
    case ProtoStep::KIND_NOT_SET:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(field, ": unknown kind of view; a newer version may have written it"));
}

absl::StatusOr<std::vector<ViewStep>> ParseViewSteps(const google::protobuf::RepeatedPtrField<ProtoStep>& protos,
                                                     absl::string_view field) {
  std::vector<ViewStep> steps;
  steps.reserve(static_cast<size_t>(protos.size()));
  for (int i = 0; i < protos.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(ViewStep step, ParseViewStep(protos.Get(i), Element(field, i)));
    steps.push_back(std::move(step));
  }
  return steps;
}

serialization::ViewStep ToProto(const ViewStep& step) {
  ProtoStep proto;
  std::visit([&proto](const auto& kind) { Encode(kind, proto); }, step);
  return proto;
}

std::string ToString(const ViewStep& step) { return ViewStepText(ToProto(step)); }

std::string ToString(absl::Span<const ViewStep> steps) {
  return absl::StrJoin(steps, ".", [](std::string* out, const ViewStep& step) { out->append(ToString(step)); });
}

}  // namespace cotan
