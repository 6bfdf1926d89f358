// Where Cotan refuses a case, beside where eager does.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_STAGE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_STAGE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "testing/conformance/harness/difference.h"

namespace cotan::conformance {

// Eager has kCall and kBackward only.
enum class Stage : uint8_t { kCompile, kLoad, kCall, kBackward };

absl::string_view StageName(Stage stage);

struct Refusal {
  Stage stage;
  absl::Status status;
};

// Adds a difference unless Cotan refuses what eager refuses, for a reason that
// is the function's: not later than eager, not while it loads, and as
// InvalidArgument, FailedPrecondition or Unimplemented. Other codes say that
// Cotan itself, or the machine, failed.
void CompareRefusals(const std::optional<Refusal>& actual, const Refusal& eager, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_STAGE_H_
