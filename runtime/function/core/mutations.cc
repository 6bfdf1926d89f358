// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/mutations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/function/core/function_metadata.h"

namespace cotan {
namespace {

// Returns the inputs that are views of base `argument` and have a tracked write.
std::vector<int> WrittenViews(const FunctionMetadata& function, int argument) {
  std::vector<int> written;
  for (const auto& [input, view] : function.ViewsOf(argument)) {
    const InputAliasInfo& info = function.metadata.input(input);
    if (info.mutates_data && info.history == GradFnChange::kNew) written.push_back(input);
  }
  return written;
}

DataMutation DataMutationOf(const FunctionMetadata& function, const ReturnedValue& value, int index) {
  const InputAliasInfo& info = function.program_metadata.input(value.argument);
  DataMutation write = {.argument = value.argument, .result = value.result, .returned = index};
  write.copies = info.mutates_metadata;
  write.bumps_version = !info.mutations_hidden_from_autograd;
  write.under_no_grad = info.mutations_under_no_grad_or_inference_mode || info.mutations_hidden_from_autograd;
  if (info.history != GradFnChange::kUnspecified) write.under_no_grad = info.history != GradFnChange::kNew;
  if (!write.under_no_grad) write.tangent = value.tangent;
  if (write.tangent >= 0) write.written_views = WrittenViews(function, value.argument);
  write.has_gradient = function.backward.GradientOf(value.argument) >= 0;
  return write;
}

// Sets change.traced and change.method_input. `argument`: the program argument that is the input; -1: a view of a base.
void AddMemoryOf(const FunctionMetadata& function, MetadataMutation& change, int argument) {
  for (int base = 0; base < function.num_bases(); ++base) {
    for (const auto& [input, view] : function.ViewsOf(base)) {
      if (input != change.input) continue;
      change.traced = view->geometry;
      argument = base;
    }
  }
  if (argument >= 0 && !function.IsState(argument)) change.method_input = function.MethodInputOf(argument);
}

MetadataMutation MetadataMutationOf(const FunctionMetadata& function, const std::vector<DataMutation>& writes,
                                    int input) {
  const InputAliasInfo& info = function.metadata.input(input);
  const int argument = function.ArgumentOf(input);
  MetadataMutation change;
  change.input = input;
  // A tracked write of new data sets the grad_fn for both mutations.
  const bool is_tracked = std::any_of(writes.begin(), writes.end(), [&](const DataMutation& write) {
    return write.argument == argument && write.tangent >= 0;
  });
  change.under_no_grad = info.history == GradFnChange::kUnspecified
                             ? info.mutations_under_no_grad_or_inference_mode
                             : info.history != GradFnChange::kNew || (is_tracked && function.makes_node());
  change.geometry = *info.geometry_after;
  change.steps = info.view_steps_after;
  change.at_entry = info.geometry_at_entry;
  change.gradient_sizes = info.gradient_sizes;
  change.is_written = std::any_of(writes.begin(), writes.end(), [&](const DataMutation& write) {
    return write.argument == argument && write.copies;
  });
  AddMemoryOf(function, change, argument);
  return change;
}

// Returns the result that is the new storage of the input; Method.input_updates follow the Method.outputs.
int StorageResultOf(const FunctionMetadata& function, int input) {
  const auto method_input = static_cast<uint32_t>(function.MethodInputOf(function.ArgumentOf(input)));
  int result = function.num_outputs;
  for (const serialization::InputUpdate& update : function.method_proto().input_updates()) {
    if (!update.sets_storage()) continue;
    if (update.input() == method_input) return result;
    ++result;
  }
  return -1;
}

StorageMutation StorageMutationOf(const FunctionMetadata& function, int input) {
  const InputAliasInfo& info = function.metadata.input(input);
  StorageMutation set;
  set.input = input;
  set.owner = info.new_storage->owner;
  set.owner_input = info.new_storage->input;
  set.geometry = *info.geometry_after;
  set.covers_owner = info.new_storage->geometry == info.geometry_after;
  if (info.is_leaf) set.gradient = function.backward.GradientOf(function.ArgumentOf(input));
  if (set.owner == NewStorage::Owner::kInput) set.owner_geometry_at_entry = *info.new_storage->geometry;
  if (set.owner == NewStorage::Owner::kProgram) {
    set.storage_geometry = *info.new_storage->geometry;
    set.result = StorageResultOf(function, input);
  }
  return set;
}

}  // namespace

std::string DataMutation::ToString(const FunctionMetadata& function) const {
  return absl::StrCat("content of ", function.ArgumentName(argument),
                      tangent >= 0     ? " with grad_fn"
                      : !bumps_version ? " hidden from autograd"
                      : under_no_grad  ? " under no_grad"
                                       : "");
}

Mutations Mutations::Create(const FunctionMetadata& function) {
  Mutations mutations;
  for (size_t i = 0; i < function.returned.values.size(); ++i) {
    const ReturnedValue& value = function.returned.values[i];
    if (value.kind != ReturnedValue::Kind::kArgument || value.result < 0) continue;
    mutations.data.push_back(DataMutationOf(function, value, static_cast<int>(i)));
  }
  for (int i = 0; i < function.metadata.num_inputs(); ++i) {
    const InputAliasInfo& info = function.metadata.input(i);
    if (function.OriginalOf(i) != i) continue;
    if (info.mutates_storage_metadata) {
      mutations.storage.push_back(StorageMutationOf(function, i));
    } else if (info.mutates_metadata) {
      mutations.metadata.push_back(MetadataMutationOf(function, mutations.data, i));
    }
  }
  return mutations;
}

}  // namespace cotan
