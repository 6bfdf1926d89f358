// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/input_binding.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan::aot {
namespace {

SymIntVector ToSymInts(absl::Span<const int64_t> values) { return SymIntVector(values.begin(), values.end()); }

TensorGeometry Geometry(DType dtype, const StridedLayout& layout) {
  return {dtype, ToSymInts(layout.sizes), ToSymInts(layout.strides), SymInt(layout.offset)};
}

// Returns the geometry of a gradient of a tensor with this layout; see TangentMeta.
TensorGeometry TangentGeometry(DType dtype, const StridedLayout& layout) {
  TensorGeometry geometry = Geometry(dtype, layout);
  geometry.offset = 0;
  for (size_t dim = 0; dim < layout.sizes.size(); ++dim) {
    if (layout.strides[dim] == 0 && layout.sizes[dim] > 1)
      geometry.strides = ToSymInts(ContiguousStrides(layout.sizes));
  }
  return geometry;
}

// Returns the geometry with constant sizes; unset if any of it is symbolic.
std::optional<ViewGeometry> Constant(const TensorGeometry& geometry) {
  ViewGeometry constant = {geometry.dtype, {}};
  const auto copy = [](const SymIntVector& from, auto& to) {
    for (const SymInt& value : from) {
      if (!value.is_constant()) return false;
      to.push_back(value.constant());
    }
    return true;
  };
  if (!copy(geometry.sizes, constant.layout.sizes) || !copy(geometry.strides, constant.layout.strides)) return {};
  if (!geometry.offset.is_constant()) return {};
  constant.layout.offset = geometry.offset.constant();
  return constant;
}

// Returns whether the view steps, applied to a tensor with geometry `start`, result in geometry
// `end`.
bool LeadTo(absl::Span<const ViewStep> steps, const TensorGeometry& start, const std::optional<TensorGeometry>& end) {
  if (!end.has_value()) return false;
  std::optional<ViewGeometry> place = Constant(start);
  for (const ViewStep& step : steps) {
    if (!place.has_value()) return false;
    absl::StatusOr<ViewGeometry> next = ApplyViewStep(step, *place, {});
    if (!next.ok()) return false;
    place = *std::move(next);
  }
  return place.has_value() && place == Constant(*end);
}

// Returns for each input its index among the unique inputs (add_dupe_map); empty if no duplicate
// needs to be removed.
std::vector<int> FindDuplicates(const ViewAndMutationMetaFields& facts, absl::Span<const InputDescription> inputs) {
  absl::flat_hash_map<uintptr_t, int> unique_of;
  std::vector<int> map;
  bool needed = false;
  int next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto [found, inserted] = unique_of.try_emplace(inputs[i].identity, next);
    if (inserted) ++next;
    map.push_back(found->second);
    const InputAliasInfo& info = facts.input_info[i];
    const bool is_new_leaf = info.history == GradFnChange::kNewLeaf;
    needed |= !inserted && (info.mutates_data || info.mutates_metadata || is_new_leaf || inputs[i].is_moved);
  }
  return needed ? map : std::vector<int>();
}

// Returns whether base_index of the output is an index of inputs.
bool HasInputAsBase(const OutputAliasInfo& info) {
  return info.base_index.has_value() && !IsAliasOfIntermediate(info.output_type);
}

