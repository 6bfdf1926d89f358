// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/view_and_mutation.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/view_replay.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "serialization/metadata/derived_metadata.h"

namespace cotan::aot {
namespace {

namespace functionalization = at::functionalization;

at::FunctionalTensorWrapper* WrapperOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !functionalization::impl::isFunctionalTensor(tensor)) return nullptr;
  return functionalization::impl::unsafeGetFunctionalWrapper(tensor);
}

// Returns the value of a wrapped number.
ScalarOutput NumberOf(const at::Tensor& wrapped) {
  const RealScope real;
  const at::Scalar number = wrapped.item();
  if (number.isBoolean()) return number.toBool();
  if (number.isIntegral(/*includeBool=*/false)) return number.toLong();
  return number.toDouble();
}

bool IsNumber(const at::Tensor& tensor) {
  return WrapperOf(tensor) == nullptr && tensor.unsafeGetTensorImpl()->is_wrapped_number() && !tensor.is_complex();
}

functionalization::FunctionalStorageImpl* FunctionalStorageOf(const at::Tensor& tensor) {
  return static_cast<functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
}

const void* StorageOf(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }
const void* StorageOf(const InputAtEntry& entry) { return entry.storage._unsafe_get_target(); }

// Returns the real tensor inside a proxy; any other tensor is real itself.
at::Tensor RealOf(const at::Tensor& proxy) {
  const ProxyTensorImpl* impl = AsProxy(proxy);
  return impl == nullptr ? proxy : impl->real();
}

bool HasViewPrefix(ViewMetas views, ViewMetas prefix) {
  return prefix.size() <= views.size() && std::equal(prefix.begin(), prefix.end(), views.begin());
}

// Returns the base of the storage of a functional tensor, with all mutations.
at::Tensor RootOf(const at::Tensor& tensor) {
  functionalization::FunctionalStorageImpl* storage = FunctionalStorageOf(tensor);
  storage->apply_updates();
  return RealOf(storage->base());
}

// Returns the ViewMeta chain from the base of the storage to the tensor.
ViewMetas ViewsOf(const at::Tensor& tensor) { return WrapperOf(tensor)->view_metas(); }

SymIntVector ToSymInts(at::IntArrayRef values) { return SymIntVector(values.begin(), values.end()); }

bool SameGeometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

// Returns the proxy inside a functional tensor, with all mutations.
at::Tensor ValueOf(const at::Tensor& tensor) {
  if (WrapperOf(tensor) == nullptr) return tensor;
  functionalization::impl::sync(tensor);
  return functionalization::impl::from_functional_tensor(tensor);
}

