// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/synthetic_bases.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/constant_geometry.h"
#include "aot/aotautograd/overlapping_inputs.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan::aot {
namespace {

// Indexes of unique inputs in one storage.
using Group = std::vector<int>;

// Returns groups in the order of their first inputs.
std::vector<Group> GroupByStorage(absl::Span<const InputDescription> inputs) {
  std::vector<Group> groups;
  absl::flat_hash_map<uintptr_t, size_t> group_of;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto [found, inserted] = group_of.try_emplace(inputs[i].storage, groups.size());
    if (inserted) groups.emplace_back();
    groups[found->second].push_back(static_cast<int>(i));
  }
  return groups;
}

// Returns the identity of the input's base in autograd; its own if it is not a view.
uintptr_t IdentityOfBase(const InputDescription& input) {
  return input.base.has_value() ? input.base->identity : input.identity;
}

// Groups inputs by storage and chooses a base for each group that needs one.
class BaseChooser {
 public:
  BaseChooser(const ViewAndMutationMetaFields& facts, absl::Span<const InputDescription> inputs)
      : facts_(facts), inputs_(inputs) {}

  absl::StatusOr<MergedViewInputs> Run() const;

 private:
  bool NeedsBase(const Group& group) const;
  // Returns whether the input is a leaf with a metadata mutation, of which another input is a view:
  // whether the view has a gradient then depends on whether it is used before or after the
  // mutation.
  bool MutatesMetadataOfViews(int index, const Group& group) const;
  absl::StatusOr<SyntheticBase> ChooseBase(const Group& group) const;
  // InvalidArgument: complex numbers share memory with elements of another dtype.
  absl::Status CheckNoComplexBits(const Group& group) const;
  // InvalidArgument: an input of the group is written with a value that requires grad. No single
  // tensor covers the group, so the write has no base whose grad_fn could change.
  absl::Status CheckNoDifferentiableWrite(const Group& group) const;
  // InvalidArgument: an input that shrinks (as_strided_) has views whose gradient depends on when
  // autograd reads their grad_fn.
  absl::Status CheckViewsOfShrunkInputs() const;
  // InvalidArgument: the input is a written view, and a result with a gradient is a view of elements
  // outside its final view.
  absl::Status CheckResultsInFinalView(int index) const;
  // Returns whether a result with a gradient is a view of the input and contains elements outside
  // the final view of the input.
  bool ReturnsElementsOutsideFinalView(int index) const;
  // Returns a base over the whole storage, in elements of the group's smallest dtype: those of the others consist of
  // them.
  SyntheticBase StorageBase(const Group& group) const;
  // Returns the base of the view in autograd.
  SyntheticBase AutogradBase(const InputDescription& view) const;
  // Returns the common base in autograd of all inputs of the group that require grad, or of all
  // inputs if none does; 0 if they have different bases.
  absl::StatusOr<uintptr_t> CommonBase(const Group& group) const;

  const InputDescription& input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const InputAliasInfo& info(int i) const { return facts_.input_info[static_cast<size_t>(i)]; }

  const ViewAndMutationMetaFields& facts_;
  absl::Span<const InputDescription> inputs_;
};

// Returns whether the function mutates the metadata of the input (as_strided_) such that its final
// view does not cover `layout`.
bool ShrinksBelow(const InputAliasInfo& info, const StridedLayout& layout) {
  if (!info.mutates_metadata || info.mutates_storage_metadata || !info.geometry_after.has_value()) return false;
  const std::optional<ViewGeometry> after = ToConstant(*info.geometry_after);
  return after.has_value() && !Covers(after->layout, layout);
}

bool BaseChooser::ReturnsElementsOutsideFinalView(int index) const {
  return std::any_of(facts_.output_info.begin(), facts_.output_info.end(), [&](const OutputAliasInfo& output) {
    const bool is_view = output.output_type == OutputType::kAliasOfInput && output.requires_grad &&
                         *output.base_index == index && output.geometry.has_value();
    const std::optional<ViewGeometry> geometry = is_view ? ToConstant(*output.geometry) : std::nullopt;
    return geometry.has_value() && ShrinksBelow(info(index), geometry->layout);
  });
}

