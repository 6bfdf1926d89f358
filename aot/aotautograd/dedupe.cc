// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/dedupe.h"

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aot/aotautograd/metadata_indexes.h"

namespace cotan::aot {
std::vector<int> FindDuplicates(const ViewAndMutationMetaFields& facts, absl::Span<const InputDescription> inputs) {
  absl::flat_hash_map<uintptr_t, int> unique_of;
  std::vector<int> map;
  bool must_remove = false;
  int next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto [found, inserted] = unique_of.try_emplace(inputs[i].identity, next);
    if (inserted) ++next;
    map.push_back(found->second);
    const InputAliasInfo& info = facts.input_info[i];
    const bool is_new_leaf = info.history == GradFnChange::kNewLeaf;
    must_remove |=
        !inserted && (info.mutates_data || info.mutates_metadata || is_new_leaf || inputs[i].has_metadata_mutation);
  }
  return must_remove ? map : std::vector<int>();
}

ViewAndMutationMetaFields RemoveDupeMetadata(const ViewAndMutationMetaFields& facts, const InputBinding& binding) {
  ViewAndMutationMetaFields result = facts;
  const std::vector<int>& map = binding.add_dupe_map;
  const std::vector<bool> keep = binding.KeepArgMask(static_cast<int>(map.size()));
  result.input_info.clear();
  for (int input : binding.KeptInputs(static_cast<int>(map.size()))) {
    result.input_info.push_back(facts.input_info[static_cast<size_t>(input)]);
  }
  for (InputAliasInfo& info : result.input_info) {
    if (HasInputAsStorageOwner(info)) info.new_storage->input = map[static_cast<size_t>(info.new_storage->input)];
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

}  // namespace cotan::aot
