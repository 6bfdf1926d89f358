// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/profile.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace cotan::tools {

absl::StatusOr<std::vector<ProfiledStep>> Profile(Session& session, MethodHandle method,
                                                  absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                                                  int calls) {
  std::vector<int64_t> nanoseconds;
  COTAN_RETURN_IF_ERROR(session.RunTimed(method, arguments, results, nanoseconds));
  std::vector<int64_t> least;
  for (int call = 0; call < calls; ++call) {
    COTAN_RETURN_IF_ERROR(session.RunTimed(method, arguments, results, nanoseconds));
    if (call == 0) least = nanoseconds;
    for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], nanoseconds[i]);
  }
  COTAN_ASSIGN_OR_RETURN(std::vector<std::string> names, session.StepNames(method));
  std::vector<ProfiledStep> steps;
  for (size_t i = 0; i < least.size(); ++i) {
    steps.push_back({std::move(names[i]), static_cast<double>(least[i]) / 1000});
  }
  return steps;
}

std::string ProfileText(absl::Span<const ProfiledStep> steps, size_t rows) {
  double sum = 0;
  for (const ProfiledStep& step : steps) sum += step.min_us;
  std::vector<ProfiledStep> sorted(steps.begin(), steps.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfiledStep& a, const ProfiledStep& b) { return a.min_us > b.min_us; });
  if (sorted.size() > rows) sorted.resize(rows);
  std::string text = absl::StrFormat("%10.1f us  100.0 %%  all %d steps\n", sum, steps.size());
  for (const ProfiledStep& step : sorted) {
    absl::StrAppendFormat(&text, "%10.1f us  %5.1f %%  %s\n", step.min_us, sum > 0 ? 100 * step.min_us / sum : 0.0,
                          step.name);
  }
  return text;
}

}  // namespace cotan::tools