// Returns a real tensor with the geometry that the caller sees of `tensor`.
at::Tensor RealLike(const at::Tensor& tensor) {
  const at::Tensor real = RealOf(ValueOf(tensor));
  if (SameGeometry(real, tensor)) return real;
  const RealScope scope;
  return at::empty({StorageExtent(LayoutOf(tensor))}, real.options())
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

// An input at exit of the function.
struct InputAtExit {
  at::Tensor real;  // with the geometry at exit
  // True if it has the storage that it had at entry.
  bool same_storage = true;
};

InputAtExit DescribeExit(const InputAtEntry& entry, const at::Tensor& input) {
  const bool replaced =
      StorageOf(input) != StorageOf(entry) ||
      (WrapperOf(input)->was_storage_changed() && StorageOf(RealOf(ValueOf(input))) != StorageOf(RealOf(entry.proxy)));
  if (replaced) return {RealLike(input), false};
  return {ReplayViews(ViewsOf(input), RealOf(entry.proxy)).result, true};
}

// Returns whether a metadata- or storage-mutated input has writes to elements outside its final
// view.
bool LosesContent(const InputAtEntry& entry, const at::Tensor& input) {
  const Recorder* recorder = CurrentRecorder();
  if (recorder == nullptr) return false;
  if (StorageOf(input) != StorageOf(entry)) return recorder->HasWrittenIn(StorageOf(entry));
  return recorder->HasWrittenOutsideOf(input);
}

// Returns the grad_fn without regenerating it for a view whose base was written.
const torch::autograd::Node* KnownNodeOf(const at::Tensor& tensor) {
  return torch::autograd::impl::grad_fn_unsafe(tensor);
}

// Returns the change of the grad_fn from entry to exit.
GradFnChange HistoryOf(const InputAtEntry& entry, const at::Tensor& input) {
  if (!input.requires_grad()) return GradFnChange::kUnspecified;
  const torch::autograd::Node* node = KnownNodeOf(input);
  if (node == nullptr) {
    return entry.requires_grad && entry.is_leaf ? GradFnChange::kKept : GradFnChange::kNewLeaf;
  }
  const Recorder* recorder = CurrentRecorder();
  const void* beginning = recorder == nullptr ? node : recorder->autograd_views().OriginalGradFn(node);
  return beginning == entry.history.get() ? GradFnChange::kKept : GradFnChange::kNew;
}

// Returns the metadata of an input. `set_` back to the storage at entry, and in-place views that
// cancel each other out, do not count as mutations.
InputAliasInfo DescribeInput(const InputAtEntry& entry, const at::Tensor& input, const InputAtExit& exit) {
  at::FunctionalTensorWrapper* wrapper = WrapperOf(input);
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
                          (wrapper->has_metadata_mutation() && !SameGeometry(exit.real, RealOf(entry.proxy)));
  info.mutation_is_shallow_copy_data =
      is_assigned || (info.mutates_storage_metadata && wrapper->was_shallow_copy_data());
  info.mutations_hidden_from_autograd = wrapper->are_all_mutations_hidden_from_autograd();
  info.mutations_under_no_grad_or_inference_mode = data && wrapper->are_all_mutations_under_no_grad_or_inference_mode();
  info.mutation_inductor_storage_resize = wrapper->was_inductor_storage_resized();
  if (info.mutates_metadata) info.geometry_after = GeometryOf(exit.real);
  const GradFnChange history = HistoryOf(entry, input);
  if (info.is_mutated() || history != GradFnChange::kKept) info.history = history;
  return info;
}

// Returns the sizes of the gradient of a leaf if they differ from those of the leaf at exit: its
// AccumulateGrad node was created before a metadata mutation.
std::optional<SymIntVector> GradientSizesOf(const InputAliasInfo& info, const at::Tensor& input) {
  if (!info.geometry_after.has_value() || info.mutates_storage_metadata || !info.requires_grad) return std::nullopt;
  if (KnownNodeOf(input) != nullptr) return std::nullopt;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(input);
  if (!accumulator) return std::nullopt;
  SymIntVector sizes = ToSymInts(C10_AS_INTARRAYREF_SLOW(accumulator->input_metadata(0).shape_as_dim_vector()));
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

// Outputs in the same storage.
struct AliasGroup {
  int num_outputs = 0;
  int num_multi_output_views = 0;
  int num_ordinary() const { return num_outputs - num_multi_output_views; }
};

// Returns whether the caller sees the same geometry, conj and neg bits. grad_fn cannot distinguish
// a no-op view from its base.
bool LooksAlike(const at::Tensor& a, const at::Tensor& b) {
  return SameGeometry(a, b) && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

// Returns the base of the tensor in autograd; unset if it is not a view.
std::optional<at::Tensor> BaseOf(const at::Tensor& tensor) {
  if (!tensor.is_view()) return std::nullopt;
  return at::Tensor(tensor._base());
}

// Returns the grad_fn of the tensor; null if it has none. Does not regenerate the grad_fn of a view
// whose base was changed, which may be impossible (transpose_).
const torch::autograd::Node* NodeOf(const at::Tensor& tensor) {
  const torch::autograd::Node* known = KnownNodeOf(tensor);
  return known != nullptr ? known : tensor.grad_fn().get();
}

// Returns whether the tensor is a result of a torch::autograd::Function.
bool IsResultOfCustomFunction(const at::Tensor& tensor) {
  const torch::autograd::Node* node = NodeOf(tensor);
  return node != nullptr && absl::StartsWith(node->name(), "torch::autograd::CppNode<");
}

// Classifies the outputs of one function by OutputType.
class OutputAnalysis {
 public:
  OutputAnalysis(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                 absl::Span<const InputAtExit> exit, absl::Span<const at::Tensor> outputs)
      : entry_(entry), inputs_(inputs), exit_(exit), outputs_(outputs) {
    // A tensor given several times counts as its last occurrence. Among tensors in one storage, one
    // that got it by `set_` does not count if there is another.
    for (const bool is_set : {true, false}) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if ((StorageOf(inputs[i]) != StorageOf(entry[i])) == is_set) {
          input_of_storage_[StorageOf(inputs[i])] = static_cast<int>(i);
        }
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      input_of_tensor_[inputs[i].unsafeGetTensorImpl()] = static_cast<int>(i);
    }
    for (size_t i = 0; i < outputs.size(); ++i) AddOutput(static_cast<int>(i));
  }

  // Returns the metadata of output `index`. Calls must be in the order of the outputs.
  OutputAliasInfo Describe(int index);

  // Returns the intermediate bases found so far: functional tensors.
  const std::vector<at::Tensor>& intermediate_bases() const { return bases_; }

 private:
  void AddOutput(int index);
  // Returns whether the output, which is in the storage of an input, has a grad_fn that is not a
  // view of that input.
  bool HasOwnHistory(const at::Tensor& output, const at::Tensor& input) const;
  // Sets output_type and base_index, and shared_storage of an output in the storage of an input.
  void Classify(const at::Tensor& output, OutputAliasInfo& info);
  // Sets output_type and base_index of a view whose base is an intermediate that requires grad.
  void ClassifyView(const at::Tensor& output, OutputAliasInfo& info);
  // Sets geometry and view_steps from base number `index` of its kind to the output; view_steps
  // stay empty if none exist.
  void DescribeViews(const at::Tensor& output, size_t index, OutputAliasInfo& info);
  // Returns the index of an output with the storage and geometry of `output` that requires grad; -1
  // if there is none.
  int DifferentiableTwin(const at::Tensor& output) const;

  absl::Span<const InputAtEntry> entry_;
  absl::Span<const at::Tensor> inputs_;
  absl::Span<const InputAtExit> exit_;
  absl::Span<const at::Tensor> outputs_;
  absl::flat_hash_map<const void*, int> input_of_storage_;
  absl::flat_hash_map<const void*, int> input_of_tensor_;
  absl::flat_hash_map<const void*, int> output_of_tensor_;
  absl::flat_hash_map<const void*, AliasGroup> group_of_storage_;
  absl::flat_hash_map<const void*, int> base_of_tensor_;
  std::vector<at::Tensor> bases_;
};

void OutputAnalysis::AddOutput(int index) {
  const at::Tensor& output = outputs_[static_cast<size_t>(index)];
  if (!output.defined() || IsNumber(output)) return;
  output_of_tensor_[output.unsafeGetTensorImpl()] = index;
  AliasGroup& group = group_of_storage_[StorageOf(output)];
  ++group.num_outputs;
  at::FunctionalTensorWrapper* wrapper = WrapperOf(output);
  if (wrapper != nullptr && wrapper->is_multi_output_view()) ++group.num_multi_output_views;
}

int OutputAnalysis::DifferentiableTwin(const at::Tensor& output) const {
  for (const at::Tensor& other : outputs_) {
    if (!other.defined() || IsNumber(other) || other.is_same(output) || !other.requires_grad()) continue;
    if (StorageOf(other) == StorageOf(output) && LooksAlike(other, output)) {
      return output_of_tensor_.at(other.unsafeGetTensorImpl());
    }
  }
  return -1;
}

void OutputAnalysis::ClassifyView(const at::Tensor& output, OutputAliasInfo& info) {
  // The memory is visible through this output only, or otherwise only through multi-output views,
  // which must not be written to.
  if (group_of_storage_.at(StorageOf(output)).num_ordinary() <= 1 ||
      group_of_storage_.at(StorageOf(output)).num_outputs == 1) {
    info.output_type = OutputType::kUnsafeViewAlias;
    return;
  }
  const at::Tensor base = *BaseOf(output);
  // Elements outside the final view of the base cannot be made from it: NON_ALIAS in the same
  // storage.
  if (WrapperOf(base)->has_metadata_mutation() && !Covers(LayoutOf(base), LayoutOf(output))) return;
  if (const auto found = output_of_tensor_.find(base.unsafeGetTensorImpl()); found != output_of_tensor_.end()) {
    info.output_type = OutputType::kAliasOfIntermediateBaseIsUserOutput;
    info.base_index = found->second;
    return;
  }
  const auto [known, inserted] =
      base_of_tensor_.try_emplace(base.unsafeGetTensorImpl(), static_cast<int>(bases_.size()));
  if (inserted) bases_.push_back(base);
  info.output_type = inserted ? OutputType::kAliasOfIntermediateSaveAsOutput : OutputType::kAliasOfIntermediate;
  info.base_index = known->second;
}

bool OutputAnalysis::HasOwnHistory(const at::Tensor& output, const at::Tensor& input) const {
  if (!output.requires_grad() || KnownNodeOf(output) == nullptr) return false;
  return !BaseOf(output).value_or(output).is_same(BaseOf(input).value_or(input));
}

void OutputAnalysis::Classify(const at::Tensor& output, OutputAliasInfo& info) {
  info.output_type = OutputType::kNonAlias;
  at::FunctionalTensorWrapper* wrapper = WrapperOf(output);
  if (wrapper == nullptr) return;  // a captured tensor
  const bool storage_changed = wrapper->was_storage_changed();
  const bool is_input = input_of_tensor_.contains(output.unsafeGetTensorImpl());
  const AliasGroup& group = group_of_storage_.at(StorageOf(output));
  const auto input = input_of_storage_.find(StorageOf(output));
  const std::optional<at::Tensor> base = BaseOf(output);
  if (input != input_of_storage_.end() && !is_input && IsResultOfCustomFunction(output)) {
    info.output_type = OutputType::kCustomFunctionView;
    info.shared_storage = SharedStorage{SharedStorage::Owner::kInput, input->second, false, /*is_detached=*/true};
  } else if (input != input_of_storage_.end() && !storage_changed) {
    info.base_index = is_input ? input_of_tensor_.at(output.unsafeGetTensorImpl()) : input->second;
    if (!is_input && HasOwnHistory(output, inputs_[static_cast<size_t>(input->second)])) {
      info.shared_storage = SharedStorage{SharedStorage::Owner::kInput, input->second, false, /*is_detached=*/true};
      return;
    }
    // All aliases in this group are multi-output views (unbind): treated as NON_ALIAS.
    if (group.num_ordinary() == 0 && NodeOf(output) != nullptr) return;
    info.output_type = is_input ? OutputType::kIsInput : OutputType::kAliasOfInput;
  } else if (is_input) {
    info.base_index = input_of_tensor_.at(output.unsafeGetTensorImpl());
    info.output_type = OutputType::kIsInput;
  } else if (base.has_value() && input_of_tensor_.contains(base->unsafeGetTensorImpl()) &&
             StorageOf(*base) == StorageOf(output)) {
    // A view in the storage that `set_` gave the input.
    info.base_index = input_of_tensor_.at(base->unsafeGetTensorImpl());
    info.output_type = OutputType::kAliasOfInput;
  } else if (base.has_value() && output.requires_grad() && base->requires_grad()) {
    // The gradient of a custom function differs from that of the view that it returns.
    if (group.num_outputs == 1 || !IsResultOfCustomFunction(output)) ClassifyView(output, info);
  } else if (const int twin = output.requires_grad() ? -1 : DifferentiableTwin(output); twin >= 0) {
    info.output_type = OutputType::kAliasOfIntermediateBaseIsUserOutput;
    info.base_index = twin;
  } else if (base.has_value() && LooksAlike(output, *base)) {
    const auto found = output_of_tensor_.find(base->unsafeGetTensorImpl());
    if (found == output_of_tensor_.end()) return;
    info.output_type = OutputType::kAliasOfIntermediateBaseIsUserOutput;
    info.base_index = found->second;
  }
}

void OutputAnalysis::DescribeViews(const at::Tensor& output, size_t index, OutputAliasInfo& info) {
  const bool of_input = !IsAliasOfIntermediate(info.output_type);
  const at::Tensor& base = of_input                                                               ? inputs_[index]
                           : info.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput ? outputs_[index]
                                                                                                  : bases_[index];
  if (WrapperOf(base) == nullptr) return;
  const ViewMetas views = ViewsOf(output);
  const ViewMetas base_views = ViewsOf(base);
  const at::Tensor real_base = of_input ? exit_[index].real : RealLike(base);
  const auto record = [&info](ReplayedViews replayed) {
    info.geometry = GeometryOf(replayed.result);
    if (replayed.complete) info.view_steps = std::move(replayed.steps);
    if (replayed.complete && info.view_steps.empty()) info.view_steps = {view::Alias{}};
  };
  if (HasViewPrefix(views, base_views)) return record(ReplayViews(views.subspan(base_views.size()), real_base));
  if (of_input && !exit_[index].same_storage) return;
  // The base's metadata was mutated as well (transpose_): both are views of the base of the
  // storage.
  const at::Tensor root = of_input ? RealOf(entry_[index].proxy) : RootOf(base);
  ReplayedViews replayed = ReplayViews(views, root);
  if (!of_input && !SameGeometry(ReplayViews(base_views, root).result, real_base)) return;
  info.geometry = GeometryOf(replayed.result);
  const bool reads_alike =
      replayed.result.is_conj() == real_base.is_conj() && replayed.result.is_neg() == real_base.is_neg();
  const bool shows_root =
      of_input || (root.scalar_type() == real_base.scalar_type() && Covers(LayoutOf(real_base), LayoutOf(root)));
  if (reads_alike && replayed.result.scalar_type() == real_base.scalar_type()) {
    info.view_steps = {AsStridedStep(replayed.result)};
  } else if (replayed.complete && shows_root) {
    info.view_steps = std::move(replayed.steps);
    info.view_steps.insert(info.view_steps.begin(), AsStridedStep(root));
  } else if (reads_alike && SameGeometry(replayed.result, real_base)) {
    info.view_steps = BitsSteps(real_base, replayed.result.scalar_type());
  }
}

OutputAliasInfo OutputAnalysis::Describe(int index) {
  const at::Tensor& output = outputs_[static_cast<size_t>(index)];
  OutputAliasInfo info;
  if (!output.defined()) {
    info.scalar = NoneValue();
    return info;
  }
  if (IsNumber(output)) {
    info.scalar = NumberOf(output);
    return info;
  }
  Classify(output, info);
  info.requires_grad = output.requires_grad();
  // A view taken under no_grad requires grad as its base does, but has no grad_fn.
  const bool has_node =
      info.output_type == OutputType::kIsInput ? KnownNodeOf(output) != nullptr : NodeOf(output) != nullptr;
  info.requires_grad_for_backward = info.requires_grad && (!output.is_view() || has_node);
  info.geometry = GeometryOf(output);
  if (IsFreshMemory(info.output_type)) {
    // Multi-output views of an input are NON_ALIAS, but share its storage.
    if (info.base_index.has_value() && !info.shared_storage.has_value()) {
      info.shared_storage = SharedStorage{SharedStorage::Owner::kInput, *info.base_index, false};
    }
    info.is_new_leaf = info.requires_grad && !output.is_view() && KnownNodeOf(output) == nullptr;
    if (info.shared_storage.has_value()) {
      DescribeViews(output, static_cast<size_t>(info.shared_storage->index), info);
    }
    return info;
  }
  if (info.output_type == OutputType::kIsInput) return info;
  DescribeViews(output, static_cast<size_t>(*info.base_index), info);
  const bool ends_detached = !info.view_steps.empty() && std::holds_alternative<view::Detach>(info.view_steps.back());
  info.not_a_view = !output.is_view() && !ends_detached;
  return info;
}

NonAliasViewInfo::Creation CreationOf(const at::Tensor& view) {
  using torch::autograd::CreationMeta;
  switch (torch::autograd::impl::get_view_autograd_meta(view)->get_creation_meta()) {
    case CreationMeta::DEFAULT:
      return NonAliasViewInfo::Creation::kRecorded;
    case CreationMeta::NO_GRAD_MODE:
    case CreationMeta::INFERENCE_MODE:
      return NonAliasViewInfo::Creation::kNoGrad;
    case CreationMeta::IN_CUSTOM_FUNCTION:
    case CreationMeta::MULTI_OUTPUT_NODE:
      break;
  }
  return NonAliasViewInfo::Creation::kMultiOutput;
}

// Returns whether the output may be a view in autograd although the runtime does not make it as a
// view of its base.
bool MayBeFreshView(const OutputAliasInfo& info) {
  if (!info.is_tensor() || !IsFreshMemory(info.output_type)) return false;
  const std::optional<SharedStorage>& shared = info.shared_storage;
  if (!shared.has_value()) return true;
  return !shared->is_same_tensor && (shared->owner != SharedStorage::Owner::kInput || shared->is_detached);
}

// Sets OutputAliasInfo::non_alias_view.
void SetFreshViews(absl::Span<const at::Tensor> outputs, ViewAndMutationMetaFields& facts) {
  absl::flat_hash_map<const void*, int> output_of_tensor;
  absl::flat_hash_map<const void*, int> hidden_of_tensor;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!MayBeFreshView(facts.output_info[i]) || outputs[i].is_view()) continue;
    output_of_tensor.try_emplace(outputs[i].unsafeGetTensorImpl(), static_cast<int>(i));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!MayBeFreshView(facts.output_info[i]) || !outputs[i].is_view()) continue;
    const at::Tensor base = *BaseOf(outputs[i]);
    NonAliasViewInfo& view = facts.output_info[i].non_alias_view.emplace();
    view.creation = CreationOf(outputs[i]);
    if (const auto output = output_of_tensor.find(base.unsafeGetTensorImpl()); output != output_of_tensor.end()) {
      view.base = output->second;
      continue;
    }
    view.is_hidden = true;
    view.base = hidden_of_tensor.try_emplace(base.unsafeGetTensorImpl(), static_cast<int>(hidden_of_tensor.size()))
                    .first->second;
    view.hidden_geometry = GeometryOf(base);
  }
}

