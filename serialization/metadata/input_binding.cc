// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/input_binding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

using InputBindingProto = serialization::InputBinding;

// Checks that unique inputs are numbered by first occurrence: each number exceeds the maximum before it by
// at most 1.
absl::Status ValidateDuplicates(const InputBinding& binding, absl::string_view field) {
  int next = 0;
  for (size_t i = 0; i < binding.add_dupe_map.size(); ++i) {
    const int unique = binding.add_dupe_map[i];
    if (unique < 0 || unique > next) {
      return InvalidField(Element(absl::StrCat(field, ".add_dupe_map"), i), unique, " is out of order: unique input ",
                          next, " comes next");
    }
    if (unique == next) ++next;
  }
  if (next != static_cast<int>(binding.add_dupe_map.size()) || next == 0) return absl::OkStatus();
  return InvalidField(absl::StrCat(field, ".add_dupe_map"), "must be empty, as there are no duplicates");
}

// Checks that each argument after the bases is one unique input, and that each base has a view.
absl::Status ValidateArguments(const InputBinding& binding, absl::string_view field) {
  const int num_bases = binding.num_bases();
  std::vector<int> views(static_cast<size_t>(num_bases), 0);
  std::vector<int> arguments;
  for (size_t i = 0; i < binding.inner_inputs.size(); ++i) {
    const std::string element = Element(absl::StrCat(field, ".inner_inputs"), i);
    if (const auto* view = std::get_if<InputBinding::BaseView>(&binding.inner_inputs[i])) {
      COTAN_RETURN_IF_ERROR(CheckIndex(absl::StrCat(element, ".base_view.base"), view->base, num_bases, "bases"));
      ++views[static_cast<size_t>(view->base)];
    } else {
      arguments.push_back(std::get<InputBinding::Argument>(binding.inner_inputs[i]).index);
    }
  }
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i] > 0) continue;
    return InvalidField(Element(absl::StrCat(field, ".bases"), i), "no input is a view of it");
  }
  std::sort(arguments.begin(), arguments.end());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int expected = num_bases + static_cast<int>(i);
    if (arguments[i] == expected) continue;
    return InvalidField(absl::StrCat(field, ".inner_inputs"), "program argument ", expected,
                        " is used by no input or by several; it must be used by exactly one");
  }
  if (binding.inner_inputs.empty() && num_bases > 0) {
    return InvalidField(absl::StrCat(field, ".inner_inputs"), "is empty, but there are bases");
  }
  if (!binding.inner_inputs.empty() && num_bases == 0) {
    return InvalidField(absl::StrCat(field, ".inner_inputs"), "must be empty, as there are no bases");
  }
  return absl::OkStatus();
}

absl::Status ValidateMetadataMutations(const InputBinding& binding, absl::string_view field) {
  const std::string name = absl::StrCat(field, ".aliased_inputs_with_metadata_mutations");
  const std::vector<int>& inputs = binding.aliased_inputs_with_metadata_mutations;
  COTAN_RETURN_IF_ERROR(
      CheckAscending(name, inputs, static_cast<int64_t>(binding.inner_inputs.size()), "unique inputs"));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& inner = binding.inner_inputs[static_cast<size_t>(inputs[i])];
    if (std::holds_alternative<InputBinding::BaseView>(inner)) continue;
    return InvalidField(Element(name, i), "unique input ", inputs[i], " is not a view of a base");
  }
  return absl::OkStatus();
}

absl::Status ValidateParts(const InputBinding& binding, absl::string_view field) {
  COTAN_RETURN_IF_ERROR(ValidateDuplicates(binding, field));
  COTAN_RETURN_IF_ERROR(ValidateArguments(binding, field));
  return ValidateMetadataMutations(binding, field);
}

int CountUnique(const std::vector<int>& add_dupe_map) {
  return add_dupe_map.empty() ? 0 : *std::max_element(add_dupe_map.begin(), add_dupe_map.end()) + 1;
}

absl::StatusOr<InputBinding::InnerInput> ParseInnerInput(const InputBindingProto::InnerInput& proto,
                                                         absl::string_view field) {
  switch (proto.kind_case()) {
    case InputBindingProto::InnerInput::kArgument: {
      COTAN_ASSIGN_OR_RETURN(int index, ParseCount(absl::StrCat(field, ".argument"), proto.argument()));
      return InputBinding::Argument{index};
    }
    case InputBindingProto::InnerInput::kBaseView: {
      InputBinding::BaseView view;
      const std::string name = absl::StrCat(field, ".base_view");
      COTAN_ASSIGN_OR_RETURN(view.base, ParseCount(absl::StrCat(name, ".base"), proto.base_view().base()));
      COTAN_ASSIGN_OR_RETURN(view.geometry,
                             TensorGeometry::FromProto(proto.base_view().geometry(), absl::StrCat(name, ".geometry")));
      view.detached = proto.base_view().detached();
      return view;
    }
    case InputBindingProto::InnerInput::KIND_NOT_SET:
      break;
  }
  return InvalidField(field, "is not set");
}

std::string DescribeInner(const InputBinding& binding, size_t unique) {
  const InputBinding::InnerInput& inner = binding.inner_inputs[unique];
  if (const auto* argument = std::get_if<InputBinding::Argument>(&inner)) {
    return absl::StrCat("unique input ", unique, " is argument ", argument->index);
  }
  const auto& view = std::get<InputBinding::BaseView>(inner);
  const InputBinding::Base& base = binding.bases[static_cast<size_t>(view.base)];
  return absl::StrCat("unique input ", unique, " is ", view.geometry.ToString(), " of base ", view.base, " (",
                      base.geometry.ToString(), ")", view.detached ? ", detached" : "");
}

}  // namespace

