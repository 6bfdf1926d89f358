// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/input_binding.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/dedupe.h"
#include "aot/aotautograd/synthetic_base_metadata.h"
#include "aot/aotautograd/synthetic_bases.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Clears storage sharing: the metadata describes it for tensors of the caller only, not for the
// arguments and results of the program.
void ClearSharedStorage(ViewAndMutationMetaFields& facts) {
  for (OutputAliasInfo& info : facts.output_info) {
    info.shared_storage.reset();
    info.non_alias_view.reset();
    if (IsFreshMemory(info.output_type)) info.view_steps.clear();
  }
}

}  // namespace

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
    bound.program_facts = RemoveDupeMetadata(facts, bound.binding);
  }
  const ViewAndMutationMetaFields unique_facts = bound.program_facts;
  COTAN_ASSIGN_OR_RETURN(const MergedViewInputs merged, MergeViewInputs(unique_facts, unique));
  if (!merged.bases.empty()) {
    BindSyntheticBases(merged, unique_facts, unique, bound.binding);
    bound.program_facts = CreateSyntheticBaseMetadata(unique_facts, unique, merged.bases, bound.binding);
  }
  if (!bound.binding.is_identity()) ClearSharedStorage(bound.program_facts);
  COTAN_RETURN_IF_ERROR(bound.binding.Validate("input_binding", static_cast<int>(inputs.size())));
  COTAN_RETURN_IF_ERROR(bound.program_facts.Validate());
  return bound;
}

}  // namespace cotan::aot