// Returns the geometry of the tangent: that of the tensor, contiguous if elements share memory.
TensorGeometry TangentGeometry(const at::Tensor& tensor) {
  TensorGeometry geometry = GeometryOf(RealOf(ValueOf(tensor)));
  geometry.offset = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) != 0 || tensor.size(dim) < 2) continue;
    const DimVector strides = ContiguousStrides(tensor.sizes());
    geometry.strides.assign(strides.begin(), strides.end());
    break;
  }
  return geometry;
}

// Returns whether the caller gets any tensor with a gradient that does not follow from its own
// tensors: a result or data mutation that requires grad.
bool NeedsBackward(const ViewAndMutationMetaFields& facts) {
  for (const OutputAliasInfo& info : facts.output_info) {
    if (!info.requires_grad) continue;
    if (!IsAliasOfInput(info.output_type)) return true;
    if (!facts.input_info[static_cast<size_t>(*info.base_index)].requires_grad) return true;
  }
  return std::any_of(facts.input_info.begin(), facts.input_info.end(), [](const InputAliasInfo& info) {
    const bool is_seen = !info.mutations_under_no_grad_or_inference_mode && !info.mutations_hidden_from_autograd;
    return info.requires_grad && info.mutates_data && (is_seen || info.history == GradFnChange::kNew);
  });
}

}  // namespace

