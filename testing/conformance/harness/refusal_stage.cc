// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/refusal_stage.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::conformance {
namespace {

bool IsOfTheFunction(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status);
}

}  // namespace

absl::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kCompile:
      return "compile";
    case Stage::kLoad:
      return "load";
    case Stage::kCall:
      return "call";
    case Stage::kBackward:
      return "backward";
  }
  return "";
}

void CompareRefusals(const std::optional<Refusal>& actual, const Refusal& eager, Differences& differences) {
  const std::string expected = absl::StrCat(StageName(eager.stage), " of eager: ", eager.status.message());
  if (!actual.has_value()) return differences.Add(absl::StrCat("only eager refuses, ", expected));
  if (actual->stage <= eager.stage && actual->stage != Stage::kLoad && IsOfTheFunction(actual->status)) return;
  differences.Add(absl::StrCat("refused otherwise, ", StageName(actual->stage), ": ", actual->status.ToString(),
                               "; instead of ", expected));
}

}  // namespace cotan::conformance
