// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/profile.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
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

std::string ProfileLines(absl::string_view method, absl::Span<const ProfiledStep> steps) {
  const auto plain = [](absl::string_view text) {
    return absl::StrReplaceAll(text, {{"\t", " "}, {"\n", " "}, {"\r", " "}});
  };
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i) {
    absl::StrAppendFormat(&text, "%s\t%d\t%.3f\t%s\n", plain(method), i, steps[i].min_us, plain(steps[i].name));
  }
  return text;
}

absl::StatusOr<std::map<std::string, std::vector<ProfiledStep>>> ParseProfile(absl::string_view text) {
  std::map<std::string, std::vector<ProfiledStep>> methods;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ++number;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits('\t', 3));
    ProfiledStep step;
    size_t index = 0;
    if (fields.size() == 4 && absl::SimpleAtoi(fields[1], &index) && absl::SimpleAtod(fields[2], &step.min_us)) {
      std::vector<ProfiledStep>& steps = methods[std::string(fields[0])];
      if (index == steps.size() && step.min_us >= 0) {
        step.name = std::string(fields[3]);
        steps.push_back(std::move(step));
        continue;
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("line ", number, " of the profile is not a step in the form of `cotan bench --profile=FILE`"));
  }
  return methods;
}

}  // namespace cotan::tools
