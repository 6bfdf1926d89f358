// SPDX-License-Identifier: Apache-2.0

// Compares the stages at which Cotan and eager refuse a case.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_STAGE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_STAGE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "testing/conformance/harness/difference.h"

namespace cotan::conformance {

// Stage of a refusal. Eager has kCall and kBackward only.
enum class Stage : uint8_t { kCompile, kLoad, kCall, kBackward };

absl::string_view StageName(Stage stage);

struct Refusal {
  Stage stage;
  absl::Status status;
};

// Adds a difference unless Cotan refuses the case not later than eager, not while loading, and as
// InvalidArgument, FailedPrecondition or Unimplemented. Other codes are failures of Cotan or of the
// machine.
void CompareRefusals(const std::optional<Refusal>& actual, const Refusal& eager, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_STAGE_H_
