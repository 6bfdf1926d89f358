// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/wrapper_meta.h"

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

// Maximum nesting, which bounds the stack.
constexpr int kMaxDepth = 16;

absl::StatusOr<PlainTensorMeta> ParsePlain(const serialization::PlainTensorMeta& proto, absl::string_view field) {
  PlainTensorMeta meta;
  COTAN_ASSIGN_OR_RETURN(meta.flat_index, ParseCount(absl::StrCat(field, ".flat_index"), proto.flat_index()));
  if (proto.has_expected()) {
    COTAN_ASSIGN_OR_RETURN(meta.expected,
                           TensorGeometry::FromProto(proto.expected(), absl::StrCat(field, ".expected")));
  }
  return meta;
}

absl::StatusOr<WrapperMeta> ParseWrapper(const serialization::WrapperMeta& proto, absl::string_view field, int depth);

absl::StatusOr<WrapperAttribute> ParseAttribute(const serialization::WrapperMeta::Attribute& proto,
                                                absl::string_view field, int depth) {
  using ProtoAttribute = serialization::WrapperMeta::Attribute;
  WrapperAttribute attribute;
  attribute.name = proto.name();
  switch (proto.kind_case()) {
    case ProtoAttribute::kPlain: {
      COTAN_ASSIGN_OR_RETURN(attribute.value, ParsePlain(proto.plain(), absl::StrCat(field, ".plain")));
      return attribute;
    }
    case ProtoAttribute::kWrapper: {
      COTAN_ASSIGN_OR_RETURN(attribute.value, ParseWrapper(proto.wrapper(), absl::StrCat(field, ".wrapper"), depth));
      return attribute;
    }
    case ProtoAttribute::kOpaque:
      attribute.value = OpaqueMeta{proto.opaque().type_name(), proto.opaque().content()};
      return attribute;
    case ProtoAttribute::KIND_NOT_SET:
      break;
  }
  return InvalidField(field, "the attribute \"", proto.name(), "\" has no kind");
}

absl::StatusOr<WrapperMeta> ParseWrapper(const serialization::WrapperMeta& proto, absl::string_view field, int depth) {
  if (depth >= kMaxDepth) {
    return InvalidField(field, "wrappers are nested more than ", kMaxDepth, " times");
  }
  WrapperMeta meta;
  meta.type_name = proto.type_name();
  COTAN_ASSIGN_OR_RETURN(meta.flat_start, ParseCount(absl::StrCat(field, ".flat_start"), proto.flat_start()));
  COTAN_ASSIGN_OR_RETURN(meta.flat_count, ParseCount(absl::StrCat(field, ".flat_count"), proto.flat_count()));
  for (int i = 0; i < proto.attributes_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(
        WrapperAttribute attribute,
        ParseAttribute(proto.attributes(i), Element(absl::StrCat(field, ".attributes"), i), depth + 1));
    meta.attributes.push_back(std::move(attribute));
  }
  COTAN_ASSIGN_OR_RETURN(meta.outer_sizes, ParseSymInts(absl::StrCat(field, ".outer_sizes"), proto.outer_sizes()));
  COTAN_ASSIGN_OR_RETURN(meta.outer_strides,
                         ParseSymInts(absl::StrCat(field, ".outer_strides"), proto.outer_strides()));
  meta.metadata = proto.metadata();
  return meta;
}

// Checks that the metas take the flat values 0, 1, 2, ... in order.
class FlatCursor {
 public:
  absl::Status Visit(const PlainTensorMeta& meta, const std::string& field) {
    if (meta.flat_index != next_) {
      return InvalidField(absl::StrCat(field, ".flat_index"), meta.flat_index, " is out of order: flat value ", next_,
                          " comes next");
    }
    ++next_;
    return absl::OkStatus();
  }

  absl::Status Visit(const OpaqueMeta& meta, const std::string& field) {
    if (!meta.type_name.empty()) return absl::OkStatus();
    return InvalidField(absl::StrCat(field, ".type_name"), "is empty");
  }

