// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/metadata_summary.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/aotautograd/analyze_function.h"
#include "serialization/metadata/view_step.h"

namespace cotan::aot {
namespace {

std::string InputText(const InputAliasInfo& info) {
  const MutationType type = MutationTypeOf(info);
  if (type == MutationType::kNotMutated) return "-";
  return absl::StrCat(type == MutationType::kMutatedInGraph ? "IG:" : "OG:", info.mutates_data ? "d" : "",
                      info.mutates_metadata ? "m" : "", info.mutates_storage_metadata ? "s" : "",
                      info.mutations_hidden_from_autograd ? "/hid" : "",
                      info.mutations_under_no_grad_or_inference_mode ? "/ng" : "");
}

std::string OutputText(const OutputAliasInfo& info) {
  static const char* const kTypes[] = {"", "NA", "IN", "IS", "AIS", "AI", "AIB", "UV", "CFV"};
  std::string text = kTypes[static_cast<int>(info.output_type)];
  if (info.base_index.has_value()) absl::StrAppend(&text, *info.base_index);
  std::vector<std::string> steps;
  for (const ViewStep& step : info.view_steps) {
    const std::string full = ToString(step);
    steps.push_back(full.substr(0, full.find('(')));
  }
  if (!steps.empty()) absl::StrAppend(&text, "[", absl::StrJoin(steps, ","), "]");
  if (info.shared_storage.has_value()) {
    static const char* const kOwners[] = {"in", "out", "base"};
    absl::StrAppend(&text, info.shared_storage->is_same_tensor ? "=" : "@",
                    kOwners[static_cast<int>(info.shared_storage->owner)], info.shared_storage->index);
  }
  if (info.requires_grad) text += info.requires_grad_for_backward ? "*" : "^";
  return text;
}

std::string TangentText(const TangentMeta& tangent) {
  static const char* const kKinds[] = {"IM", "P", "IB"};
  return absl::StrCat(kKinds[static_cast<int>(tangent.source.kind)], tangent.source.index);
}

}  // namespace

at::Tensor Leaf(at::IntArrayRef sizes) { return at::rand(sizes).requires_grad_(true); }
at::Tensor NonLeaf(at::IntArrayRef sizes) { return Leaf(sizes) * 1; }
at::Tensor Plain(at::IntArrayRef sizes) { return at::rand(sizes); }

std::string Summary(const ViewAndMutationMetaFields& facts) {
  std::vector<std::string> inputs, outputs, tangents;
  for (const InputAliasInfo& info : facts.input_info) inputs.push_back(InputText(info));
  for (const OutputAliasInfo& info : facts.output_info) outputs.push_back(OutputText(info));
  for (const TangentMeta& tangent : facts.tangents) tangents.push_back(TangentText(tangent));
  std::string text = absl::StrCat(absl::StrJoin(inputs, " "), " | ", absl::StrJoin(outputs, " "), " | ",
                                  absl::StrJoin(tangents, " "), facts.is_train ? " | TR" : " | INF");
  if (facts.num_intermediate_bases > 0) absl::StrAppend(&text, " nib", facts.num_intermediate_bases);
  if (facts.grad_enabled_mutation.has_value()) absl::StrAppend(&text, " grad", *facts.grad_enabled_mutation);
  return text;
}

void Check(const std::vector<AnalyzedCase>& cases) {
  for (const AnalyzedCase& c : cases) {
    AnalyzeFunctionOptions options;
    options.keep_input_mutations = c.keep_input_mutations;
    options.grad_enabled = c.grad_enabled;
    const auto facts = AnalyzeFunction(c.function, {}, c.inputs, options);
    if (facts.ok()) {
      EXPECT_EQ(Summary(*facts), c.summary) << c.name;
    } else {
      EXPECT_EQ(std::string(facts.status().message()), c.summary) << c.name;
    }
    EXPECT_EQ(at::GradMode::is_enabled(), true) << c.name;
  }
}

}  // namespace cotan::aot
