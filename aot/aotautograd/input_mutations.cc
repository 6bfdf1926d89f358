// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/input_mutations.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/functional_tensor.h"
#include "aot/aotautograd/grad_fn.h"
#include "aot/aotautograd/view_replay.h"
#include "aot/capture/recorder.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

const void* StorageAtEntry(const InputAtEntry& entry) { return entry.storage._unsafe_get_target(); }

InputAtExit DescribeExit(const InputAtEntry& entry, const at::Tensor& input) {
  const bool replaced =
      StorageAddress(input) != StorageAtEntry(entry) ||
      (FunctionalWrapperOf(input)->was_storage_changed() &&
       StorageAddress(RealTensorOf(SyncedProxyOf(input))) != StorageAddress(RealTensorOf(entry.proxy)));
  if (replaced) return {RealWithGeometryOf(input), false};
  ReplayedViews replayed = ReplayViews(ViewMetasOf(input), RealTensorOf(entry.proxy));
  if (!replayed.complete) replayed.steps.clear();
  return {std::move(replayed.result), true, std::move(replayed.steps)};
}

// Records the change of geometry within one storage: relative to the geometry at entry if it can be.
void DescribeNewGeometry(const InputAtEntry& entry, const InputAtExit& exit, InputAliasInfo& info) {
  info.geometry_after = GeometryOf(exit.real);
  if (info.mutates_storage_metadata) return;
  // A geometry alone does not have the effect of a step that sets the conj or neg bit.
  const bool is_relative = std::none_of(exit.steps.begin(), exit.steps.end(), [](const ViewStep& step) {
    return std::holds_alternative<view::AsStrided>(step) || std::holds_alternative<view::Conjugate>(step) ||
           std::holds_alternative<view::Negate>(step);
  });
  if (exit.steps.empty() || !is_relative) {
    info.geometry_at_entry = GeometryOf(RealTensorOf(entry.proxy));
  } else {
    info.view_steps_after = exit.steps;
  }
}

// Returns whether a metadata- or storage-mutated input has writes to elements outside its final
// view.
bool HasHiddenWrites(const InputAtEntry& entry, const at::Tensor& input) {
  const Recorder* recorder = CurrentRecorder();
  if (recorder == nullptr) return false;
  if (StorageAddress(input) != StorageAtEntry(entry)) return recorder->HasWrittenIn(StorageAtEntry(entry));
  return recorder->HasWrittenOutsideOf(input);
}

// Returns the change of the grad_fn from entry to exit.
GradFnChange GradFnChangeOf(const InputAtEntry& entry, const at::Tensor& input) {
  if (!input.requires_grad()) return GradFnChange::kUnspecified;
  const torch::autograd::Node* node = GradFnIfKnown(input);
  if (node == nullptr) {
    return entry.requires_grad && entry.is_leaf ? GradFnChange::kKept : GradFnChange::kNewLeaf;
  }
  const Recorder* recorder = CurrentRecorder();
  const void* original = recorder == nullptr ? node : recorder->autograd_views().OriginalGradFn(node);
  return original == entry.grad_fn.get() ? GradFnChange::kKept : GradFnChange::kNew;
}

