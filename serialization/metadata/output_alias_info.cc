// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/output_alias_info.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

using serialization::RawTypeProto;
using serialization::ScalarValue;

absl::StatusOr<OutputType> ParseOutputType(absl::string_view field, serialization::OutputTypeProto proto) {
  if (proto == serialization::OUTPUT_TYPE_UNSPECIFIED) return InvalidField(field, "is not set");
  if (!serialization::OutputTypeProto_IsValid(proto)) {
    return UnknownEnumerator(field, static_cast<int>(proto), "output type");
  }
  return static_cast<OutputType>(proto);
}

// Returns the case of ScalarValue for a raw type.
absl::StatusOr<ScalarValue::ValueCase> ExpectedCase(absl::string_view field, RawTypeProto type) {
  switch (type) {
    case serialization::RAW_TENSOR:
    case serialization::RAW_NONE:
      return ScalarValue::VALUE_NOT_SET;
    case serialization::RAW_BOOL:
      return ScalarValue::kBoolValue;
    case serialization::RAW_INT:
      return ScalarValue::kIntValue;
    case serialization::RAW_FLOAT:
      return ScalarValue::kFloatValue;
    case serialization::RAW_STRING:
      return ScalarValue::kStringValue;
    case serialization::RAW_SYM_INT:
      return ScalarValue::kSymInt;
    default:
      return UnknownEnumerator(field, static_cast<int>(type), "raw type");
  }
}

absl::StatusOr<std::optional<ScalarOutput>> ParseScalar(const serialization::OutputAliasInfo& proto,
                                                        absl::string_view field) {
  COTAN_ASSIGN_OR_RETURN(ScalarValue::ValueCase expected,
                         ExpectedCase(absl::StrCat(field, ".raw_type"), proto.raw_type()));
  const ScalarValue& scalar = proto.scalar();
  if (scalar.value_case() != expected) {
    return InvalidField(absl::StrCat(field, ".scalar"), "its value is not of the output's raw type");
  }
  switch (scalar.value_case()) {
    case ScalarValue::VALUE_NOT_SET:
      if (proto.raw_type() == serialization::RAW_TENSOR) return std::optional<ScalarOutput>();
      return std::optional<ScalarOutput>(NoneValue());
    case ScalarValue::kBoolValue:
      return std::optional<ScalarOutput>(scalar.bool_value());
    case ScalarValue::kIntValue:
      return std::optional<ScalarOutput>(static_cast<int64_t>(scalar.int_value()));
    case ScalarValue::kFloatValue:
      return std::optional<ScalarOutput>(scalar.float_value());
    case ScalarValue::kStringValue:
      return std::optional<ScalarOutput>(scalar.string_value());
    case ScalarValue::kSymInt: {
      absl::StatusOr<SymInt> value = SymInt::Parse(scalar.sym_int());
      if (!value.ok()) {
        return InvalidField(absl::StrCat(field, ".scalar.sym_int"), value.status().message());
      }
      return std::optional<ScalarOutput>(*std::move(value));
    }
  }
  return InvalidField(absl::StrCat(field, ".scalar"), "no value");
}

struct ScalarEncoder {
  serialization::OutputAliasInfo& proto;

  void operator()(NoneValue) { proto.set_raw_type(serialization::RAW_NONE); }
  void operator()(bool value) {
    proto.set_raw_type(serialization::RAW_BOOL);
    proto.mutable_scalar()->set_bool_value(value);
  }
  void operator()(int64_t value) {
    proto.set_raw_type(serialization::RAW_INT);
    proto.mutable_scalar()->set_int_value(value);
  }
  void operator()(double value) {
    proto.set_raw_type(serialization::RAW_FLOAT);
    proto.mutable_scalar()->set_float_value(value);
  }
  void operator()(const std::string& value) {
    proto.set_raw_type(serialization::RAW_STRING);
    proto.mutable_scalar()->set_string_value(value);
  }
  void operator()(const SymInt& value) {
    proto.set_raw_type(serialization::RAW_SYM_INT);
    proto.mutable_scalar()->set_sym_int(value.ToString());
  }
};

