// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/dedupe.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan {

std::unique_ptr<DedupeStage> DedupeStage::Create(const FunctionMetadata& function) {
  std::vector<Pair> duplicates;
  std::vector<Pair> must_not_alias;
  const auto num_inputs = static_cast<int>(function.inputs.size());
  for (int i = 0; i < num_inputs; ++i) {
    const int original = function.OriginalOf(i);
    if (original != i) duplicates.push_back({i, original});
    if (!function.metadata.input(i).mutates_metadata) continue;
    for (int j = 0; j < num_inputs; ++j) {
      if (original != function.OriginalOf(j)) must_not_alias.push_back({i, j});
    }
  }
  if (duplicates.empty() && must_not_alias.empty()) return nullptr;
  return std::make_unique<DedupeStage>(function, std::move(duplicates), std::move(must_not_alias));
}

absl::Status DedupeStage::Run(CallContext& call) {
  for (const auto& [input, original] : duplicates_) {
    if (call.input(input).is_same(call.input(original))) continue;
    return Refuse(function_, "argument '", function_.input(input).name, "' was the same tensor as '",
                  function_.input(original).name, "' when the program was traced, but the one given is not");
  }
  for (const auto& [input, other] : must_not_alias_) {
    if (!call.input(input).is_same(call.input(other))) continue;
    return Refuse(function_, "argument '", function_.input(other).name, "' is the same tensor as '",
                  function_.input(input).name,
                  "', whose metadata or storage is mutated; they were different tensors when the program was traced");
  }
  return absl::OkStatus();
}

std::string DedupeStage::ToString() const {
  std::vector<std::string> parts;
  for (const auto& [input, original] : duplicates_) {
    parts.push_back(absl::StrCat(function_.input(input).name, " is ", function_.input(original).name));
  }
  for (const auto& [input, other] : must_not_alias_) {
    parts.push_back(absl::StrCat(function_.input(input).name, " is not ", function_.input(other).name));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace cotan