// Maps `inputs` by `new_index`, without those that map to -1; ascending, each once.
std::vector<int> RenumberedInputs(const std::vector<int>& inputs, const std::vector<int>& new_index) {
  std::vector<int> result;
  for (int input : inputs) {
    if (new_index[static_cast<size_t>(input)] >= 0) result.push_back(new_index[static_cast<size_t>(input)]);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Clears storage sharing: the metadata describes it for tensors of the caller only, not for the
// arguments and results of the program.
void ClearSharedStorage(ViewAndMutationMetaFields& facts) {
  for (OutputAliasInfo& info : facts.output_info) {
    info.shared_storage.reset();
    info.non_alias_view.reset();
    if (IsFreshMemory(info.output_type)) info.view_steps.clear();
  }
}

bool HasOwner(const InputAliasInfo& info) {
  return info.new_storage.has_value() && info.new_storage->owner != NewStorage::Owner::kProgram;
}

ViewAndMutationMetaFields WithoutDuplicates(const ViewAndMutationMetaFields& facts, const InputBinding& binding) {
  ViewAndMutationMetaFields result = facts;
  const std::vector<int>& map = binding.add_dupe_map;
  const std::vector<bool> keep = binding.KeepArgMask(static_cast<int>(map.size()));
  result.input_info.clear();
  for (int input : binding.KeptInputs(static_cast<int>(map.size()))) {
    result.input_info.push_back(facts.input_info[static_cast<size_t>(input)]);
  }
  for (InputAliasInfo& info : result.input_info) {
    if (HasOwner(info)) info.new_storage->input = map[static_cast<size_t>(info.new_storage->input)];
  }
  for (OutputAliasInfo& info : result.output_info) {
    if (HasInputAsBase(info)) info.base_index = map[static_cast<size_t>(*info.base_index)];
  }
  result.tangents.clear();
  for (TangentMeta tangent : facts.tangents) {
    if (tangent.source.kind == ForwardTensor::Kind::kMutatedInput) {
      const size_t input = static_cast<size_t>(tangent.source.index);
      if (!keep[input]) continue;
      tangent.source.index = map[input];
    }
    result.tangents.push_back(std::move(tangent));
  }
  result.static_input_indices = RenumberedInputs(facts.static_input_indices, map);
  result.backward_mutated_inputs = RenumberedInputs(facts.backward_mutated_inputs, map);
  result.indices_of_inputs_to_detach = RenumberedInputs(facts.indices_of_inputs_to_detach, map);
  return result;
}

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
uintptr_t RootOf(const InputDescription& input) {
  return input.base.has_value() ? input.base->identity : input.identity;
}

// The synthetic base of a group.
struct ChosenBase {
  InputBinding::Base base;
  StridedLayout layout;
  uintptr_t root = 0;  // RootOf() its views; 0: the whole storage, without a gradient
};

// Chooses synthetic bases and rewrites the metadata to them.
class BaseBinder {
 public:
  BaseBinder(const ViewAndMutationMetaFields& facts, absl::Span<const InputDescription> inputs)
      : facts_(facts), inputs_(inputs) {}

  // Sets the bases and inner inputs of `bound.binding`. `bound.program_facts` are those of the
  // unique inputs; they are rewritten if there are bases.
  absl::Status Bind(BoundInputs& bound);

 private:
  bool NeedsBase(const Group& group) const;
  // Returns whether the input is a leaf with a metadata mutation, of which another input is a view:
  // whether the view has a gradient then depends on whether it is used before or after the
  // mutation.
  bool MutatesMetadataOfViews(int index, const Group& group) const;
  absl::StatusOr<ChosenBase> ChooseBase(const Group& group) const;
  absl::Status CheckNoHistory(const Group& group) const;
  absl::Status CheckViewsOfMoved() const;
  // Returns whether a result with a gradient is a view of the input and contains elements outside
  // the final view of the input.
  bool ReturnsElementsOutsideFinalView(int index) const;
  // Returns a base over the whole storage.
  ChosenBase StorageBase(const InputDescription& example) const;
  // Returns the base of the view in autograd.
  ChosenBase RootBase(const InputDescription& view) const;
  // Returns the common root of all inputs of the group that require grad, or of all inputs if none
  // does; 0 if they have different roots.
  absl::StatusOr<uintptr_t> CommonRoot(const Group& group) const;

  InputAliasInfo DescribeBase(const Group& group, const InputBinding& binding, int base) const;
  ViewAndMutationMetaFields ProgramFacts(const InputBinding& binding) const;
  OutputAliasInfo RebasedOutput(OutputAliasInfo info, const InputBinding& binding) const;

  const InputDescription& input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const InputAliasInfo& info(int i) const { return facts_.input_info[static_cast<size_t>(i)]; }

  const ViewAndMutationMetaFields& facts_;
  absl::Span<const InputDescription> inputs_;
  std::vector<Group> merged_;       // per base
  std::vector<ChosenBase> chosen_;  // per base
};

// Returns whether two inputs in one storage may share elements.
bool MayOverlap(const InputDescription& a, const InputDescription& b) {
  if (a.dtype == b.dtype) return !DefinitelyDisjoint(a.layout, b.layout);
  return LayoutsOverlap(a.layout, static_cast<int64_t>(ByteSize(a.dtype)), b.layout,
                        static_cast<int64_t>(ByteSize(b.dtype)));
}

// Returns whether the function mutates the metadata of the input (as_strided_) such that its final
// view does not cover `layout`.
bool ShrinksBelow(const InputAliasInfo& info, const StridedLayout& layout) {
  if (!info.mutates_metadata || info.mutates_storage_metadata || !info.geometry_after.has_value()) return false;
  const std::optional<ViewGeometry> after = Constant(*info.geometry_after);
  return after.has_value() && !Covers(after->layout, layout);
}

bool BaseBinder::ReturnsElementsOutsideFinalView(int index) const {
  return std::any_of(facts_.output_info.begin(), facts_.output_info.end(), [&](const OutputAliasInfo& output) {
    const bool is_view = output.output_type == OutputType::kAliasOfInput && output.requires_grad &&
                         *output.base_index == index && output.geometry.has_value();
    const std::optional<ViewGeometry> geometry = is_view ? Constant(*output.geometry) : std::nullopt;
    return geometry.has_value() && ShrinksBelow(info(index), geometry->layout);
  });
}

bool BaseBinder::MutatesMetadataOfViews(int index, const Group& group) const {
  const InputDescription& leaf = input(index);
  if (!leaf.is_moved || !leaf.is_leaf || !leaf.requires_grad || info(index).mutates_storage_metadata) return false;
  return std::any_of(group.begin(), group.end(), [&](int i) {
    const InputDescription& view = input(i);
    return view.requires_grad && !view.made_under_no_grad && view.dtype == leaf.dtype && view.base.has_value() &&
           view.base->identity == leaf.identity;
  });
}

bool BaseBinder::NeedsBase(const Group& group) const {
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

ChosenBase BaseBinder::StorageBase(const InputDescription& example) const {
  ChosenBase chosen;
  chosen.layout = {{example.storage_elements}, {1}, 0};
  chosen.base = {Geometry(example.dtype, chosen.layout), /*requires_grad=*/false, /*is_leaf=*/true};
  return chosen;
}

ChosenBase BaseBinder::RootBase(const InputDescription& view) const {
  ChosenBase chosen;
  chosen.root = RootOf(view);
  if (view.base.has_value()) {
    chosen.layout = view.base->layout;
    chosen.base = {Geometry(view.base->dtype, chosen.layout), view.base->requires_grad, view.base->is_leaf};
  } else {
    chosen.layout = view.layout;
    chosen.base = {Geometry(view.dtype, chosen.layout), view.requires_grad, view.is_leaf};
  }
  return chosen;
}

absl::StatusOr<uintptr_t> BaseBinder::CommonRoot(const Group& group) const {
  uintptr_t root = 0;
  for (int i : group) {
    if (!input(i).requires_grad) continue;
    if (root != 0 && root != RootOf(input(i))) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i,
                       " shares memory that is written to with another input that requires grad, but they "
                       "are views of different tensors: non-differentiable view input mutations are not supported"));
    }
    root = RootOf(input(i));
  }
  if (root != 0) return root;
  const uintptr_t first = RootOf(input(group[0]));
  const bool common = std::all_of(group.begin(), group.end(), [&](int i) { return RootOf(input(i)) == first; });
  return common ? first : 0;
}

