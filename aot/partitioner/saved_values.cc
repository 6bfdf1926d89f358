// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/saved_values.h"

#include "absl/container/flat_hash_map.h"
#include "aot/ir/prim_node.h"

namespace cotan::aot {

serialization::SavedForBackward DescribeSaved(const Graph& forward) {
  absl::flat_hash_map<ValueId, ValueId> root;  // the value that a view is of
  absl::flat_hash_map<ValueId, bool> is_input;
  for (const GraphInput& input : forward.inputs()) is_input[input.value] = input.kind == InputKind::kUserInput;
  const auto root_of = [&](ValueId value) {
    const auto found = root.find(value);
    return found == root.end() ? value : found->second;
  };
  for (const Node& node : forward.nodes()) {
    if (IsView(node)) root[node.outputs[0]] = root_of(TensorOperands(node)[0]);
  }
  absl::flat_hash_map<ValueId, int> holders;  // outputs that share a root
  for (const GraphOutput& output : forward.outputs()) {
    if (output.value != kNoValue) ++holders[root_of(output.value)];
  }

  serialization::SavedForBackward saved;
  for (const GraphOutput& output : forward.outputs()) {
    if (output.kind != OutputKind::kSaved) continue;
    const auto input = is_input.find(output.value);
    saved.add_is_input(input != is_input.end() && input->second);
    const ValueId owner = root_of(output.value);
    if (!is_input.contains(owner) && holders[owner] == 1) saved.add_donated(saved.num_tensors());
    saved.set_num_tensors(saved.num_tensors() + 1);
    if (output.without_version_check) {
      saved.set_num_tensors_without_version_check(saved.num_tensors_without_version_check() + 1);
    }
  }
  return saved;
}

}  // namespace cotan::aot
