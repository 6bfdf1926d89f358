// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/input_alias_info.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

bool ProgramCanMutate(const InputAliasInfo& info) {
  if (!info.keep_input_mutations) return false;
  const bool has_form = info.mutates_data || info.mutates_storage_metadata || info.mutation_inductor_storage_resize;
  const bool changes_geometry = info.mutates_metadata && !info.mutates_storage_metadata;
  const bool is_unseen = info.mutations_hidden_from_autograd || info.mutations_under_no_grad_or_inference_mode;
  const bool beside_autograd = (!info.mutates_metadata && !info.requires_grad) ||
                               (is_unseen && !changes_geometry && info.history != GradFnChange::kNew);
  return has_form && beside_autograd;
}

std::string DescribeMutation(const InputAliasInfo& info) {
  std::vector<absl::string_view> what;
  if (info.mutates_data) what.push_back("data");
  if (info.mutates_storage_metadata) {
    what.push_back(info.mutation_is_shallow_copy_data ? "storage (.data)" : "storage (set_)");
  } else if (info.mutates_metadata) {
    what.push_back("metadata");
  }
  if (info.mutation_inductor_storage_resize) what.push_back("storage size");
  return absl::StrCat("mutates ", absl::StrJoin(what, " and "));
}

std::string StorageText(const NewStorage& storage) {
  switch (storage.owner) {
    case NewStorage::Owner::kInput:
      return absl::StrCat("that of input ", storage.input);
    case NewStorage::Owner::kUpdatedInput:
      return absl::StrCat("the storage at exit of input ", storage.input);
    case NewStorage::Owner::kProgram:
      break;
  }
  return absl::StrCat("a new one with ", storage.geometry->ToString());
}

absl::StatusOr<NewStorage> NewStorageFromProto(const serialization::InputAliasInfo::NewStorage& proto,
                                               absl::string_view field) {
  using Proto = serialization::InputAliasInfo::NewStorage;
  NewStorage storage;
  if (proto.owner_case() == Proto::kInput) {
    storage.owner = NewStorage::Owner::kInput;
    storage.input = static_cast<int>(proto.input());
  } else if (proto.owner_case() == Proto::kUpdatedInput) {
    storage.owner = NewStorage::Owner::kUpdatedInput;
    storage.input = static_cast<int>(proto.updated_input());
  }
  if (!proto.has_geometry()) return storage;
  COTAN_ASSIGN_OR_RETURN(storage.geometry,
                         TensorGeometry::FromProto(proto.geometry(), absl::StrCat(field, ".geometry")));
  return storage;
}

void SetProto(const NewStorage& storage, serialization::InputAliasInfo::NewStorage& proto) {
  const auto input = static_cast<uint32_t>(storage.input);
  if (storage.owner == NewStorage::Owner::kInput) proto.set_input(input);
  if (storage.owner == NewStorage::Owner::kUpdatedInput) proto.set_updated_input(input);
  if (storage.geometry.has_value()) *proto.mutable_geometry() = storage.geometry->ToProto();
}