// No single tensor covers the group, so a differentiable write has no base whose grad_fn could
// change.
absl::Status BaseBinder::CheckNoHistory(const Group& group) const {
  for (size_t k = 0; k < group.size(); ++k) {
    if (info(group[k]).history != GradFnChange::kNew) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", group[k], " is written with what requires grad, and shares memory with input ", group[k == 0 ? 1 : 0],
        ", but they are different tensors in autograd: pass views of one tensor, "
        "or return the result instead"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChosenBase> BaseBinder::ChooseBase(const Group& group) const {
  const InputDescription& first = input(group[0]);
  for (int i : group) {
    if (input(i).dtype == first.dtype) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("inputs ", group[0], " (", DTypeName(first.dtype), ") and ", i, " (", DTypeName(input(i).dtype),
                     ") share memory that is written to: input mutations on views with different dtypes are not "
                     "supported"));
  }
  COTAN_ASSIGN_OR_RETURN(const uintptr_t root, CommonRoot(group));
  if (root == 0) {
    COTAN_RETURN_IF_ERROR(CheckNoHistory(group));
    return StorageBase(first);
  }
  const auto view = std::find_if(group.begin(), group.end(), [&](int i) { return RootOf(input(i)) == root; });
  ChosenBase chosen = RootBase(input(*view));
  if (chosen.base.geometry.dtype == first.dtype) return chosen;
  if (!chosen.base.requires_grad) return StorageBase(first);
  return absl::InvalidArgumentError(
      absl::StrCat("input ", *view, " (", DTypeName(first.dtype),
                   ") shares memory that is written to and is a view of a ", DTypeName(chosen.base.geometry.dtype),
                   " tensor: input mutations on views with different dtypes are not supported"));
}

// Returns the metadata of the base as an input. Either all or none of its views are leaves, unless
// one of them is detached.
InputAliasInfo BaseBinder::DescribeBase(const Group& group, const InputBinding& binding, int base) const {
  const auto all = [&](auto holds) { return std::all_of(group.begin(), group.end(), holds); };
  const auto any = [&](auto holds) { return std::any_of(group.begin(), group.end(), holds); };
  const auto detached = [&](int i) {
    return std::get<InputBinding::BaseView>(binding.inner_inputs[static_cast<size_t>(i)]).detached &&
           !input(i).made_under_no_grad;
  };
  const auto mutates_visibly = [&](int i) {
    return info(i).mutates_data && !info(i).mutations_under_no_grad_or_inference_mode && !detached(i);
  };
  InputAliasInfo result;
  result.mutates_data = any([&](int i) { return info(i).mutates_data; });
  result.mutations_hidden_from_autograd = all([&](int i) { return info(i).mutations_hidden_from_autograd; });
  result.mutations_under_no_grad_or_inference_mode =
      result.mutates_data && (all([&](int i) { return info(i).mutations_under_no_grad_or_inference_mode; }) ||
                              (any(detached) && !any(mutates_visibly)));
  result.mutation_inductor_storage_resize = all([&](int i) { return info(i).mutation_inductor_storage_resize; });
  result.requires_grad = any([&](int i) { return info(i).requires_grad; });
  if (any([&](int i) { return info(i).history == GradFnChange::kNew; })) {
    result.history = GradFnChange::kNew;
  } else if (any([&](int i) { return info(i).mutates_data && info(i).history == GradFnChange::kKept; })) {
    result.history = GradFnChange::kKept;
  }
  const bool all_leaves = all([&](int i) { return info(i).is_leaf; });
  const bool any_leaf = any([&](int i) { return info(i).is_leaf; });
  result.is_leaf = all_leaves == any_leaf ? all_leaves : binding.bases[static_cast<size_t>(base)].is_leaf;
  result.keep_input_mutations = facts_.keep_input_mutations;
  return result;
}

OutputAliasInfo BaseBinder::RebasedOutput(OutputAliasInfo info, const InputBinding& binding) const {
  if (!HasInputAsBase(info)) return info;
  const int input = *info.base_index;
  const InputBinding::InnerInput& inner = binding.inner_inputs[static_cast<size_t>(input)];
  if (const auto* argument = std::get_if<InputBinding::Argument>(&inner)) {
    info.base_index = argument->index;
    return info;
  }
  const auto& view = std::get<InputBinding::BaseView>(inner);
  info.base_index = view.base;
  if (!IsAliasOfInput(info.output_type)) return info;
  if (info.output_type == OutputType::kIsInput) {
    info.geometry = this->info(input).geometry_after.value_or(view.geometry);
  }
  // The view steps start at the input. If they do not give the same geometry from the base,
  // as_strided replaces them.
  info.output_type = OutputType::kAliasOfInput;
  const TensorGeometry& base = binding.bases[static_cast<size_t>(view.base)].geometry;
  if (!info.view_steps.empty() && (view.geometry == base || LeadTo(info.view_steps, base, info.geometry))) return info;
  info.view_steps.clear();
  if (info.geometry.has_value() && info.geometry->dtype == view.geometry.dtype) {
    info.view_steps = {view::AsStrided{info.geometry->sizes, info.geometry->strides, info.geometry->offset}};
  }
  return info;
}

ViewAndMutationMetaFields BaseBinder::ProgramFacts(const InputBinding& binding) const {
  ViewAndMutationMetaFields result = facts_;
  const size_t num_arguments = static_cast<size_t>(binding.NumArguments(static_cast<int>(inputs_.size())));
  result.input_info.assign(num_arguments, InputAliasInfo());
  std::vector<int> argument_of;  // per unique input; a base for its views
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (const auto* argument = std::get_if<InputBinding::Argument>(&binding.inner_inputs[i])) {
      argument_of.push_back(argument->index);
      result.input_info[static_cast<size_t>(argument->index)] = facts_.input_info[i];
    } else {
      argument_of.push_back(std::get<InputBinding::BaseView>(binding.inner_inputs[i]).base);
    }
  }
  for (InputAliasInfo& info : result.input_info) {
    if (!HasOwner(info)) continue;
    int& owner = info.new_storage->input;
    owner = argument_of[static_cast<size_t>(owner)];
    if (owner < binding.num_bases()) info.new_storage->geometry = binding.bases[static_cast<size_t>(owner)].geometry;
  }
  for (size_t base = 0; base < merged_.size(); ++base) {
    result.input_info[base] = DescribeBase(merged_[base], binding, static_cast<int>(base));
  }
  for (OutputAliasInfo& output : result.output_info) output = RebasedOutput(std::move(output), binding);
  for (int i : binding.aliased_inputs_with_metadata_mutations) {
    OutputAliasInfo output;
    output.output_type = OutputType::kIsInput;
    output.base_index = i;
    output.requires_grad = output.requires_grad_for_backward = info(i).requires_grad;
    result.output_info.push_back(RebasedOutput(std::move(output), binding));
  }
  result.static_input_indices = RenumberedInputs(facts_.static_input_indices, argument_of);
  result.backward_mutated_inputs = RenumberedInputs(facts_.backward_mutated_inputs, argument_of);
  result.indices_of_inputs_to_detach.clear();

  result.tangents.clear();
  for (const ForwardTensor& source : DerivedMetadata::Of(result).tangent_sources) {
    const bool of_base = source.kind == ForwardTensor::Kind::kMutatedInput && source.index < binding.num_bases();
    if (of_base) {
      const size_t base = static_cast<size_t>(source.index);
      const DType dtype = binding.bases[base].geometry.dtype;
      result.tangents.push_back({source, TangentGeometry(dtype, chosen_[base].layout), ""});
      continue;
    }
    const auto found = std::find_if(facts_.tangents.begin(), facts_.tangents.end(), [&](const TangentMeta& tangent) {
      if (tangent.source.kind != source.kind) return false;
      if (source.kind != ForwardTensor::Kind::kMutatedInput) return tangent.source.index == source.index;
      return argument_of[static_cast<size_t>(tangent.source.index)] == source.index;
    });
    if (found == facts_.tangents.end()) continue;
    result.tangents.push_back(*found);
    result.tangents.back().source = source;
  }
  return result;
}