// Returns the metadata of an input. `set_` back to the storage at entry, and in-place views that
// cancel each other out, do not count as mutations.
InputAliasInfo DescribeInput(const InputAtEntry& entry, const at::Tensor& input, const InputAtExit& exit) {
  at::FunctionalTensorWrapper* wrapper = FunctionalWrapperOf(input);
  InputAliasInfo info;
  info.is_leaf = entry.is_leaf;
  info.requires_grad = input.requires_grad();
  if (info.requires_grad != entry.requires_grad) info.requires_grad_at_entry = entry.requires_grad;
  const bool data = wrapper->has_data_mutation();
  // Assignment to `.data` is visible in the wrapper as a new storage only; a resize beyond the
  // storage sets storage_changed.
  const bool is_assigned = !exit.same_storage && !wrapper->was_storage_changed() && !wrapper->has_metadata_mutation();
  info.mutates_storage_metadata = (wrapper->was_storage_changed() && !exit.same_storage) || is_assigned;
  info.mutates_data = data && !info.mutates_storage_metadata;
  info.mutates_metadata = info.mutates_storage_metadata ||
                          (wrapper->has_metadata_mutation() && !SameGeometry(exit.real, RealTensorOf(entry.proxy)));
  info.mutation_is_shallow_copy_data =
      is_assigned || (info.mutates_storage_metadata && wrapper->was_shallow_copy_data());
  info.mutations_hidden_from_autograd = wrapper->are_all_mutations_hidden_from_autograd();
  info.mutations_under_no_grad_or_inference_mode = data && wrapper->are_all_mutations_under_no_grad_or_inference_mode();
  info.mutation_inductor_storage_resize = wrapper->was_inductor_storage_resized();
  if (info.mutates_metadata) DescribeNewGeometry(entry, exit, info);
  const GradFnChange history = GradFnChangeOf(entry, input);
  if (info.is_mutated() || history != GradFnChange::kKept) info.history = history;
  return info;
}

// Returns the sizes of the gradient of a leaf if they differ from those of the leaf at exit.
std::optional<SymIntVector> GradientSizesOf(const InputAliasInfo& info, const at::Tensor& input) {
  if (!info.geometry_after.has_value() || info.mutates_storage_metadata || !info.requires_grad) return std::nullopt;
  if (GradFnIfKnown(input) != nullptr) return std::nullopt;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(input);
  if (!accumulator) return std::nullopt;
  const at::IntArrayRef shape = C10_AS_INTARRAYREF_SLOW(accumulator->input_metadata(0).shape_as_dim_vector());
  SymIntVector sizes(shape.begin(), shape.end());
  return sizes == info.geometry_after->sizes ? std::nullopt : std::make_optional(std::move(sizes));
}

// InvalidArgument: a storage mutation that cannot be kept in the graph.
absl::Status CheckStorageMutation(const InputAliasInfo& info) {
  if (!info.mutates_storage_metadata && !info.mutation_inductor_storage_resize) return absl::OkStatus();
  if (MutationTypeOf(info) == MutationType::kMutatedInGraph) return absl::OkStatus();
  const auto text = [](bool value) { return value ? "true" : "false"; };
  return absl::InvalidArgumentError(absl::StrCat(
      "Encountered a ", info.mutates_storage_metadata ? "set_" : "storage resize",
      " on a graph input, but the input has other mutations that we cannot keep in the graph. This is not supported. "
      "keep_input_mutations=",
      text(info.keep_input_mutations), ", mutates_data=", text(info.mutates_data),
      ", mutations_hidden_from_autograd=", text(info.mutations_hidden_from_autograd),
      ", mutations_under_no_grad_or_inference_mode=", text(info.mutations_under_no_grad_or_inference_mode)));
}

// Returns for each input the input whose storage at entry `set_` gave it; -1 without one.
std::vector<int> StorageSourcesOf(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs) {
  absl::flat_hash_map<const void*, int> first_of_storage;
  for (size_t i = 0; i < entry.size(); ++i) {
    first_of_storage.try_emplace(StorageAtEntry(entry[i]), static_cast<int>(i));
  }
  std::vector<int> sources;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const void* storage = StorageAddress(inputs[i]);
    const auto source = storage == StorageAtEntry(entry[i]) ? first_of_storage.end() : first_of_storage.find(storage);
    sources.push_back(source == first_of_storage.end() ? -1 : source->second);
  }
  return sources;
}