TensorGeometry GeometryOf(const at::Tensor& tensor) {
  TensorGeometry geometry;
  geometry.dtype = ToDType(tensor.scalar_type());
  geometry.sizes = ToSymInts(tensor.sizes());
  geometry.strides = ToSymInts(tensor.strides());
  geometry.offset = tensor.storage_offset();
  return geometry;
}

namespace {

// The owner of a storage, with its dtype, layout, conj and neg bits.
struct StorageOwner {
  StorageOwner(SharedStorage::Owner kind, int index, const at::Tensor& tensor)
      : shared{kind, index},
        dtype(tensor.scalar_type()),
        layout(LayoutOf(tensor)),
        is_conjugate(RealLike(tensor).is_conj()),
        is_negative(RealLike(tensor).is_neg()) {}

  // Returns how `tensor`, in the same storage, is related to the owner. Unset: their conj or neg
  // bits differ, and `tensor` has another dtype or elements outside the owner's view.
  std::optional<SharedStorage> SharedWith(const at::Tensor& tensor) const {
    SharedStorage result = shared;
    result.is_conjugate = RealLike(tensor).is_conj() != is_conjugate;
    result.is_negated = RealLike(tensor).is_neg() != is_negative;
    const bool is_read_alike = !result.is_conjugate && !result.is_negated;
    if (is_read_alike) return result;
    const bool is_made_of_owner = tensor.scalar_type() == dtype && Covers(layout, LayoutOf(tensor));
    return is_made_of_owner ? std::make_optional(result) : std::nullopt;
  }