// If an input shrinks (as_strided_), autograd regenerates the grad_fn of its views from the new
// geometry. A view whose grad_fn is read after the mutation gets a gradient of the remaining
// elements only; if it was read before, of all elements. Reports inputs that depend on this order.
absl::Status BaseBinder::CheckViewsOfMoved() const {
  const int count = static_cast<int>(inputs_.size());
  for (int i = 0; i < count && facts_.is_train; ++i) {
    // Views of this input are views of the base of the caller, whose metadata does not change.
    const bool is_tracked_view = input(i).requires_grad && input(i).base.has_value();
    if (is_tracked_view && info(i).mutates_data && ReturnsElementsOutsideFinalView(i)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i,
          ", which is a view, is written, and its final view does not contain elements of a result that is a ",
          "view of it: their gradient comes from its base; pass a clone, or the base, and take the view inside"));
    }
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

absl::Status BaseBinder::Bind(BoundInputs& bound) {
  COTAN_RETURN_IF_ERROR(CheckViewsOfMoved());
  InputBinding& binding = bound.binding;
  std::vector<Group> others;
  for (Group& group : GroupByStorage(inputs_)) {
    if (!NeedsBase(group)) {
      others.push_back(std::move(group));
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(ChosenBase chosen, ChooseBase(group));
    chosen_.push_back(std::move(chosen));
    merged_.push_back(std::move(group));
  }
  if (merged_.empty()) return absl::OkStatus();

  binding.inner_inputs.resize(inputs_.size());
  for (size_t base = 0; base < merged_.size(); ++base) {
    binding.bases.push_back(chosen_[base].base);
    for (int i : merged_[base]) {
      const bool detached =
          chosen_[base].base.requires_grad && (input(i).made_under_no_grad || RootOf(input(i)) != chosen_[base].root);
      binding.inner_inputs[static_cast<size_t>(i)] =
          InputBinding::BaseView{static_cast<int>(base), Geometry(input(i).dtype, input(i).layout), detached};
      if (info(i).mutates_metadata) binding.aliased_inputs_with_metadata_mutations.push_back(i);
    }
  }
  std::sort(binding.aliased_inputs_with_metadata_mutations.begin(),
            binding.aliased_inputs_with_metadata_mutations.end());
  int next = binding.num_bases();
  for (const Group& group : others) {
    for (int i : group) binding.inner_inputs[static_cast<size_t>(i)] = InputBinding::Argument{next++};
  }
  bound.program_facts = ProgramFacts(binding);
  return absl::OkStatus();
}

}  // namespace