bool BaseChooser::MutatesMetadataOfViews(int index, const Group& group) const {
  const InputDescription& leaf = input(index);
  const bool is_mutated_leaf = leaf.has_metadata_mutation && leaf.is_leaf && leaf.requires_grad;
  if (!is_mutated_leaf || info(index).mutates_storage_metadata) return false;
  return std::any_of(group.begin(), group.end(), [&](int i) {
    const InputDescription& view = input(i);
    return view.requires_grad && !view.made_under_no_grad && view.dtype == leaf.dtype && view.base.has_value() &&
           view.base->identity == leaf.identity;
  });
}

bool BaseChooser::NeedsBase(const Group& group) const {
  if (std::any_of(group.begin(), group.end(), [&](int i) { return MutatesMetadataOfViews(i, group); })) return true;
  if (std::none_of(group.begin(), group.end(), [this](int i) { return info(i).mutates_data; })) return false;
  // Hidden writes are visible in the base only.
  if (std::any_of(group.begin(), group.end(), [this](int i) { return input(i).has_hidden_writes; })) return true;
  for (size_t i = 0; i < group.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (MayOverlap(input(group[i]), input(group[j]))) return true;
    }
  }
  return false;
}

SyntheticBase BaseChooser::StorageBase(const Group& group) const {
  const int smallest = *std::min_element(
      group.begin(), group.end(), [this](int a, int b) { return ByteSize(input(a).dtype) < ByteSize(input(b).dtype); });
  SyntheticBase chosen;
  chosen.layout = {{input(smallest).storage_elements}, {1}, 0};
  chosen.base = {ToGeometry(input(smallest).dtype, chosen.layout), /*requires_grad=*/false, /*is_leaf=*/true};
  return chosen;
}

SyntheticBase BaseChooser::AutogradBase(const InputDescription& view) const {
  SyntheticBase chosen;
  chosen.identity = IdentityOfBase(view);
  if (view.base.has_value()) {
    chosen.layout = view.base->layout;
    chosen.base = {ToGeometry(view.base->dtype, chosen.layout), view.base->requires_grad, view.base->is_leaf};
  } else {
    chosen.layout = view.layout;
    chosen.base = {ToGeometry(view.dtype, chosen.layout), view.requires_grad, view.is_leaf};
  }
  return chosen;
}

absl::StatusOr<uintptr_t> BaseChooser::CommonBase(const Group& group) const {
  uintptr_t base = 0;
  for (int i : group) {
    if (!input(i).requires_grad) continue;
    if (base != 0 && base != IdentityOfBase(input(i))) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i,
                       " shares memory that is written to with another input that requires grad, but they "
                       "are views of different tensors: non-differentiable view input mutations are not supported"));
    }
    base = IdentityOfBase(input(i));
  }
  if (base != 0) return base;
  const uintptr_t first = IdentityOfBase(input(group[0]));
  const bool common = std::all_of(group.begin(), group.end(), [&](int i) { return IdentityOfBase(input(i)) == first; });
  return common ? first : 0;
}

absl::Status BaseChooser::CheckNoDifferentiableWrite(const Group& group) const {
  for (size_t k = 0; k < group.size(); ++k) {
    if (info(group[k]).history != GradFnChange::kNew) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", group[k], " is written with what requires grad, and shares memory with input ", group[k == 0 ? 1 : 0],
        ", but they are different tensors in autograd: pass views of one tensor, "
        "or return the result instead"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SyntheticBase> BaseChooser::ChooseBase(const Group& group) const {
  COTAN_RETURN_IF_ERROR(CheckNoComplexBits(group));
  COTAN_ASSIGN_OR_RETURN(const uintptr_t identity, CommonBase(group));
  if (identity == 0) {
    COTAN_RETURN_IF_ERROR(CheckNoDifferentiableWrite(group));
    return StorageBase(group);
  }
  const auto view =
      std::find_if(group.begin(), group.end(), [&](int i) { return IdentityOfBase(input(i)) == identity; });
  SyntheticBase chosen = AutogradBase(input(*view));
  const DType dtype = chosen.base.geometry.dtype;
  const bool has_other_dtypes = std::any_of(group.begin(), group.end(), [&](int i) { return input(i).dtype != dtype; });
  if (!has_other_dtypes) return chosen;
  if (!chosen.base.requires_grad) return StorageBase(group);
  // A gradient goes through views of the base's dtype only.
  for (int i : group) {
    if (input(i).dtype == dtype || (!input(i).requires_grad && !IsComplex(dtype))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", i, " (", DTypeName(input(i).dtype), ") shares memory that is written to and is a view of a ",
        DTypeName(dtype), " tensor: input mutations on differentiable views with different dtypes are not supported"));
  }
  return chosen;
}

absl::Status BaseChooser::CheckNoComplexBits(const Group& group) const {
  const DType dtype = input(group[0]).dtype;
  for (int i : group) {
    if (input(i).dtype == dtype || (!IsComplex(input(i).dtype) && !IsComplex(dtype))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "inputs ", group[0], " (", DTypeName(dtype), ") and ", i, " (", DTypeName(input(i).dtype),
        ") share memory that is written to: input mutations on complex views with different dtypes are not "
        "supported; take the view inside"));
  }
  return absl::OkStatus();
}

