// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/non_alias_views.h"

#include <torch/csrc/autograd/variable.h>

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "aot/aotautograd/functional_tensor.h"
#include "aot/aotautograd/grad_fn.h"

namespace cotan::aot {
namespace {

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
bool MayBeNonAliasView(const OutputAliasInfo& info) {
  if (!info.is_tensor() || !IsFreshMemory(info.output_type)) return false;
  const std::optional<SharedStorage>& shared = info.shared_storage;
  if (!shared.has_value()) return true;
  return !shared->is_same_tensor && (shared->owner != SharedStorage::Owner::kInput || shared->is_detached);
}

}  // namespace

void SetNonAliasViews(absl::Span<const at::Tensor> outputs, ViewAndMutationMetaFields& facts) {
  absl::flat_hash_map<const void*, int> output_of_tensor;
  absl::flat_hash_map<const void*, int> hidden_of_tensor;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!MayBeNonAliasView(facts.output_info[i]) || outputs[i].is_view()) continue;
    output_of_tensor.try_emplace(outputs[i].unsafeGetTensorImpl(), static_cast<int>(i));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!MayBeNonAliasView(facts.output_info[i]) || !outputs[i].is_view()) continue;
    const at::Tensor base = *AutogradBaseOf(outputs[i]);
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

}  // namespace cotan::aot