bool DefinitelyDisjoint(const StridedLayout& a, const StridedLayout& b) {
  if (NumElements(a.sizes) == 0 || NumElements(b.sizes) == 0) return true;
  const StridedLayout& left = a.offset <= b.offset ? a : b;
  const StridedLayout& right = a.offset <= b.offset ? b : a;
  if (StorageExtent(left) <= right.offset) return true;
  // Column ranges of the same row-major matrix may be disjoint.
  const bool rows = left.rank() == 2 && right.rank() == 2 && left.strides[1] == 1 && right.strides[1] == 1 &&
                    left.strides[0] == right.strides[0] && left.strides[0] > 0;
  if (!rows) return false;
  const int64_t distance = (right.offset - left.offset) % left.strides[0];
  return right.offset - left.offset >= left.sizes[1] && distance >= left.sizes[1] &&
         distance + right.sizes[1] <= left.strides[0];
}

absl::StatusOr<BoundInputs> BindInputs(const ViewAndMutationMetaFields& facts,
                                       absl::Span<const InputDescription> inputs) {
  if (facts.input_info.size() != inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(inputs.size(), " inputs are described, but the function has ", facts.input_info.size()));
  }
  BoundInputs bound;
  bound.program_facts = facts;
  bound.binding.add_dupe_map = FindDuplicates(facts, inputs);
  std::vector<InputDescription> unique(inputs.begin(), inputs.end());
  if (bound.binding.has_duplicates()) {
    unique.clear();
    for (int i : bound.binding.KeptInputs(static_cast<int>(inputs.size()))) {
      unique.push_back(inputs[static_cast<size_t>(i)]);
    }
    bound.program_facts = WithoutDuplicates(facts, bound.binding);
  }
  const ViewAndMutationMetaFields unique_facts = bound.program_facts;
  COTAN_RETURN_IF_ERROR(BaseBinder(unique_facts, unique).Bind(bound));
  if (!bound.binding.is_identity()) ClearSharedStorage(bound.program_facts);
  COTAN_RETURN_IF_ERROR(bound.binding.Validate("input_binding", static_cast<int>(inputs.size())));
  COTAN_RETURN_IF_ERROR(bound.program_facts.Validate());
  return bound;
}

}  // namespace cotan::aot