  absl::Status Visit(const WrapperMeta& meta, const std::string& field) {
    COTAN_RETURN_IF_ERROR(CheckOwnFields(meta, field));
    const int start = next_;
    for (size_t i = 0; i < meta.attributes.size(); ++i) {
      const std::string inner = Element(absl::StrCat(field, ".attributes"), i);
      COTAN_RETURN_IF_ERROR(
          std::visit([&](const auto& value) { return Visit(value, inner); }, meta.attributes[i].value));
    }
    if (meta.flat_count == next_ - start) return absl::OkStatus();
    return InvalidField(absl::StrCat(field, ".flat_count"), meta.flat_count, " flat values, but its attributes take ",
                        next_ - start);
  }

 private:
  absl::Status CheckOwnFields(const WrapperMeta& meta, const std::string& field) const {
    if (meta.type_name.empty()) return InvalidField(absl::StrCat(field, ".type_name"), "is empty");
    if (meta.flat_start != next_) {
      return InvalidField(absl::StrCat(field, ".flat_start"), meta.flat_start, " is out of order: flat value ", next_,
                          " comes next");
    }
    if (meta.outer_strides.size() != meta.outer_sizes.size()) {
      return InvalidField(absl::StrCat(field, ".outer_strides"), meta.outer_strides.size(), " strides for ",
                          meta.outer_sizes.size(), " sizes");
    }
    absl::flat_hash_set<absl::string_view> names;
    for (size_t i = 0; i < meta.attributes.size(); ++i) {
      if (names.insert(meta.attributes[i].name).second) continue;
      return InvalidField(Element(absl::StrCat(field, ".attributes"), i), "the name \"", meta.attributes[i].name,
                          "\" occurs twice");
    }
    return absl::OkStatus();
  }

  int next_ = 0;
};

serialization::PlainTensorMeta PlainToProto(const PlainTensorMeta& meta) {
  serialization::PlainTensorMeta proto;
  proto.set_flat_index(static_cast<uint32_t>(meta.flat_index));
  if (meta.expected.has_value()) *proto.mutable_expected() = meta.expected->ToProto();
  return proto;
}

serialization::WrapperMeta WrapperToProto(const WrapperMeta& meta);

serialization::WrapperMeta::Attribute AttributeToProto(const WrapperAttribute& attribute) {
  serialization::WrapperMeta::Attribute proto;
  proto.set_name(attribute.name);
  if (const auto* plain = std::get_if<PlainTensorMeta>(&attribute.value)) {
    *proto.mutable_plain() = PlainToProto(*plain);
  } else if (const auto* wrapper = std::get_if<WrapperMeta>(&attribute.value)) {
    *proto.mutable_wrapper() = WrapperToProto(*wrapper);
  } else if (const auto* opaque = std::get_if<OpaqueMeta>(&attribute.value)) {
    proto.mutable_opaque()->set_type_name(opaque->type_name);
    proto.mutable_opaque()->set_content(opaque->content);
  }
  return proto;
}

serialization::WrapperMeta WrapperToProto(const WrapperMeta& meta) {
  serialization::WrapperMeta proto;
  proto.set_type_name(meta.type_name);
  proto.set_flat_start(static_cast<uint32_t>(meta.flat_start));
  proto.set_flat_count(static_cast<uint32_t>(meta.flat_count));
  for (const WrapperAttribute& attribute : meta.attributes) {
    *proto.add_attributes() = AttributeToProto(attribute);
  }
  AddSymInts(meta.outer_sizes, proto.mutable_outer_sizes());
  AddSymInts(meta.outer_strides, proto.mutable_outer_strides());
  proto.set_metadata(meta.metadata);
  return proto;
}

void AppendNames(const WrapperMeta& meta, const std::string& name, std::vector<std::string>& names) {
  for (const WrapperAttribute& attribute : meta.attributes) {
    const std::string full = absl::StrCat(name, ".", attribute.name);
    if (std::holds_alternative<PlainTensorMeta>(attribute.value)) names.push_back(full);
    if (const auto* inner = std::get_if<WrapperMeta>(&attribute.value)) AppendNames(*inner, full, names);
  }
}

