// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/loss_metadata.h"

#include <cstddef>
#include <vector>

#include "aot/aotautograd/shared_storage.h"

namespace cotan::aot {
void RestrictToLoss(absl::Span<const at::Tensor> outputs, int loss, ViewAndMutationMetaFields& facts) {
  for (size_t i = 0; i < facts.output_info.size(); ++i) {
    OutputAliasInfo& info = facts.output_info[i];
    if (static_cast<int>(i) != loss) info.requires_grad_for_backward = false;
    if (!IsAliasOfIntermediate(info.output_type)) continue;
    // The base of these outputs gets no gradient.
    info.output_type = OutputType::kUnsafeViewAlias;
    info.base_index.reset();
    info.view_steps.clear();
  }
  for (OutputAliasInfo& info : facts.output_info) {
    info.non_alias_view.reset();
    if (!IsFreshMemory(info.output_type)) continue;
    info.not_a_view = false;
  }
  facts.num_intermediate_bases = 0;
  SetSharedStorage(outputs, /*intermediate_bases=*/{}, facts);
  for (InputAliasInfo& info : facts.input_info) {
    // The grad_fn of the new content is dropped at the end of the step.
    if (info.mutates_data && info.requires_grad_at_entry.has_value()) {
      info.requires_grad = *info.requires_grad_at_entry;
      info.requires_grad_at_entry.reset();
      info.history = GradFnChange::kUnspecified;
    }
  }
  std::erase_if(facts.tangents, [loss](const TangentMeta& tangent) {
    return tangent.source.kind != ForwardTensor::Kind::kOutput || tangent.source.index != loss;
  });
  facts.is_train = true;
}

}  // namespace cotan::aot