// If an input shrinks (as_strided_), autograd regenerates the grad_fn of its views from the new
// geometry. A view whose grad_fn is read after the mutation gets a gradient of the remaining
// elements only; if it was read before, of all elements.
absl::Status BaseChooser::CheckViewsOfShrunkInputs() const {
  if (!facts_.is_train) return absl::OkStatus();
  const int count = static_cast<int>(inputs_.size());
  for (int i = 0; i < count; ++i) {
    COTAN_RETURN_IF_ERROR(CheckResultsInFinalView(i));
    if (!info(i).mutates_metadata) continue;  // it does not shrink
    for (int j = 0; j < count; ++j) {
      const bool is_view = input(j).requires_grad && input(j).base.has_value() &&
                           input(j).base->identity == input(i).identity && input(j).dtype == input(i).dtype;
      if (!is_view || !ShrinksBelow(info(i), input(j).layout)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, "'s final view (as_strided_) does not contain elements of input ", j,
                       ", which is a view of it: the result depends on when autograd reads its grad_fn first; pass a "
                       "clone, or take the view inside"));
    }
  }
  return absl::OkStatus();
}

absl::Status BaseChooser::CheckResultsInFinalView(int index) const {
  // Views of this input are views of the base of the caller, whose metadata does not change.
  const bool is_tracked_view = input(index).requires_grad && input(index).base.has_value();
  if (!is_tracked_view || !info(index).mutates_data || !ReturnsElementsOutsideFinalView(index)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "input ", index,
      ", which is a view, is written, and its final view does not contain elements of a result that is a ",
      "view of it: their gradient comes from its base; pass a clone, or the base, and take the view inside"));
}

absl::StatusOr<MergedViewInputs> BaseChooser::Run() const {
  COTAN_RETURN_IF_ERROR(CheckViewsOfShrunkInputs());
  MergedViewInputs merged;
  for (Group& group : GroupByStorage(inputs_)) {
    if (!NeedsBase(group)) {
      merged.arguments.insert(merged.arguments.end(), group.begin(), group.end());
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(SyntheticBase chosen, ChooseBase(group));
    chosen.views = std::move(group);
    merged.bases.push_back(std::move(chosen));
  }
  return merged;
}

}  // namespace

absl::StatusOr<MergedViewInputs> MergeViewInputs(const ViewAndMutationMetaFields& facts,
                                                 absl::Span<const InputDescription> inputs) {
  return BaseChooser(facts, inputs).Run();
}

void BindSyntheticBases(const MergedViewInputs& merged, const ViewAndMutationMetaFields& facts,
                        absl::Span<const InputDescription> inputs, InputBinding& binding) {
  std::vector<int>& with_metadata_mutations = binding.aliased_inputs_with_metadata_mutations;
  // Clang finds no default constructor for a variant of nested structs.
  binding.inner_inputs.resize(inputs.size(), InputBinding::Argument{});
  for (const SyntheticBase& chosen : merged.bases) {
    const int base = binding.num_bases();
    binding.bases.push_back(chosen.base);
    for (int i : chosen.views) {
      const InputDescription& input = inputs[static_cast<size_t>(i)];
      const bool detached =
          chosen.base.requires_grad && (input.made_under_no_grad || IdentityOfBase(input) != chosen.identity);
      binding.inner_inputs[static_cast<size_t>(i)] =
          InputBinding::BaseView{base, ToGeometry(input.dtype, input.layout), detached};
      if (facts.input_info[static_cast<size_t>(i)].mutates_metadata) with_metadata_mutations.push_back(i);
    }
  }
  std::sort(with_metadata_mutations.begin(), with_metadata_mutations.end());
  int next = binding.num_bases();
  for (int i : merged.arguments) binding.inner_inputs[static_cast<size_t>(i)] = InputBinding::Argument{next++};
}

}  // namespace cotan::aot
