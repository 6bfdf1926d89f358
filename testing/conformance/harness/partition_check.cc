// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/partition_check.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialization/metadata/saved_for_backward.h"

namespace cotan::conformance {
namespace {

// "0: [0,1]" of saved tensor 0 with these dynamic dimensions.
std::vector<std::string> DynamicSaved(const SavedForBackward& saved) {
  std::vector<std::string> texts;
  for (const SavedForBackward::DynamicDims& dynamic : saved.dynamic_tensors) {
    texts.push_back(absl::StrCat(dynamic.tensor, ": ", Describe(dynamic.dims)));
  }
  return texts;
}

std::vector<std::string> DynamicSaved(const Json& golden) {
  std::vector<std::string> texts;
  if (!golden.contains("dynamic_saved_tensors_idxs")) return texts;
  for (const auto& [tensor, dims] : golden["dynamic_saved_tensors_idxs"].items()) {
    texts.push_back(absl::StrCat(tensor, ": ", Describe(dims.get<std::vector<int>>())));
  }
  return texts;
}

// Which values are saved: another partition may save others.
void ComparePartition(const SavedForBackward& saved, const Json& analysis, Differences& d) {
  const Json& golden = analysis["metadata_final_diff"];
  d.ExpectOfPartition("saved.num_tensors", saved.num_tensors,
                      analysis["num_fw_outs_saved_for_bw"].get<int>() - golden["num_symints_saved_for_bw"].get<int>() -
                          golden["num_opaque_objects_saved_for_bw"].get<int>());
  if (golden.contains("bw_donated_idxs") && !golden["bw_donated_idxs"].is_null()) {
    d.ExpectOfPartition("saved.donated", saved.donated, golden["bw_donated_idxs"].get<std::vector<int>>());
  } else {
    d.NotCompared("donated values: the golden file does not have them");
  }
  d.ExpectOfPartition("saved.dynamic_tensors", DynamicSaved(saved), DynamicSaved(golden));
}

}  // namespace

void CompareBackwardMutations(const serialization::ViewAndMutationMeta& meta, const Json& golden, Differences& d) {
  const auto& actual = meta.backward_mutated_inputs();
  d.Expect("backward_mutated_inputs", std::vector<int>(actual.begin(), actual.end()),
           golden["indices_of_inputs_that_requires_grad_with_mutations_in_bw"].get<std::vector<int>>());
}

void CompareSaved(const ViewAndMutationMeta& meta, const Json& analysis, Differences& d) {
  const Json& golden = analysis["metadata_final_diff"];
  const std::optional<SavedForBackward>& saved = meta.facts().saved;
  const bool is_recorded = analysis.contains("num_fw_outs_saved_for_bw");
  if (meta.facts().tangents.empty()) {
    if (is_recorded)
      d.NotCompared("what is saved: without a tangent there is no backward, though the reference has one");
    return;
  }
  d.Expect("saves for a backward", saved.has_value(), is_recorded);
  if (!saved.has_value() || !is_recorded) return;
  if (golden["num_symints_saved_for_bw"].get<int>() > 0) {
    d.NotCompared("sizes that the reference saves for the backward: here they are the call's");
  }
  d.Expect("opaque objects, which graphs do not have here", 0, golden["num_opaque_objects_saved_for_bw"].get<int>());
  d.Expect("saved.num_tensors_without_version_check", saved->num_tensors_without_version_check,
           golden["num_tensors_saved_with_no_vc_check"].get<int>());
  d.Expect("tensors_saved_for_backwards.begin", meta.derived().tensors_saved_for_backwards.begin,
           golden["tensors_saved_for_backwards_slice"][0].get<int>());
  d.Expect("indices_of_inputs_to_detach", meta.facts().indices_of_inputs_to_detach,
           analysis["indices_of_inps_to_detach"].get<std::vector<int>>());
  ComparePartition(*saved, analysis, d);
}

}  // namespace cotan::conformance