struct ScalarDescriber {
  std::string operator()(NoneValue) { return "none"; }
  std::string operator()(bool value) { return value ? "true" : "false"; }
  std::string operator()(int64_t value) { return absl::StrCat(value); }
  std::string operator()(double value) { return absl::StrCat(value); }
  std::string operator()(const std::string& value) { return absl::StrCat("\"", absl::CEscape(value), "\""); }
  std::string operator()(const SymInt& value) { return value.ToString(); }
};

absl::Status ValidateScalar(const OutputAliasInfo& info, absl::string_view field) {
  const auto refuse = [field](absl::string_view member, absl::string_view what) {
    return InvalidField(absl::StrCat(field, ".", member), "the output is not a tensor, so it ", what);
  };
  if (info.output_type != OutputType::kNonAlias || info.base_index.has_value()) {
    return refuse("output_type", "can alias nothing");
  }
  if (info.requires_grad) return refuse("requires_grad", "cannot require grad");
  if (!info.dynamic_dims.empty()) return refuse("dynamic_dims", "has no dimensions");
  if (info.geometry.has_value()) return refuse("geometry", "has no geometry");
  if (info.shared_storage.has_value()) return refuse("shared_storage", "has no storage");
  if (info.non_alias_view.has_value() || info.not_a_view) return refuse("non_alias_view", "is not a view");
  if (info.is_new_leaf) return refuse("is_new_leaf", "is not a leaf");
  if (info.retains_grad) return refuse("retains_grad", "has no gradient");
  return absl::OkStatus();
}

absl::Status ValidateAutograd(const OutputAliasInfo& info, absl::string_view field) {
  const bool is_fresh = IsFreshMemory(info.output_type);
  if (info.is_new_leaf && (!info.requires_grad || !is_fresh)) {
    return InvalidField(absl::StrCat(field, ".is_new_leaf"),
                        "must be false: the output does not require grad or is an alias");
  }
  if (info.not_a_view && is_fresh) {
    return InvalidField(absl::StrCat(field, ".not_a_view"), "must be false: the output is not an alias");
  }
  if (info.retains_grad && !info.requires_grad) {
    return InvalidField(absl::StrCat(field, ".retains_grad"), "must be false: the output does not require grad");
  }
  if (!info.non_alias_view.has_value()) return absl::OkStatus();
  const std::string member = absl::StrCat(field, ".non_alias_view");
  if (!is_fresh) return InvalidField(member, "must not be set: ", OutputTypeName(info.output_type), " is an alias");
  if (info.non_alias_view->is_hidden != info.non_alias_view->hidden_geometry.has_value()) {
    return InvalidField(absl::StrCat(member, ".hidden_geometry"), "must be set for a hidden base, and for no other");
  }
  if (info.geometry.has_value()) return absl::OkStatus();
  return InvalidField(absl::StrCat(field, ".geometry"), "is missing: it is the place of the view");
}

absl::Status ValidateSharedStorage(const OutputAliasInfo& info, absl::string_view field) {
  if (!info.shared_storage.has_value()) return absl::OkStatus();
  const std::string member = absl::StrCat(field, ".shared_storage");
  const SharedStorage& shared = *info.shared_storage;
  const bool repeats_output = shared.is_same_tensor && shared.owner == SharedStorage::Owner::kOutput;
  if (!IsFreshMemory(info.output_type) && !repeats_output) {
    return InvalidField(member, "must not be set: ", OutputTypeName(info.output_type),
                        " is an alias and has a base_index");
  }
  if (shared.is_detached && (shared.is_same_tensor || shared.owner != SharedStorage::Owner::kInput)) {
    return InvalidField(absl::StrCat(member, ".is_detached"), "must be false: it applies only to parts of inputs");
  }
  const bool reads_otherwise = shared.is_conjugate || shared.is_negated;
  if (reads_otherwise && (shared.is_same_tensor || shared.owner == SharedStorage::Owner::kInput)) {
    return InvalidField(absl::StrCat(member, shared.is_conjugate ? ".is_conjugate" : ".is_negated"),
                        "must be false: it applies only to tensors in the storage of a result");
  }
  if (shared.is_same_tensor) {
    if (shared.owner == SharedStorage::Owner::kIntermediateBase) {
      return InvalidField(absl::StrCat(member, ".is_same_tensor"),
                          "must be false: an intermediate base is not a result");
    }
    return absl::OkStatus();
  }
  if (shared.owner != SharedStorage::Owner::kInput && !info.geometry.has_value()) {
    return InvalidField(absl::StrCat(field, ".geometry"), "is missing: it is the place in the shared storage");
  }
  return absl::OkStatus();
}

