// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/synthetic_base_metadata.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/aotautograd/constant_geometry.h"
#include "aot/aotautograd/metadata_indexes.h"
#include "base/layout.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan::aot {
namespace {

// Returns the geometry of a gradient of a tensor with this layout; see TangentMeta.
TensorGeometry TangentGeometry(DType dtype, const StridedLayout& layout) {
  TensorGeometry geometry = ToGeometry(dtype, layout);
  geometry.offset = 0;
  for (size_t dim = 0; dim < layout.sizes.size(); ++dim) {
    if (layout.strides[dim] != 0 || layout.sizes[dim] <= 1) continue;
    const DimVector strides = ContiguousStrides(layout.sizes);
    geometry.strides = SymIntVector(strides.begin(), strides.end());
  }
  return geometry;
}

// Returns whether the view steps, applied to a tensor with geometry `start`, result in geometry
// `end`.
bool ProduceGeometry(absl::Span<const ViewStep> steps, const TensorGeometry& start,
                     const std::optional<TensorGeometry>& end) {
  if (!end.has_value()) return false;
  std::optional<ViewGeometry> place = ToConstant(start);
  for (const ViewStep& step : steps) {
    if (!place.has_value()) return false;
    absl::StatusOr<ViewGeometry> next = ApplyViewStep(step, *place, {});
    if (!next.ok()) return false;
    place = *std::move(next);
  }
  return place.has_value() && place == ToConstant(*end);
}

// Rewrites the metadata of unique inputs to that of the program's arguments.
class BaseMetadata {
 public:
  BaseMetadata(const ViewAndMutationMetaFields& facts, absl::Span<const InputDescription> inputs,
               absl::Span<const SyntheticBase> bases, const InputBinding& binding)
      : facts_(facts), inputs_(inputs), bases_(bases), binding_(binding) {}

  ViewAndMutationMetaFields Run();

 private:
  // Sets argument_of_.
  void NumberArguments();
  void RewriteInputs(ViewAndMutationMetaFields& result) const;
  void RewriteOutputs(ViewAndMutationMetaFields& result) const;
  void RewriteTangents(ViewAndMutationMetaFields& result) const;
  // Returns the metadata of the base as an input. Either all or none of its views are leaves, unless
  // one of them is detached.
  InputAliasInfo DescribeBase(size_t base) const;
  // Returns whether the view shares only the memory of its base, by detach().
  bool IsDetached(int view) const;
  OutputAliasInfo RebasedOutput(OutputAliasInfo info) const;

  const InputDescription& input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const InputAliasInfo& info(int i) const { return facts_.input_info[static_cast<size_t>(i)]; }

  const ViewAndMutationMetaFields& facts_;
  absl::Span<const InputDescription> inputs_;
  absl::Span<const SyntheticBase> bases_;
  const InputBinding& binding_;
  std::vector<int> argument_of_;  // per unique input; of a view: its base
};

bool BaseMetadata::IsDetached(int view) const {
  return std::get<InputBinding::BaseView>(binding_.inner_inputs[static_cast<size_t>(view)]).detached &&
         !input(view).made_under_no_grad;
}

InputAliasInfo BaseMetadata::DescribeBase(size_t base) const {
  const std::vector<int>& group = bases_[base].views;
  const auto all = [&](auto holds) { return std::all_of(group.begin(), group.end(), holds); };
  const auto any = [&](auto holds) { return std::any_of(group.begin(), group.end(), holds); };
  const auto detached = [&](int i) { return IsDetached(i); };
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
  result.is_leaf = all_leaves == any_leaf ? all_leaves : binding_.bases[base].is_leaf;
  result.keep_input_mutations = facts_.keep_input_mutations;
  return result;
}

OutputAliasInfo BaseMetadata::RebasedOutput(OutputAliasInfo info) const {
  if (!HasInputAsBase(info)) return info;
  const int input = *info.base_index;
  const InputBinding::InnerInput& inner = binding_.inner_inputs[static_cast<size_t>(input)];
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
  const TensorGeometry& base = binding_.bases[static_cast<size_t>(view.base)].geometry;
  if (!info.view_steps.empty() && (view.geometry == base || ProduceGeometry(info.view_steps, base, info.geometry)))
    return info;
  info.view_steps.clear();
  if (info.geometry.has_value() && info.geometry->dtype == base.dtype) {
    info.view_steps = {view::AsStrided{info.geometry->sizes, info.geometry->strides, info.geometry->offset}};
  }
  return info;
}

void BaseMetadata::NumberArguments() {
  for (const InputBinding::InnerInput& inner : binding_.inner_inputs) {
    const auto* argument = std::get_if<InputBinding::Argument>(&inner);
    argument_of_.push_back(argument != nullptr ? argument->index : std::get<InputBinding::BaseView>(inner).base);
  }
}

void BaseMetadata::RewriteInputs(ViewAndMutationMetaFields& result) const {
  const size_t num_arguments = static_cast<size_t>(binding_.NumArguments(static_cast<int>(inputs_.size())));
  result.input_info.assign(num_arguments, InputAliasInfo());
  for (size_t base = 0; base < bases_.size(); ++base) result.input_info[base] = DescribeBase(base);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!std::holds_alternative<InputBinding::Argument>(binding_.inner_inputs[i])) continue;
    InputAliasInfo& info = result.input_info[static_cast<size_t>(argument_of_[i])];
    info = facts_.input_info[i];
    if (!HasInputAsStorageOwner(info)) continue;
    int& owner = info.new_storage->input;
    owner = argument_of_[static_cast<size_t>(owner)];
    if (owner < binding_.num_bases()) info.new_storage->geometry = binding_.bases[static_cast<size_t>(owner)].geometry;
  }
  result.static_input_indices = RenumberedInputs(facts_.static_input_indices, argument_of_);
  result.backward_mutated_inputs = RenumberedInputs(facts_.backward_mutated_inputs, argument_of_);
  result.indices_of_inputs_to_detach.clear();
}

