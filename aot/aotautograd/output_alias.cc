// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/output_alias.h"

#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "aot/aotautograd/functional_tensor.h"
#include "aot/aotautograd/grad_fn.h"
#include "aot/aotautograd/view_replay.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"
#include "base/overlap.h"

namespace cotan::aot {
namespace {

bool HasViewPrefix(ViewMetas views, ViewMetas prefix) {
  return prefix.size() <= views.size() && std::equal(prefix.begin(), prefix.end(), views.begin());
}

// Returns whether the caller sees the same geometry, conj and neg bits. grad_fn cannot distinguish
// a no-op view from its base.
bool LooksAlike(const at::Tensor& a, const at::Tensor& b) {
  return SameGeometry(a, b) && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

}  // namespace

OutputClassifier::OutputClassifier(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                                   absl::Span<const InputAtExit> exit, absl::Span<const at::Tensor> outputs)
    : entry_(entry), inputs_(inputs), exit_(exit), outputs_(outputs) {
  // A tensor given several times counts as its last occurrence. Among tensors in one storage, one
  // that got it by `set_` does not count if there is another.
  for (const bool is_set : {true, false}) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if ((StorageAddress(inputs[i]) != entry[i].storage._unsafe_get_target()) == is_set) {
        input_of_storage_[StorageAddress(inputs[i])] = static_cast<int>(i);
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_of_tensor_[inputs[i].unsafeGetTensorImpl()] = static_cast<int>(i);
  }
  for (size_t i = 0; i < outputs.size(); ++i) AddOutput(static_cast<int>(i));
}

void OutputClassifier::AddOutput(int index) {
  const at::Tensor& output = outputs_[static_cast<size_t>(index)];
  if (!output.defined() || IsWrappedNumber(output)) return;
  output_of_tensor_[output.unsafeGetTensorImpl()] = index;
  AliasGroup& group = group_of_storage_[StorageAddress(output)];
  ++group.num_outputs;
  at::FunctionalTensorWrapper* wrapper = FunctionalWrapperOf(output);
  if (wrapper != nullptr && wrapper->is_multi_output_view()) ++group.num_multi_output_views;
}

int OutputClassifier::FindDifferentiableTwin(const at::Tensor& output) const {
  for (const at::Tensor& other : outputs_) {
    if (!other.defined() || IsWrappedNumber(other) || other.is_same(output) || !other.requires_grad()) continue;
    if (StorageAddress(other) == StorageAddress(output) && LooksAlike(other, output)) {
      return output_of_tensor_.at(other.unsafeGetTensorImpl());
    }
  }
  return -1;
}

void OutputClassifier::ClassifyView(const at::Tensor& output, OutputAliasInfo& info) {
  // The memory is visible through this output only, or otherwise only through multi-output views,
  // which must not be written to.
  if (group_of_storage_.at(StorageAddress(output)).num_ordinary() <= 1 ||
      group_of_storage_.at(StorageAddress(output)).num_outputs == 1) {
    info.output_type = OutputType::kUnsafeViewAlias;
    return;
  }
  const at::Tensor base = *AutogradBaseOf(output);
  // Elements outside the final view of the base cannot be made from it: NON_ALIAS in the same
  // storage.
  if (FunctionalWrapperOf(base)->has_metadata_mutation() && !Covers(LayoutOf(base), LayoutOf(output))) return;
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

bool OutputClassifier::HasOwnGradFn(const at::Tensor& output, const at::Tensor& input) const {
  if (!output.requires_grad() || GradFnIfKnown(output) == nullptr) return false;
  return !AutogradBaseOf(output).value_or(output).is_same(AutogradBaseOf(input).value_or(input));
}

void OutputClassifier::Classify(const at::Tensor& output, OutputAliasInfo& info) {
  info.output_type = OutputType::kNonAlias;
  if (FunctionalWrapperOf(output) == nullptr) return;  // a captured tensor
  if (!ClassifyAliasOfInput(output, info)) ClassifyAliasOfIntermediate(output, info);
}

bool OutputClassifier::ClassifyAliasOfInput(const at::Tensor& output, OutputAliasInfo& info) {
  const auto as_input = input_of_tensor_.find(output.unsafeGetTensorImpl());
  const bool is_input = as_input != input_of_tensor_.end();
  const auto owner = input_of_storage_.find(StorageAddress(output));
  const bool is_in_input = owner != input_of_storage_.end();
  const auto share_storage = [&] {
    info.shared_storage = SharedStorage{SharedStorage::Owner::kInput, owner->second, false, /*is_detached=*/true};
  };
  if (is_in_input && !is_input && IsCustomFunctionResult(output)) {
    info.output_type = OutputType::kCustomFunctionView;
    share_storage();
    return true;
  }
  if (is_in_input && !FunctionalWrapperOf(output)->was_storage_changed()) {
    info.base_index = is_input ? as_input->second : owner->second;
    if (!is_input && HasOwnGradFn(output, inputs_[static_cast<size_t>(owner->second)])) {
      share_storage();
      return true;
    }
    // All aliases in this group are multi-output views (unbind): treated as NON_ALIAS.
    if (group_of_storage_.at(StorageAddress(output)).num_ordinary() == 0 && GradFnOf(output) != nullptr) return true;
    info.output_type = is_input ? OutputType::kIsInput : OutputType::kAliasOfInput;
    return true;
  }
  if (is_input) {
    info.base_index = as_input->second;
    info.output_type = OutputType::kIsInput;
    return true;
  }
  const std::optional<at::Tensor> base = AutogradBaseOf(output);
  if (!base.has_value() || StorageAddress(*base) != StorageAddress(output)) return false;
  const auto base_input = input_of_tensor_.find(base->unsafeGetTensorImpl());
  if (base_input == input_of_tensor_.end()) return false;
  // A view in the storage that `set_` gave the input.
  info.base_index = base_input->second;
  info.output_type = OutputType::kAliasOfInput;
  return true;
}

void OutputClassifier::ClassifyAliasOfIntermediate(const at::Tensor& output, OutputAliasInfo& info) {
  const std::optional<at::Tensor> base = AutogradBaseOf(output);
  if (base.has_value() && output.requires_grad() && base->requires_grad()) {
    // The gradient of a custom function differs from that of the view that it returns.
    const bool is_only_output = group_of_storage_.at(StorageAddress(output)).num_outputs == 1;
    if (is_only_output || !IsCustomFunctionResult(output)) ClassifyView(output, info);
    return;
  }
  if (const int twin = output.requires_grad() ? -1 : FindDifferentiableTwin(output); twin >= 0) {
    info.output_type = OutputType::kAliasOfIntermediateBaseIsUserOutput;
    info.base_index = twin;
    return;
  }
  if (!base.has_value() || !LooksAlike(output, *base)) return;
  const auto found = output_of_tensor_.find(base->unsafeGetTensorImpl());
  if (found == output_of_tensor_.end()) return;
  info.output_type = OutputType::kAliasOfIntermediateBaseIsUserOutput;
  info.base_index = found->second;
}

void OutputClassifier::DescribeViews(const at::Tensor& output, size_t index, OutputAliasInfo& info) {
  const bool of_input = !IsAliasOfIntermediate(info.output_type);
  const at::Tensor& base = of_input                                                               ? inputs_[index]
                           : info.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput ? outputs_[index]
                                                                                                  : bases_[index];
  if (FunctionalWrapperOf(base) == nullptr) return;
  const ViewMetas views = ViewMetasOf(output);
  const ViewMetas base_views = ViewMetasOf(base);
  const at::Tensor real_base = of_input ? exit_[index].real : RealWithGeometryOf(base);
  const auto record = [&info](ReplayedViews replayed) {
    info.geometry = GeometryOf(replayed.result);
    if (replayed.complete) info.view_steps = std::move(replayed.steps);
    if (replayed.complete && info.view_steps.empty()) info.view_steps = {view::Alias{}};
  };
  if (HasViewPrefix(views, base_views)) return record(ReplayViews(views.subspan(base_views.size()), real_base));
  if (of_input && !exit_[index].same_storage) return;
  DescribeFromStorage(output, base, index, real_base, info);
}

void OutputClassifier::DescribeFromStorage(const at::Tensor& output, const at::Tensor& base, size_t index,
                                           const at::Tensor& real_base, OutputAliasInfo& info) {
  const bool of_input = !IsAliasOfIntermediate(info.output_type);
  const at::Tensor root = of_input ? RealTensorOf(entry_[index].proxy) : StorageRootOf(base);
  ReplayedViews replayed = ReplayViews(ViewMetasOf(output), root);
  if (!of_input && !SameGeometry(ReplayViews(ViewMetasOf(base), root).result, real_base)) return;
  info.geometry = GeometryOf(replayed.result);
  const bool same_bits =
      replayed.result.is_conj() == real_base.is_conj() && replayed.result.is_neg() == real_base.is_neg();
  const bool covers_root =
      of_input || (root.scalar_type() == real_base.scalar_type() && Covers(LayoutOf(real_base), LayoutOf(root)));
  if (same_bits && replayed.result.scalar_type() == real_base.scalar_type()) {
    info.view_steps = {AsStridedStep(replayed.result)};
  } else if (replayed.complete && covers_root) {
    info.view_steps = std::move(replayed.steps);
    info.view_steps.insert(info.view_steps.begin(), AsStridedStep(root));
  } else if (same_bits && SameGeometry(replayed.result, real_base)) {
    info.view_steps = BitsSteps(real_base, replayed.result.scalar_type());
  }
}

OutputAliasInfo OutputClassifier::Describe(int index) {
  const at::Tensor& output = outputs_[static_cast<size_t>(index)];
  OutputAliasInfo info;
  if (!output.defined()) {
    info.scalar = NoneValue();
    return info;
  }
  if (IsWrappedNumber(output)) {
    info.scalar = WrappedNumberOf(output);
    return info;
  }
  Classify(output, info);
  SetRequiresGrad(output, info);
  info.geometry = GeometryOf(output);
  if (IsFreshMemory(info.output_type)) {
    DescribeNonAlias(output, info);
    return info;
  }
  if (info.output_type == OutputType::kIsInput) return info;
  DescribeViews(output, static_cast<size_t>(*info.base_index), info);
  const bool ends_detached = !info.view_steps.empty() && std::holds_alternative<view::Detach>(info.view_steps.back());
  info.not_a_view = !output.is_view() && !ends_detached;
  return info;
}

void OutputClassifier::SetRequiresGrad(const at::Tensor& output, OutputAliasInfo& info) const {
  info.requires_grad = output.requires_grad();
  const torch::autograd::Node* grad_fn =
      info.output_type == OutputType::kIsInput ? GradFnIfKnown(output) : GradFnOf(output);
  info.requires_grad_for_backward = info.requires_grad && (!output.is_view() || grad_fn != nullptr);
}

void OutputClassifier::DescribeNonAlias(const at::Tensor& output, OutputAliasInfo& info) {
  // Multi-output views of an input are NON_ALIAS, but share its storage.
  if (info.base_index.has_value() && !info.shared_storage.has_value()) {
    info.shared_storage = SharedStorage{SharedStorage::Owner::kInput, *info.base_index, false};
  }
  info.is_new_leaf = info.requires_grad && !output.is_view() && GradFnIfKnown(output) == nullptr;
  if (info.shared_storage.has_value()) DescribeViews(output, static_cast<size_t>(info.shared_storage->index), info);
}

}  // namespace cotan::aot