  SharedStorage shared;
  at::ScalarType dtype;
  StridedLayout layout;
  bool is_conjugate, is_negative;
};

}  // namespace

void SetSharedStorage(absl::Span<const at::Tensor> outputs, absl::Span<const at::Tensor> intermediate_bases,
                      ViewAndMutationMetaFields& facts) {
  using Owner = SharedStorage::Owner;
  absl::flat_hash_map<const void*, StorageOwner> owner_of_storage;
  absl::flat_hash_map<const void*, int> output_of_tensor;
  for (size_t i = 0; i < intermediate_bases.size(); ++i) {
    const at::Tensor& base = intermediate_bases[i];
    owner_of_storage.try_emplace(StorageOf(base), Owner::kIntermediateBase, static_cast<int>(i), base);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputAliasInfo& info = facts.output_info[i];
    if (!info.is_tensor() || info.output_type == OutputType::kIsInput) continue;
    const int index = static_cast<int>(i);
    const auto [first, is_new] = output_of_tensor.try_emplace(outputs[i].unsafeGetTensorImpl(), index);
    if (!is_new) {
      info.shared_storage = SharedStorage{Owner::kOutput, first->second, true};
      if (IsFreshMemory(info.output_type)) info.view_steps.clear();
      continue;
    }
    if (!IsFreshMemory(info.output_type)) continue;
    if (info.shared_storage.has_value() && info.shared_storage->owner == Owner::kInput) continue;
    const auto [owner, is_first] =
        owner_of_storage.try_emplace(StorageOf(outputs[i]), Owner::kOutput, index, outputs[i]);
    if (is_first) {
      info.shared_storage.reset();
    } else {
      info.shared_storage = owner->second.SharedWith(outputs[i]);
    }
  }
}

