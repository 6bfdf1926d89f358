// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/tree_spec.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

// Maximum nesting, which bounds the stack.
constexpr int kMaxDepth = 64;

absl::Status ParseKeys(const serialization::TreeSpec& proto, absl::string_view field, TreeSpec& spec) {
  const int expected = spec.kind == TreeSpec::Kind::kDict ? proto.children_size() : 0;
  if (proto.keys_size() != expected) {
    return InvalidField(field, proto.keys_size(), " keys where ", expected, " belong");
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (int i = 0; i < proto.keys_size(); ++i) {
    if (!seen.insert(proto.keys(i)).second) {
      return InvalidField(Element(field, i), "\"", proto.keys(i), "\" occurs twice");
    }
    spec.keys.push_back(proto.keys(i));
  }
  return absl::OkStatus();
}

absl::StatusOr<TreeSpec> Parse(const serialization::TreeSpec& proto, absl::string_view field, int depth) {
  if (depth > kMaxDepth) return InvalidField(field, "is nested more than ", kMaxDepth, " times");
  if (!serialization::TreeSpec::Kind_IsValid(proto.kind())) {
    return UnknownEnumerator(absl::StrCat(field, ".kind"), static_cast<int>(proto.kind()), "kind of tree");
  }
  TreeSpec spec;
  spec.kind = static_cast<TreeSpec::Kind>(proto.kind());
  const bool can_have_children = spec.kind != TreeSpec::Kind::kLeaf && spec.kind != TreeSpec::Kind::kNone;
  if (!can_have_children && proto.children_size() > 0) {
    return InvalidField(absl::StrCat(field, ".children"), "must be empty for a leaf");
  }
  COTAN_RETURN_IF_ERROR(ParseKeys(proto, absl::StrCat(field, ".keys"), spec));
  for (int i = 0; i < proto.children_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(TreeSpec child,
                           Parse(proto.children(i), Element(absl::StrCat(field, ".children"), i), depth + 1));
    spec.children.push_back(std::move(child));
  }
  return spec;
}

std::string Join(const TreeSpec& spec) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < spec.children.size(); ++i) {
    const std::string child = spec.children[i].ToString();
    parts.push_back(spec.kind == TreeSpec::Kind::kDict ? absl::StrCat(spec.keys[i], ": ", child) : child);
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

TreeSpec TreeSpec::FlatTuple(int num_leaves) {
  TreeSpec spec;
  spec.kind = Kind::kTuple;
  spec.children.resize(static_cast<size_t>(num_leaves));
  return spec;
}

int TreeSpec::num_leaves() const {
  if (kind == Kind::kLeaf) return 1;
  int count = 0;
  for (const TreeSpec& child : children) count += child.num_leaves();
  return count;
}

absl::StatusOr<TreeSpec> TreeSpec::FromProto(const serialization::TreeSpec& proto, absl::string_view field) {
  return Parse(proto, field, /*depth=*/0);
}

serialization::TreeSpec TreeSpec::ToProto() const {
  serialization::TreeSpec proto;
  proto.set_kind(static_cast<serialization::TreeSpec::Kind>(kind));
  for (const TreeSpec& child : children) *proto.add_children() = child.ToProto();
  for (const std::string& key : keys) proto.add_keys(key);
  return proto;
}

std::string TreeSpec::ToString() const {
  switch (kind) {
    case Kind::kLeaf:
      return "*";
    case Kind::kTuple:
      return absl::StrCat("(", Join(*this), ")");
    case Kind::kList:
      return absl::StrCat("[", Join(*this), "]");
    case Kind::kDict:
      return absl::StrCat("{", Join(*this), "}");
    case Kind::kNone:
      return "none";
  }
  return "unknown";
}

}  // namespace cotan
