// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/returned_values.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "runtime/function/core/function_metadata.h"

namespace cotan {
namespace {

class Builder {
 public:
  explicit Builder(const FunctionMetadata& function) : function_(function) {}

  ReturnedValues Build() {
    AddValues();
    AddStorageOwners();
    return std::move(returned_);
  }

 private:
  ReturnedValue& At(int index) { return returned_.values[static_cast<size_t>(index)]; }
  int num_outputs() const { return function_.metadata.num_outputs(); }

  void AddValues() {
    returned_.of_outputs.assign(static_cast<size_t>(num_outputs()), -1);
    int tangent = 0;
    const DerivedMetadata& derived = function_.program_metadata.derived();
    for (const ForwardReturn& forward_return : derived.forward_returns) {
      ReturnedValue value;
      if (tangent < function_.num_tangents() &&
          derived.tangent_sources[static_cast<size_t>(tangent)] == forward_return.tensor) {
        value.tangent = tangent++;
      }
      if (!forward_return.is_tensor_alias) AddValue(forward_return.tensor, std::move(value));
    }
  }

  void AddValue(const ForwardTensor& tensor, ReturnedValue value) {
    using Kind = ReturnedValue::Kind;
    const auto index = static_cast<int>(returned_.values.size());
    switch (tensor.kind) {
      case ForwardTensor::Kind::kMutatedInput:
        value.kind = Kind::kArgument;
        value.argument = tensor.index;
        if (!function_.IsState(tensor.index)) value.result = returned_.num_results++;
        break;
      case ForwardTensor::Kind::kOutput: {
        if (tensor.index >= num_outputs()) return;
        const OutputAliasInfo& info = function_.metadata.output(tensor.index);
        if (!info.is_tensor()) return;
        value.result = returned_.num_results++;
        value.is_leaf_that_requires_grad = info.is_new_leaf || (info.requires_grad && !info.requires_grad_for_backward);
        if (IsReturnedElsewhere(info)) {
          value.kind = Kind::kReturnedElsewhere;
        } else {
          returned_.of_outputs[static_cast<size_t>(tensor.index)] = index;
        }
        break;
      }
      case ForwardTensor::Kind::kIntermediateBase:
        value.result = returned_.num_results++;
        returned_.of_bases.push_back(index);
        break;
    }
    returned_.values.push_back(std::move(value));
  }

  void AddStorageOwners() {
    for (int i = 0; i < num_outputs(); ++i) {
      const int index = returned_.of_outputs[static_cast<size_t>(i)];
      const OutputAliasInfo& info = function_.metadata.output(i);
      if (index < 0 || !info.geometry.has_value()) continue;
      if (info.shared_storage.has_value()) AddStorageOwner(index, *info.shared_storage, *info.geometry);
      if (info.non_alias_view.has_value()) AddNonAliasView(index, *info.non_alias_view);
    }
  }

  void AddStorageOwner(int index, const SharedStorage& shared, const TensorGeometry& geometry) {
    const auto at = static_cast<size_t>(shared.index);
    const bool is_output = shared.owner == SharedStorage::Owner::kOutput;
    int owner = is_output ? returned_.of_outputs[at] : returned_.of_bases[at];
    while (owner >= 0 && At(owner).owner >= 0) owner = At(owner).owner;
    if (owner < 0) return;
    At(index).owner = owner;
    At(owner).is_shared = true;
    // An output with conj/neg bits is a view of its owner: the program's result is unused.
    const ConjNegBits reading = {shared.is_conjugate, shared.is_negated};
    if (reading.is_plain()) return;
    At(index).reading = reading;
    At(index).geometry = geometry;
  }

  // NON_ALIAS output that autograd knows as a view of another output or of an unreturned base.
  void AddNonAliasView(int index, const NonAliasViewInfo& seen) {
    ReturnedView view = {.creation = ViewCreationOf(seen)};
    ReturnedValue& value = At(index);
    if (!seen.is_hidden) {
      view.returned = returned_.of_outputs[static_cast<size_t>(seen.base)];
      if (view.returned < 0) return;
    } else {
      const auto [known, is_new] =
          hidden_bases_.try_emplace(seen.base, static_cast<int>(returned_.hidden_bases.size()));
      view.hidden = known->second;
      if (is_new) returned_.hidden_bases.push_back({.geometry = *seen.hidden_geometry, .returned = index});
      HiddenBase& base = returned_.hidden_bases[static_cast<size_t>(view.hidden)];
      if (view.creation == ViewCreation::kDefault && value.tangent >= 0) base.view = index;
      base.requires_grad = base.requires_grad || value.is_leaf_that_requires_grad;
    }
    // A view requires grad if its base does.
    value.is_leaf_that_requires_grad = false;
    At(value.owner >= 0 ? value.owner : index).is_shared = true;
    value.view = view;
  }

  const FunctionMetadata& function_;
  absl::flat_hash_map<int, int> hidden_bases_;  // by number in the metadata: index into returned_.hidden_bases
  ReturnedValues returned_;
};

}  // namespace

ReturnedValues ReturnedValues::Create(const FunctionMetadata& function) { return Builder(function).Build(); }

bool IsReturnedElsewhere(const OutputAliasInfo& info) {
  return info.shared_storage.has_value() &&
         (info.shared_storage->is_same_tensor || info.shared_storage->owner == SharedStorage::Owner::kInput);
}

ViewCreation ViewCreationOf(const NonAliasViewInfo& view) {
  switch (view.creation) {
    case NonAliasViewInfo::Creation::kRecorded:
      return ViewCreation::kDefault;
    case NonAliasViewInfo::Creation::kNoGrad:
      return ViewCreation::kNoGrad;
    case NonAliasViewInfo::Creation::kMultiOutput:
      break;
  }
  return ViewCreation::kMultiOutput;
}

}  // namespace cotan