std::vector<InputAtEntry> DescribeInputs(absl::Span<const at::Tensor> inputs) {
  std::vector<InputAtEntry> entry;
  for (const at::Tensor& input : inputs) {
    entry.push_back(
        {ValueOf(input), input.storage().getWeakStorageImpl(), input.is_leaf(), input.requires_grad(), nullptr});
    const auto node = input.grad_fn();
    if (node.defined()) entry.back().history = std::shared_ptr<const void>(node.get(), [node](const void*) {});
  }
  return entry;
}

// Sets InputAliasInfo::new_storage of inputs that got another storage by `set_`.
void SetNewStorages(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs, Analysis& analysis) {
  absl::flat_hash_map<const void*, int> updated_input_of_storage;
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputAliasInfo& info = analysis.facts.input_info[i];
    if (!info.mutates_storage_metadata) continue;
    NewStorage& storage = info.new_storage.emplace();
    if (const int source = analysis.storage_sources[i]; source >= 0) {
      storage = {NewStorage::Owner::kInput, source, GeometryOf(RealOf(entry[static_cast<size_t>(source)].proxy))};
      continue;
    }
    const auto [first, is_new] = updated_input_of_storage.try_emplace(StorageOf(inputs[i]), static_cast<int>(i));
    if (is_new) {
      storage.geometry = GeometryOf(RootOf(inputs[i]));
    } else {
      storage = {NewStorage::Owner::kUpdatedInput, first->second};
    }
  }
}