void BaseMetadata::RewriteOutputs(ViewAndMutationMetaFields& result) const {
  for (OutputAliasInfo& output : result.output_info) output = RebasedOutput(std::move(output));
  for (int i : binding_.aliased_inputs_with_metadata_mutations) {
    OutputAliasInfo output;
    output.output_type = OutputType::kIsInput;
    output.base_index = i;
    output.requires_grad = output.requires_grad_for_backward = info(i).requires_grad;
    result.output_info.push_back(RebasedOutput(std::move(output)));
  }
}

void BaseMetadata::RewriteTangents(ViewAndMutationMetaFields& result) const {
  result.tangents.clear();

  result.tangents.clear();
  for (const ForwardTensor& source : DerivedMetadata::Of(result).tangent_sources) {
    const bool of_base = source.kind == ForwardTensor::Kind::kMutatedInput && source.index < binding_.num_bases();
    if (of_base) {
      const size_t base = static_cast<size_t>(source.index);
      const DType dtype = binding_.bases[base].geometry.dtype;
      result.tangents.push_back({source, TangentGeometry(dtype, bases_[base].layout)});
      continue;
    }
    const auto found = std::find_if(facts_.tangents.begin(), facts_.tangents.end(), [&](const TangentMeta& tangent) {
      if (tangent.source.kind != source.kind) return false;
      if (source.kind != ForwardTensor::Kind::kMutatedInput) return tangent.source.index == source.index;
      return argument_of_[static_cast<size_t>(tangent.source.index)] == source.index;
    });
    if (found == facts_.tangents.end()) continue;
    result.tangents.push_back(*found);
    result.tangents.back().source = source;
  }
}

ViewAndMutationMetaFields BaseMetadata::Run() {
  NumberArguments();
  ViewAndMutationMetaFields result = facts_;
  RewriteInputs(result);
  RewriteOutputs(result);
  RewriteTangents(result);
  return result;
}

}  // namespace

ViewAndMutationMetaFields CreateSyntheticBaseMetadata(const ViewAndMutationMetaFields& facts,
                                                      absl::Span<const InputDescription> inputs,
                                                      absl::Span<const SyntheticBase> bases,
                                                      const InputBinding& binding) {
  return BaseMetadata(facts, inputs, bases, binding).Run();
}

void PropagateRequiresGrad(const ViewAndMutationMetaFields& second, ViewAndMutationMetaFields& facts) {
  bool has_new_gradients = false;
  for (size_t i = 0; i < second.output_info.size(); ++i) {
    if (!second.output_info[i].requires_grad || facts.output_info[i].requires_grad) continue;
    facts.output_info[i].requires_grad = has_new_gradients = true;
    facts.output_info[i].requires_grad_for_backward = second.output_info[i].requires_grad_for_backward;
  }
  if (!has_new_gradients) return;
  facts.is_train = true;
  std::vector<TangentMeta> tangents;
  for (const ForwardTensor& source : DerivedMetadata::Of(facts).tangent_sources) {
    for (const std::vector<TangentMeta>* known : {&std::as_const(facts.tangents), &second.tangents}) {
      const auto found = std::find_if(known->begin(), known->end(),
                                      [&](const TangentMeta& tangent) { return tangent.source == source; });
      if (found == known->end()) continue;
      tangents.push_back(*found);
      break;
    }
  }
  facts.tangents = std::move(tangents);
}

}  // namespace cotan::aot