// Sets InputAliasInfo::new_storage of inputs that got another storage by `set_`.
void SetNewStorages(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                    InputMutations& mutations) {
  absl::flat_hash_map<const void*, int> updated_input_of_storage;
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputAliasInfo& info = mutations.info[i];
    if (!info.mutates_storage_metadata) continue;
    NewStorage& storage = info.new_storage.emplace();
    if (const int source = mutations.storage_sources[i]; source >= 0) {
      storage = {NewStorage::Owner::kInput, source, GeometryOf(RealTensorOf(entry[static_cast<size_t>(source)].proxy))};
      continue;
    }
    const auto [first, is_new] = updated_input_of_storage.try_emplace(StorageAddress(inputs[i]), static_cast<int>(i));
    if (is_new) {
      storage.geometry = GeometryOf(StorageRootOf(inputs[i]));
    } else {
      storage = {NewStorage::Owner::kUpdatedInput, first->second};
    }
  }
}

}  // namespace

std::vector<InputAtEntry> DescribeInputs(absl::Span<const at::Tensor> inputs) {
  std::vector<InputAtEntry> entry;
  for (const at::Tensor& input : inputs) {
    entry.push_back(
        {SyncedProxyOf(input), input.storage().getWeakStorageImpl(), input.is_leaf(), input.requires_grad(), nullptr});
    const auto node = input.grad_fn();
    if (node.defined()) entry.back().grad_fn = std::shared_ptr<const void>(node.get(), [node](const void*) {});
  }
  return entry;
}

absl::StatusOr<InputMutations> FindInputMutations(absl::Span<const InputAtEntry> entry,
                                                  absl::Span<const at::Tensor> inputs, bool keep_input_mutations) {
  InputMutations result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.exit.push_back(DescribeExit(entry[i], inputs[i]));
    result.info.push_back(DescribeInput(entry[i], inputs[i], result.exit.back()));
    at::FunctionalTensorWrapper* wrapper = FunctionalWrapperOf(inputs[i]);
    if (!wrapper->has_metadata_mutation() && !wrapper->was_storage_changed()) continue;
    result.metadata_mutated_inputs.push_back(static_cast<int>(i));
    if (HasHiddenWrites(entry[i], inputs[i])) result.inputs_with_hidden_writes.push_back(static_cast<int>(i));
  }
  result.storage_sources = StorageSourcesOf(entry, inputs);
  SetNewStorages(entry, inputs, result);
  // Only the program can give an input another storage: the runtime could only copy contents.
  result.keep_input_mutations =
      keep_input_mutations || std::any_of(result.info.begin(), result.info.end(),
                                          [](const InputAliasInfo& info) { return info.mutates_storage_metadata; });
  for (InputAliasInfo& info : result.info) {
    info.keep_input_mutations = result.keep_input_mutations;
    COTAN_RETURN_IF_ERROR(CheckStorageMutation(info));
  }
  return result;
}

void SetGradientSizes(absl::Span<const at::Tensor> inputs, std::vector<InputAliasInfo>& info) {
  for (size_t i = 0; i < inputs.size(); ++i) info[i].gradient_sizes = GradientSizesOf(info[i], inputs[i]);
}

std::vector<int> InputsToDetach(const ViewAndMutationMetaFields& facts, const std::vector<bool>& has_gradient) {
  std::vector<int> result;
  for (size_t i = 0; i < facts.input_info.size(); ++i) {
    const InputAliasInfo& info = facts.input_info[i];
    // The program replaces the storage of the tensor itself, not of a detached alias.
    const bool replaces_storage =
        info.mutates_storage_metadata && MutationTypeOf(info) == MutationType::kMutatedInGraph;
    if (has_gradient[i] || replaces_storage || !info.requires_grad || info.is_leaf) continue;
    result.push_back(static_cast<int>(i));
  }
  return result;
}

std::vector<uint64_t> MutationCounts(absl::Span<const at::Tensor> inputs) {
  std::vector<uint64_t> counts;
  for (const at::Tensor& input : inputs) counts.push_back(FunctionalWrapperOf(input)->mutation_counter());
  return counts;
}

std::vector<int> BackwardMutatedInputs(absl::Span<const uint64_t> before, absl::Span<const uint64_t> after) {
  std::vector<int> result;
  for (size_t i = 0; i < before.size(); ++i) {
    if (after[i] > before[i]) result.push_back(static_cast<int>(i));
  }
  return result;
}

}  // namespace cotan::aot