absl::StatusOr<Analysis> Analyze(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                                 absl::Span<const at::Tensor> outputs, const AnalysisOptions& options) {
  Analysis analysis;
  ViewAndMutationMetaFields& facts = analysis.facts;
  facts.static_input_indices = options.static_inputs;
  if (at::GradMode::is_enabled() != options.grad_enabled_at_entry) {
    facts.grad_enabled_mutation = at::GradMode::is_enabled();
  }
  std::vector<InputAtExit> exit;
  for (size_t i = 0; i < inputs.size(); ++i) {
    exit.push_back(DescribeExit(entry[i], inputs[i]));
    facts.input_info.push_back(DescribeInput(entry[i], inputs[i], exit.back()));
    at::FunctionalTensorWrapper* wrapper = WrapperOf(inputs[i]);
    const bool is_moved = wrapper->has_metadata_mutation() || wrapper->was_storage_changed();
    if (is_moved) analysis.metadata_mutated_inputs.push_back(static_cast<int>(i));
    if (is_moved && LosesContent(entry[i], inputs[i]))
      analysis.inputs_with_hidden_writes.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto source = std::find_if(entry.begin(), entry.end(), [&](const InputAtEntry& other) {
      return StorageOf(inputs[i]) != StorageOf(entry[i]) && StorageOf(inputs[i]) == StorageOf(other);
    });
    analysis.storage_sources.push_back(source == entry.end() ? -1 : static_cast<int>(source - entry.begin()));
  }
  SetNewStorages(entry, inputs, analysis);
  // Only the program can give an input another storage: the runtime could only copy contents.
  facts.keep_input_mutations = options.keep_input_mutations ||
                               std::any_of(facts.input_info.begin(), facts.input_info.end(),
                                           [](const InputAliasInfo& info) { return info.mutates_storage_metadata; });
  for (InputAliasInfo& info : facts.input_info) {
    info.keep_input_mutations = facts.keep_input_mutations;
    COTAN_RETURN_IF_ERROR(CheckStorageMutation(info));
  }
  OutputAnalysis output_analysis(entry, inputs, exit, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    facts.output_info.push_back(output_analysis.Describe(static_cast<int>(i)));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    facts.input_info[i].gradient_sizes = GradientSizesOf(facts.input_info[i], inputs[i]);
  }
  analysis.intermediate_bases = output_analysis.intermediate_bases();
  facts.num_intermediate_bases = static_cast<int>(analysis.intermediate_bases.size());
  SetSharedStorage(outputs, analysis.intermediate_bases, facts);
  SetFreshViews(outputs, facts);
  facts.is_train = NeedsBackward(facts);
  for (const ForwardTensor& source : DerivedMetadata::Of(facts).tangent_sources) {
    const size_t index = static_cast<size_t>(source.index);
    const at::Tensor& tensor = source.kind == ForwardTensor::Kind::kMutatedInput ? inputs[index]
                               : source.kind == ForwardTensor::Kind::kOutput     ? outputs[index]
                                                                                 : analysis.intermediate_bases[index];
    facts.tangents.push_back({source, TangentGeometry(tensor), ""});
  }
  COTAN_RETURN_IF_ERROR(facts.Validate());
  return analysis;
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
  for (const at::Tensor& input : inputs) counts.push_back(WrapperOf(input)->mutation_counter());
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