absl::StatusOr<SharedStorage> ParseSharedStorage(const serialization::SharedStorage& proto, absl::string_view field) {
  SharedStorage shared;
  shared.is_same_tensor = proto.is_same_tensor();
  shared.is_detached = proto.is_detached();
  shared.is_conjugate = proto.is_conjugate();
  shared.is_negated = proto.is_negated();
  uint32_t index = 0;
  switch (proto.owner_case()) {
    case serialization::SharedStorage::kInput:
      shared.owner = SharedStorage::Owner::kInput;
      index = proto.input();
      break;
    case serialization::SharedStorage::kOutput:
      shared.owner = SharedStorage::Owner::kOutput;
      index = proto.output();
      break;
    case serialization::SharedStorage::kIntermediateBase:
      shared.owner = SharedStorage::Owner::kIntermediateBase;
      index = proto.intermediate_base();
      break;
    case serialization::SharedStorage::OWNER_NOT_SET:
      return InvalidField(absl::StrCat(field, ".owner"), "is not set");
  }
  COTAN_ASSIGN_OR_RETURN(shared.index, ParseCount(absl::StrCat(field, ".owner"), index));
  return shared;
}

serialization::SharedStorage SharedStorageProto(const SharedStorage& shared) {
  serialization::SharedStorage proto;
  const auto index = static_cast<uint32_t>(shared.index);
  switch (shared.owner) {
    case SharedStorage::Owner::kInput:
      proto.set_input(index);
      break;
    case SharedStorage::Owner::kOutput:
      proto.set_output(index);
      break;
    case SharedStorage::Owner::kIntermediateBase:
      proto.set_intermediate_base(index);
      break;
  }
  proto.set_is_same_tensor(shared.is_same_tensor);
  proto.set_is_detached(shared.is_detached);
  proto.set_is_conjugate(shared.is_conjugate);
  proto.set_is_negated(shared.is_negated);
  return proto;
}

absl::StatusOr<NonAliasViewInfo> ParseNonAliasViewInfo(const serialization::NonAliasViewInfo& proto,
                                                       absl::string_view field) {
  NonAliasViewInfo view;
  if (proto.creation() == serialization::NonAliasViewInfo::CREATION_UNSPECIFIED) {
    return InvalidField(absl::StrCat(field, ".creation"), "is not set");
  }
  if (!serialization::NonAliasViewInfo::Creation_IsValid(proto.creation())) {
    return UnknownEnumerator(absl::StrCat(field, ".creation"), static_cast<int>(proto.creation()), "creation");
  }
  view.creation = static_cast<NonAliasViewInfo::Creation>(proto.creation());
  if (proto.base_case() == serialization::NonAliasViewInfo::BASE_NOT_SET) {
    return InvalidField(absl::StrCat(field, ".base"), "is not set");
  }
  view.is_hidden = proto.has_hidden();
  COTAN_ASSIGN_OR_RETURN(view.base,
                         ParseCount(absl::StrCat(field, ".base"), view.is_hidden ? proto.hidden() : proto.output()));
  if (proto.has_hidden_geometry()) {
    COTAN_ASSIGN_OR_RETURN(view.hidden_geometry,
                           TensorGeometry::FromProto(proto.hidden_geometry(), absl::StrCat(field, ".hidden_geometry")));
  }
  return view;
}

serialization::NonAliasViewInfo NonAliasViewInfoProto(const NonAliasViewInfo& view) {
  serialization::NonAliasViewInfo proto;
  proto.set_creation(static_cast<serialization::NonAliasViewInfo::Creation>(view.creation));
  if (view.is_hidden) {
    proto.set_hidden(static_cast<uint32_t>(view.base));
  } else {
    proto.set_output(static_cast<uint32_t>(view.base));
  }
  if (view.hidden_geometry.has_value()) *proto.mutable_hidden_geometry() = view.hidden_geometry->ToProto();
  return proto;
}