std::string Describe(const PlainTensorMeta& meta) { return absl::StrCat("flat ", meta.flat_index); }
std::string Describe(const OpaqueMeta& meta) { return absl::StrCat("opaque ", meta.type_name); }
std::string Describe(const WrapperMeta& meta) {
  return absl::StrCat(
      meta.type_name, "{",
      absl::StrJoin(meta.attributes, ", ",
                    [](std::string* out, const WrapperAttribute& attribute) {
                      absl::StrAppend(out, attribute.name, ": ",
                                      std::visit([](const auto& value) { return Describe(value); }, attribute.value));
                    }),
      "}");
}

}  // namespace

int FlatCount(const FlatMeta& meta) {
  const auto* wrapper = std::get_if<WrapperMeta>(&meta);
  return wrapper == nullptr ? 1 : wrapper->flat_count;
}

int FlatCount(absl::Span<const FlatMeta> metas) {
  int count = 0;
  for (const FlatMeta& meta : metas) count += FlatCount(meta);
  return count;
}

std::vector<std::string> FlatNames(absl::Span<const FlatMeta> metas, absl::Span<const std::string> names) {
  std::vector<std::string> flat;
  for (size_t i = 0; i < metas.size(); ++i) {
    const auto* wrapper = std::get_if<WrapperMeta>(&metas[i]);
    if (wrapper == nullptr) {
      flat.push_back(names[i]);
    } else {
      AppendNames(*wrapper, names[i], flat);
    }
  }
  return flat;
}

absl::string_view WrapperTypeName(const FlatMeta& meta) {
  const auto* wrapper = std::get_if<WrapperMeta>(&meta);
  return wrapper == nullptr ? absl::string_view() : wrapper->type_name;
}

bool HasWrappers(absl::Span<const FlatMeta> metas) {
  for (const FlatMeta& meta : metas) {
    if (std::holds_alternative<WrapperMeta>(meta)) return true;
  }
  return false;
}

absl::Status ValidateFlatMetas(absl::Span<const FlatMeta> metas, absl::string_view field) {
  FlatCursor cursor;
  for (size_t i = 0; i < metas.size(); ++i) {
    const auto* wrapper = std::get_if<WrapperMeta>(&metas[i]);
    const std::string element = absl::StrCat(Element(field, i), wrapper == nullptr ? ".plain" : ".wrapper");
    COTAN_RETURN_IF_ERROR(std::visit([&](const auto& value) { return cursor.Visit(value, element); }, metas[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FlatMeta>> ParseFlatMetas(
    const google::protobuf::RepeatedPtrField<serialization::FlatMeta>& protos, absl::string_view field) {
  std::vector<FlatMeta> metas;
  metas.reserve(static_cast<size_t>(protos.size()));
  for (int i = 0; i < protos.size(); ++i) {
    const serialization::FlatMeta& proto = protos.Get(i);
    const std::string element = Element(field, i);
    if (proto.has_plain()) {
      COTAN_ASSIGN_OR_RETURN(PlainTensorMeta meta, ParsePlain(proto.plain(), absl::StrCat(element, ".plain")));
      metas.push_back(std::move(meta));
    } else if (proto.has_wrapper()) {
      COTAN_ASSIGN_OR_RETURN(WrapperMeta meta,
                             ParseWrapper(proto.wrapper(), absl::StrCat(element, ".wrapper"), /*depth=*/0));
      metas.push_back(std::move(meta));
    } else {
      return InvalidField(element, "neither plain nor a wrapper");
    }
  }
  return metas;
}

serialization::FlatMeta ToProto(const FlatMeta& meta) {
  serialization::FlatMeta proto;
  if (const auto* plain = std::get_if<PlainTensorMeta>(&meta)) {
    *proto.mutable_plain() = PlainToProto(*plain);
  } else {
    *proto.mutable_wrapper() = WrapperToProto(*std::get_if<WrapperMeta>(&meta));
  }
  return proto;
}

std::string ToString(const FlatMeta& meta) {
  return std::visit([](const auto& value) { return Describe(value); }, meta);
}

}  // namespace cotan