int InputBinding::NumUniqueInputs(int num_inputs) const {
  return has_duplicates() ? CountUnique(add_dupe_map) : num_inputs;
}

int InputBinding::NumArguments(int num_inputs) const {
  int result = NumUniqueInputs(num_inputs) + num_bases();
  for (const InnerInput& inner : inner_inputs) result -= std::holds_alternative<BaseView>(inner) ? 1 : 0;
  return result;
}

std::vector<bool> InputBinding::KeepArgMask(int num_inputs) const {
  std::vector<bool> mask(static_cast<size_t>(num_inputs), true);
  int next = 0;
  for (size_t i = 0; i < add_dupe_map.size(); ++i) {
    mask[i] = add_dupe_map[i] == next;
    if (mask[i]) ++next;
  }
  return mask;
}

std::vector<int> InputBinding::KeptInputs(int num_inputs) const {
  const std::vector<bool> mask = KeepArgMask(num_inputs);
  std::vector<int> kept;
  for (int i = 0; i < num_inputs; ++i) {
    if (mask[static_cast<size_t>(i)]) kept.push_back(i);
  }
  return kept;
}

absl::Status InputBinding::Validate(absl::string_view field, int num_inputs) const {
  if (has_duplicates() && add_dupe_map.size() != static_cast<size_t>(num_inputs)) {
    return InvalidField(absl::StrCat(field, ".add_dupe_map"), add_dupe_map.size(), " entries for ", num_inputs,
                        " inputs");
  }
  COTAN_RETURN_IF_ERROR(ValidateParts(*this, field));
  const int num_unique = NumUniqueInputs(num_inputs);
  if (!has_bases() || inner_inputs.size() == static_cast<size_t>(num_unique)) return absl::OkStatus();
  return InvalidField(absl::StrCat(field, ".inner_inputs"), inner_inputs.size(), " entries for ", num_unique,
                      " unique inputs");
}

absl::StatusOr<InputBinding> InputBinding::FromProto(const InputBindingProto& proto, absl::string_view field) {
  InputBinding binding;
  COTAN_ASSIGN_OR_RETURN(binding.add_dupe_map,
                         ParseIndexes(absl::StrCat(field, ".add_dupe_map"), proto.add_dupe_map()));
  for (int i = 0; i < proto.inner_inputs_size(); ++i) {
    const std::string element = Element(absl::StrCat(field, ".inner_inputs"), static_cast<size_t>(i));
    COTAN_ASSIGN_OR_RETURN(InnerInput inner, ParseInnerInput(proto.inner_inputs(i), element));
    binding.inner_inputs.push_back(std::move(inner));
  }
  for (int i = 0; i < proto.bases_size(); ++i) {
    const std::string element = Element(absl::StrCat(field, ".bases"), static_cast<size_t>(i));
    Base base;
    COTAN_ASSIGN_OR_RETURN(base.geometry, TensorGeometry::FromProto(proto.bases(i).geometry(), element + ".geometry"));
    base.requires_grad = proto.bases(i).requires_grad();
    base.is_leaf = proto.bases(i).is_leaf();
    binding.bases.push_back(std::move(base));
  }
  if (proto.num_bases() != binding.bases.size()) {
    return InvalidField(absl::StrCat(field, ".num_bases"), proto.num_bases(), ", but ", binding.bases.size(),
                        " bases are described");
  }
  COTAN_ASSIGN_OR_RETURN(binding.aliased_inputs_with_metadata_mutations,
                         ParseIndexes(absl::StrCat(field, ".aliased_inputs_with_metadata_mutations"),
                                      proto.aliased_inputs_with_metadata_mutations()));
  COTAN_RETURN_IF_ERROR(ValidateParts(binding, field));
  return binding;
}

InputBindingProto InputBinding::ToProto() const {
  InputBindingProto proto;
  AddIndexes(add_dupe_map, proto.mutable_add_dupe_map());
  for (const InnerInput& inner : inner_inputs) {
    InputBindingProto::InnerInput* target = proto.add_inner_inputs();
    if (const auto* argument = std::get_if<Argument>(&inner)) {
      target->set_argument(static_cast<uint32_t>(argument->index));
      continue;
    }
    const auto& view = std::get<BaseView>(inner);
    target->mutable_base_view()->set_base(static_cast<uint32_t>(view.base));
    *target->mutable_base_view()->mutable_geometry() = view.geometry.ToProto();
    target->mutable_base_view()->set_detached(view.detached);
  }
  proto.set_num_bases(static_cast<uint32_t>(bases.size()));
  for (const Base& base : bases) {
    InputBindingProto::Base* target = proto.add_bases();
    *target->mutable_geometry() = base.geometry.ToProto();
    target->set_requires_grad(base.requires_grad);
    target->set_is_leaf(base.is_leaf);
  }
  AddIndexes(aliased_inputs_with_metadata_mutations, proto.mutable_aliased_inputs_with_metadata_mutations());
  return proto;
}

std::string InputBinding::ToString() const {
  if (is_identity()) return "arguments as they are";
  std::vector<std::string> parts;
  const std::vector<int> kept = KeptInputs(static_cast<int>(add_dupe_map.size()));
  for (size_t i = 0; i < add_dupe_map.size(); ++i) {
    const int first = kept[static_cast<size_t>(add_dupe_map[i])];
    if (first != static_cast<int>(i)) parts.push_back(absl::StrCat("input ", i, " is input ", first));
  }
  for (size_t i = 0; i < inner_inputs.size(); ++i) parts.push_back(DescribeInner(*this, i));
  if (!aliased_inputs_with_metadata_mutations.empty()) {
    parts.push_back(absl::StrCat("metadata of unique inputs ",
                                 absl::StrJoin(aliased_inputs_with_metadata_mutations, " "), " is set by the runtime"));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace cotan