// Returns "a view of output 0", "one of several views of hidden base 1".
std::string NonAliasViewInfoText(const NonAliasViewInfo& view) {
  const absl::string_view kind = view.creation == NonAliasViewInfo::Creation::kMultiOutput ? "one of several views of "
                                 : view.creation == NonAliasViewInfo::Creation::kNoGrad    ? "a view under no_grad of "
                                                                                           : "a view of ";
  return absl::StrCat(kind, view.is_hidden ? "hidden base " : "output ", view.base);
}

// Returns "the tensor of input 2", "conjugate, in the storage of output 0".
std::string SharedStorageText(const SharedStorage& shared) {
  static constexpr absl::string_view kOwners[] = {"input ", "output ", "intermediate base "};
  return absl::StrCat(shared.is_conjugate ? "conjugate, " : "", shared.is_negated ? "negated, " : "",
                      shared.is_same_tensor ? "the tensor of "
                      : shared.is_detached  ? "detached, in the storage of "
                                            : "in the storage of ",
                      kOwners[static_cast<size_t>(shared.owner)], shared.index);
}

absl::Status ValidateBase(const OutputAliasInfo& info, absl::string_view field) {
  const bool is_alias = !IsFreshMemory(info.output_type);
  if (is_alias && !info.base_index.has_value()) {
    return InvalidField(absl::StrCat(field, ".base_index"), "is missing, but the output is ",
                        OutputTypeName(info.output_type));
  }
  if (!is_alias && info.base_index.has_value() && info.output_type != OutputType::kNonAlias) {
    return InvalidField(absl::StrCat(field, ".base_index"), "must not be set: ", OutputTypeName(info.output_type),
                        " has no base");
  }
  const bool is_part_of_input =
      info.shared_storage.has_value() && info.shared_storage->owner == SharedStorage::Owner::kInput;
  const bool may_have_views = is_alias ? info.output_type != OutputType::kIsInput : is_part_of_input;
  if (!info.view_steps.empty() && !may_have_views) {
    return InvalidField(absl::StrCat(field, ".view_steps"), "must be empty: ", OutputTypeName(info.output_type),
                        " is replayed through no views");
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view OutputTypeName(OutputType type) {
  switch (type) {
    case OutputType::kNonAlias:
      return "non_alias";
    case OutputType::kAliasOfInput:
      return "alias_of_input";
    case OutputType::kIsInput:
      return "is_input";
    case OutputType::kAliasOfIntermediateSaveAsOutput:
      return "alias_of_intermediate_save_as_output";
    case OutputType::kAliasOfIntermediate:
      return "alias_of_intermediate";
    case OutputType::kAliasOfIntermediateBaseIsUserOutput:
      return "alias_of_intermediate_base_is_user_output";
    case OutputType::kUnsafeViewAlias:
      return "unsafe_view_alias";
    case OutputType::kCustomFunctionView:
      return "custom_function_view";
  }
  return "unknown";
}

bool IsFreshMemory(OutputType type) {
  return type == OutputType::kNonAlias || type == OutputType::kUnsafeViewAlias ||
         type == OutputType::kCustomFunctionView;
}

bool IsAliasOfInput(OutputType type) { return type == OutputType::kAliasOfInput || type == OutputType::kIsInput; }

bool IsAliasOfIntermediate(OutputType type) { return !IsFreshMemory(type) && !IsAliasOfInput(type); }

absl::Status OutputAliasInfo::Validate(absl::string_view field) const {
  if (requires_grad_for_backward && !requires_grad) {
    return InvalidField(absl::StrCat(field, ".requires_grad_for_backward"), "must be false, as requires_grad is");
  }
  if (!is_tensor()) return ValidateScalar(*this, field);
  COTAN_RETURN_IF_ERROR(ValidateBase(*this, field));
  COTAN_RETURN_IF_ERROR(ValidateSharedStorage(*this, field));
  COTAN_RETURN_IF_ERROR(ValidateAutograd(*this, field));
  return CheckAscending(absl::StrCat(field, ".dynamic_dims"), dynamic_dims,
                        geometry.has_value() ? geometry->rank() : kMaxCount, "dimensions");
}

absl::StatusOr<OutputAliasInfo> OutputAliasInfo::FromProto(const serialization::OutputAliasInfo& proto,
                                                           absl::string_view field) {
  OutputAliasInfo info;
  COTAN_ASSIGN_OR_RETURN(info.output_type, ParseOutputType(absl::StrCat(field, ".output_type"), proto.output_type()));
  COTAN_ASSIGN_OR_RETURN(info.scalar, ParseScalar(proto, field));
  if (proto.has_base_index()) {
    COTAN_ASSIGN_OR_RETURN(info.base_index, ParseCount(absl::StrCat(field, ".base_index"), proto.base_index()));
  }
  COTAN_ASSIGN_OR_RETURN(info.dynamic_dims, ParseIndexes(absl::StrCat(field, ".dynamic_dims"), proto.dynamic_dims()));
  info.requires_grad = proto.requires_grad();
  info.requires_grad_for_backward =
      proto.has_requires_grad_for_backward() ? proto.requires_grad_for_backward() : proto.requires_grad();
  COTAN_ASSIGN_OR_RETURN(info.view_steps, ParseViewSteps(proto.view_steps(), absl::StrCat(field, ".view_steps")));
  if (proto.has_geometry()) {
    COTAN_ASSIGN_OR_RETURN(info.geometry,
                           TensorGeometry::FromProto(proto.geometry(), absl::StrCat(field, ".geometry")));
  }
  if (proto.has_shared_storage()) {
    COTAN_ASSIGN_OR_RETURN(info.shared_storage,
                           ParseSharedStorage(proto.shared_storage(), absl::StrCat(field, ".shared_storage")));
  }
  if (proto.has_non_alias_view()) {
    COTAN_ASSIGN_OR_RETURN(info.non_alias_view,
                           ParseNonAliasViewInfo(proto.non_alias_view(), absl::StrCat(field, ".non_alias_view")));
  }
  info.is_new_leaf = proto.is_new_leaf();
  info.not_a_view = proto.not_a_view();
  info.retains_grad = proto.retains_grad();
  COTAN_RETURN_IF_ERROR(info.Validate(field));
  return info;
}

serialization::OutputAliasInfo OutputAliasInfo::ToProto() const {
  serialization::OutputAliasInfo proto;
  proto.set_output_type(static_cast<serialization::OutputTypeProto>(output_type));
  if (scalar.has_value()) std::visit(ScalarEncoder{proto}, *scalar);
  if (base_index.has_value()) proto.set_base_index(static_cast<uint32_t>(*base_index));
  AddIndexes(dynamic_dims, proto.mutable_dynamic_dims());
  proto.set_requires_grad(requires_grad);
  if (requires_grad_for_backward != requires_grad) {
    proto.set_requires_grad_for_backward(requires_grad_for_backward);
  }
  for (const ViewStep& step : view_steps) *proto.add_view_steps() = cotan::ToProto(step);
  if (geometry.has_value()) *proto.mutable_geometry() = geometry->ToProto();
  if (shared_storage.has_value()) *proto.mutable_shared_storage() = SharedStorageProto(*shared_storage);
  if (non_alias_view.has_value()) *proto.mutable_non_alias_view() = NonAliasViewInfoProto(*non_alias_view);
  proto.set_is_new_leaf(is_new_leaf);
  proto.set_not_a_view(not_a_view);
  proto.set_retains_grad(retains_grad);
  return proto;
}

std::string OutputAliasInfo::ToString() const {
  if (!is_tensor()) return absl::StrCat("the value ", std::visit(ScalarDescriber(), *scalar));
  std::vector<std::string> parts = {std::string(OutputTypeName(output_type))};
  if (base_index.has_value()) absl::StrAppend(&parts[0], " ", *base_index);
  if (!view_steps.empty()) absl::StrAppend(&parts[0], " through ", cotan::ToString(view_steps));
  if (shared_storage.has_value()) parts.push_back(SharedStorageText(*shared_storage));
  if (geometry.has_value()) parts.push_back(geometry->ToString());
  if (non_alias_view.has_value()) parts.push_back(NonAliasViewInfoText(*non_alias_view));
  if (not_a_view) parts.push_back("not a view for autograd");
  if (requires_grad) parts.push_back(is_new_leaf ? "a leaf that requires grad" : "requires grad");
  if (requires_grad && !requires_grad_for_backward) parts.push_back("has no tangent");
  if (retains_grad) parts.push_back("retains its gradient");
  if (!dynamic_dims.empty()) {
    parts.push_back(absl::StrCat("dynamic dimensions ", absl::StrJoin(dynamic_dims, " ")));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace cotan
