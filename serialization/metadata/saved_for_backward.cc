// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/saved_for_backward.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

absl::Status ValidateDynamic(const SavedForBackward& saved, absl::string_view field) {
  int previous = -1;
  for (size_t i = 0; i < saved.dynamic_tensors.size(); ++i) {
    const SavedForBackward::DynamicDims& entry = saved.dynamic_tensors[i];
    const std::string element = Element(field, i);
    COTAN_RETURN_IF_ERROR(
        CheckIndex(absl::StrCat(element, ".tensor"), entry.tensor, saved.num_tensors, "saved tensors"));
    if (entry.tensor <= previous) {
      return InvalidField(absl::StrCat(element, ".tensor"), entry.tensor, " follows ", previous,
                          ", but the indexes must ascend");
    }
    previous = entry.tensor;
    if (entry.dims.empty()) return InvalidField(absl::StrCat(element, ".dims"), "is empty");
    COTAN_RETURN_IF_ERROR(CheckAscending(absl::StrCat(element, ".dims"), entry.dims, kMaxCount, "dimensions"));
  }
  return absl::OkStatus();
}

absl::Status ValidateCount(absl::string_view field, int count) {
  if (count >= 0 && count <= kMaxCount) return absl::OkStatus();
  return InvalidField(field, count, " is outside [0, ", kMaxCount, "]");
}

}  // namespace

SavedSlice SavedForBackward::Tensors(int first) const { return {first, first + num_tensors}; }

SavedSlice SavedForBackward::TensorsWithVersionCheck(int first) const {
  return {first, first + num_tensors - num_tensors_without_version_check};
}

SavedSlice SavedForBackward::TensorsWithoutVersionCheck(int first) const {
  return {TensorsWithVersionCheck(first).end, Tensors(first).end};
}

absl::Status SavedForBackward::Validate(absl::string_view field) const {
  COTAN_RETURN_IF_ERROR(ValidateCount(absl::StrCat(field, ".num_tensors"), num_tensors));
  COTAN_RETURN_IF_ERROR(
      ValidateCount(absl::StrCat(field, ".num_tensors_without_version_check"), num_tensors_without_version_check));
  if (num_tensors_without_version_check > num_tensors) {
    return InvalidField(absl::StrCat(field, ".num_tensors_without_version_check"), num_tensors_without_version_check,
                        " of ", num_tensors, " saved tensors");
  }
  if (!is_input.empty() && is_input.size() != static_cast<size_t>(num_tensors)) {
    return InvalidField(absl::StrCat(field, ".is_input"), is_input.size(), " entries for ", num_tensors,
                        " saved tensors");
  }
  COTAN_RETURN_IF_ERROR(CheckAscending(absl::StrCat(field, ".donated"), donated, num_tensors, "saved tensors"));
  for (size_t i = 0; i < donated.size() && !is_input.empty(); ++i) {
    if (!is_input[static_cast<size_t>(donated[i])]) continue;
    return InvalidField(Element(absl::StrCat(field, ".donated"), i), "saved tensor ", donated[i],
                        " is an input, which the caller can see");
  }
  return ValidateDynamic(*this, absl::StrCat(field, ".dynamic_tensors"));
}

absl::StatusOr<SavedForBackward> SavedForBackward::FromProto(const serialization::SavedForBackward& proto,
                                                             absl::string_view field) {
  SavedForBackward saved;
  COTAN_ASSIGN_OR_RETURN(saved.num_tensors, ParseCount(absl::StrCat(field, ".num_tensors"), proto.num_tensors()));
  COTAN_ASSIGN_OR_RETURN(
      saved.num_tensors_without_version_check,
      ParseCount(absl::StrCat(field, ".num_tensors_without_version_check"), proto.num_tensors_without_version_check()));
  saved.is_input.assign(proto.is_input().begin(), proto.is_input().end());
  COTAN_ASSIGN_OR_RETURN(saved.donated, ParseIndexes(absl::StrCat(field, ".donated"), proto.donated()));
  for (int i = 0; i < proto.dynamic_tensors_size(); ++i) {
    const std::string element = Element(absl::StrCat(field, ".dynamic_tensors"), i);
    DynamicDims entry;
    COTAN_ASSIGN_OR_RETURN(entry.tensor,
                           ParseCount(absl::StrCat(element, ".tensor"), proto.dynamic_tensors(i).tensor()));
    COTAN_ASSIGN_OR_RETURN(entry.dims, ParseIndexes(absl::StrCat(element, ".dims"), proto.dynamic_tensors(i).dims()));
    saved.dynamic_tensors.push_back(std::move(entry));
  }
  COTAN_RETURN_IF_ERROR(saved.Validate(field));
  return saved;
}

serialization::SavedForBackward SavedForBackward::ToProto() const {
  serialization::SavedForBackward proto;
  proto.set_num_tensors(static_cast<uint32_t>(num_tensors));
  proto.set_num_tensors_without_version_check(static_cast<uint32_t>(num_tensors_without_version_check));
  for (bool value : is_input) proto.add_is_input(value);
  AddIndexes(donated, proto.mutable_donated());
  for (const DynamicDims& entry : dynamic_tensors) {
    serialization::SavedForBackward::DynamicDims* target = proto.add_dynamic_tensors();
    target->set_tensor(static_cast<uint32_t>(entry.tensor));
    AddIndexes(entry.dims, target->mutable_dims());
  }
  return proto;
}

}  // namespace cotan