// Checks view_steps_after and geometry_at_entry.
absl::Status ValidateEntry(const InputAliasInfo& info, absl::string_view field) {
  const bool has_steps = !info.view_steps_after.empty();
  if (!has_steps && !info.geometry_at_entry.has_value()) return absl::OkStatus();
  const std::string member = absl::StrCat(field, has_steps ? ".view_steps_after" : ".geometry_at_entry");
  if (!info.geometry_after.has_value()) return InvalidField(member, "must not be set, as geometry_after is not");
  if (info.mutates_storage_metadata) return InvalidField(member, "must not be set, as the storage is replaced");
  if (has_steps && info.geometry_at_entry.has_value()) {
    return InvalidField(member, "must not be set together with geometry_at_entry");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InputAliasInfo::Validate(absl::string_view field) const {
  if (mutates_storage_metadata && !mutates_metadata) {
    return InvalidField(absl::StrCat(field, ".mutates_metadata"),
                        "must be true, as mutates_storage_metadata is: another storage is other "
                        "metadata");
  }
  if (mutation_is_shallow_copy_data && !mutates_storage_metadata) {
    return InvalidField(absl::StrCat(field, ".mutates_storage_metadata"),
                        "must be true, as mutation_is_shallow_copy_data is: assigning .data gives "
                        "another storage");
  }
  if (mutations_under_no_grad_or_inference_mode && !is_mutated()) {
    return InvalidField(absl::StrCat(field, ".mutations_under_no_grad_or_inference_mode"),
                        "must be false, as the input is not mutated");
  }
  if ((mutates_storage_metadata || mutation_inductor_storage_resize) && !ProgramCanMutate(*this)) {
    return InvalidField(field, "the storage of the input is ",
                        mutation_inductor_storage_resize ? "resized (resize_)" : "replaced (set_)",
                        ", which only the program itself can do, but it may not: keep_input_mutations is ",
                        keep_input_mutations ? "true" : "false",
                        ", and mutations must be hidden from autograd or made under no_grad");
  }
  if (geometry_after.has_value() && !mutates_metadata) {
    return InvalidField(absl::StrCat(field, ".geometry_after"), "must not be set, as the metadata is not mutated");
  }
  COTAN_RETURN_IF_ERROR(ValidateEntry(*this, field));
  if (gradient_sizes.has_value() && (!geometry_after.has_value() || !requires_grad)) {
    return InvalidField(absl::StrCat(field, ".gradient_sizes"), "must not be set, as the input ",
                        requires_grad ? "keeps its geometry" : "does not require grad at exit");
  }
  if (history != GradFnChange::kUnspecified && !requires_grad) {
    return InvalidField(absl::StrCat(field, ".history"), "must not be set, as the input does not require grad at exit");
  }
  if (retains_grad && !requires_grad) {
    return InvalidField(absl::StrCat(field, ".retains_grad"),
                        "must be false, as the input does not require grad at exit");
  }
  if (!new_storage.has_value()) return absl::OkStatus();
  if (!mutates_storage_metadata) {
    return InvalidField(absl::StrCat(field, ".new_storage"), "must not be set, as the storage stays the same");
  }
  const bool is_known = new_storage->owner == NewStorage::Owner::kUpdatedInput;
  if (new_storage->geometry.has_value() == is_known) {
    return InvalidField(absl::StrCat(field, ".new_storage.geometry"), is_known ? "must not be set" : "must be set",
                        ", as the storage is ", is_known ? "that of an updated input" : "not that of an updated input");
  }
  return absl::OkStatus();
}

absl::StatusOr<InputAliasInfo> InputAliasInfo::FromProto(const serialization::InputAliasInfo& proto,
                                                         absl::string_view field) {
  InputAliasInfo info;
  info.is_leaf = proto.is_leaf();
  info.mutates_data = proto.mutates_data();
  info.mutates_metadata = proto.mutates_metadata();
  info.mutations_hidden_from_autograd = proto.mutations_hidden_from_autograd();
  info.mutations_under_no_grad_or_inference_mode = proto.mutations_under_no_grad_or_inference_mode();
  info.mutates_storage_metadata = proto.mutates_storage_metadata();
  info.mutation_inductor_storage_resize = proto.mutation_inductor_storage_resize();
  info.mutation_is_shallow_copy_data = proto.mutation_is_shallow_copy_data();
  info.requires_grad = proto.requires_grad();
  if (proto.has_requires_grad_at_entry()) info.requires_grad_at_entry = proto.requires_grad_at_entry();
  if (!serialization::InputAliasInfo::History_IsValid(proto.history())) {
    return UnknownEnumerator(absl::StrCat(field, ".history"), static_cast<int>(proto.history()), "history");
  }
  info.history = static_cast<GradFnChange>(proto.history());
  info.keep_input_mutations = proto.keep_input_mutations();
  if (proto.has_geometry_after()) {
    COTAN_ASSIGN_OR_RETURN(info.geometry_after,
                           TensorGeometry::FromProto(proto.geometry_after(), absl::StrCat(field, ".geometry_after")));
  }
  COTAN_ASSIGN_OR_RETURN(info.view_steps_after,
                         ParseViewSteps(proto.view_steps_after(), absl::StrCat(field, ".view_steps_after")));
  if (proto.has_geometry_at_entry()) {
    COTAN_ASSIGN_OR_RETURN(
        info.geometry_at_entry,
        TensorGeometry::FromProto(proto.geometry_at_entry(), absl::StrCat(field, ".geometry_at_entry")));
  }
  if (proto.has_new_storage()) {
    COTAN_ASSIGN_OR_RETURN(info.new_storage,
                           NewStorageFromProto(proto.new_storage(), absl::StrCat(field, ".new_storage")));
  }
  if (proto.has_gradient_sizes()) {
    COTAN_ASSIGN_OR_RETURN(info.gradient_sizes,
                           ParseSymInts(absl::StrCat(field, ".gradient_sizes.sizes"), proto.gradient_sizes().sizes()));
  }
  info.retains_grad = proto.retains_grad();
  COTAN_RETURN_IF_ERROR(info.Validate(field));
  return info;
}

serialization::InputAliasInfo InputAliasInfo::ToProto() const {
  serialization::InputAliasInfo proto;
  proto.set_is_leaf(is_leaf);
  proto.set_mutates_data(mutates_data);
  proto.set_mutates_metadata(mutates_metadata);
  proto.set_mutations_hidden_from_autograd(mutations_hidden_from_autograd);
  proto.set_mutations_under_no_grad_or_inference_mode(mutations_under_no_grad_or_inference_mode);
  proto.set_mutates_storage_metadata(mutates_storage_metadata);
  proto.set_mutation_inductor_storage_resize(mutation_inductor_storage_resize);
  proto.set_mutation_is_shallow_copy_data(mutation_is_shallow_copy_data);
  proto.set_requires_grad(requires_grad);
  if (requires_grad_at_entry.has_value()) proto.set_requires_grad_at_entry(*requires_grad_at_entry);
  proto.set_history(static_cast<serialization::InputAliasInfo::History>(history));
  proto.set_keep_input_mutations(keep_input_mutations);
  if (geometry_after.has_value()) *proto.mutable_geometry_after() = geometry_after->ToProto();
  for (const ViewStep& step : view_steps_after) *proto.add_view_steps_after() = cotan::ToProto(step);
  if (geometry_at_entry.has_value()) *proto.mutable_geometry_at_entry() = geometry_at_entry->ToProto();
  if (new_storage.has_value()) SetProto(*new_storage, *proto.mutable_new_storage());
  if (gradient_sizes.has_value()) AddSymInts(*gradient_sizes, proto.mutable_gradient_sizes()->mutable_sizes());
  proto.set_retains_grad(retains_grad);
  return proto;
}

std::string InputAliasInfo::ToString() const {
  std::vector<std::string> parts;
  if (is_leaf) parts.push_back("leaf");
  if (requires_grad) parts.push_back("requires grad");
  if (requires_grad_at_entry.value_or(requires_grad) != requires_grad) {
    parts.push_back(requires_grad ? "did not require grad at entry" : "required grad at entry");
  }
  if (history == GradFnChange::kKept) parts.push_back("keeps its grad_fn");
  if (history == GradFnChange::kNew) parts.push_back("gets another grad_fn");
  if (history == GradFnChange::kNewLeaf) parts.push_back("becomes a leaf");
  if (retains_grad) parts.push_back("retains its gradient");
  if (!is_mutated()) {
    parts.push_back("not mutated");
    return absl::StrJoin(parts, ", ");
  }
  parts.push_back(DescribeMutation(*this));
  if (geometry_after.has_value()) parts.back() += absl::StrCat(" to ", geometry_after->ToString());
  if (!view_steps_after.empty()) absl::StrAppend(&parts.back(), " by ", cotan::ToString(view_steps_after));
  if (geometry_at_entry.has_value()) absl::StrAppend(&parts.back(), " from ", geometry_at_entry->ToString());
  if (new_storage.has_value()) absl::StrAppend(&parts.back(), " in ", StorageText(*new_storage));
  if (gradient_sizes.has_value()) {
    parts.push_back(absl::StrCat("its gradient is [", JoinSymInts(*gradient_sizes), "]"));
  }
  if (mutations_under_no_grad_or_inference_mode) parts.push_back("under no_grad");
  if (mutations_hidden_from_autograd) parts.push_back("hidden from autograd");
  parts.push_back(MutationTypeOf(*this) == MutationType::kMutatedInGraph ? "written by the program"
                                                                         : "written back by the runtime");
  return absl::StrJoin(parts, ", ");
}

MutationType MutationTypeOf(const InputAliasInfo& info) {
  if (!info.is_mutated()) return MutationType::kNotMutated;
  return ProgramCanMutate(info) ? MutationType::kMutatedInGraph : MutationType::kMutatedOutGraph;
}

}  // namespace cotan
