// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/profile.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace cotan::tools {
namespace {

// The number of steps that a profile shows first.
constexpr size_t kWorst = 10;

// Formats the lines of a profile.
class ProfileLine {
 public:
  ProfileLine(double total_us, bool has_bounds) : total_us_(total_us), has_bounds_(has_bounds) {}

  std::string operator()(double us, double bound_us, absl::string_view name) const {
    std::string line = absl::StrFormat("%10.1f us", us);
    if (has_bounds_) absl::StrAppendFormat(&line, "  bound %10.1f us %6.2f x", bound_us, Ratio(us, bound_us));
    absl::StrAppendFormat(&line, "  %5.1f %%  %s\n", 100 * Ratio(us, total_us_), name);
    return line;
  }

 private:
  static double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

  const double total_us_;
  const bool has_bounds_;
};

}  // namespace

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

void AddBounds(const PlannedMethod& planned, const MachineRates& rates, absl::Span<ProfiledStep> steps) {
  if (planned.steps.size() != steps.size()) return;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepCost& cost = planned.steps[i];
    steps[i].kind = cost.name;
    steps[i].bound_us = rates.BoundNs(cost.work, cost.dtype) / 1000;
  }
}

std::map<std::string, ProfileSums> SumsByKind(absl::Span<const ProfiledStep> steps) {
  std::map<std::string, ProfileSums> sums;
  for (const ProfiledStep& step : steps) {
    ProfileSums& sum = sums[step.kind];
    ++sum.steps;
    sum.min_us += step.min_us;
    sum.bound_us += step.bound_us;
  }
  return sums;
}

std::string ProfileText(absl::Span<const ProfiledStep> steps, size_t rows) {
  ProfileSums all;
  for (const auto& [kind, sum] : SumsByKind(steps)) {
    all.min_us += sum.min_us;
    all.bound_us += sum.bound_us;
  }
  const bool has_bounds = all.bound_us > 0;
  const ProfileLine line(all.min_us, has_bounds);
  std::string text = line(all.min_us, all.bound_us, absl::StrCat("all ", steps.size(), " steps"));
  if (has_bounds) {
    for (const auto& [kind, sum] : SumsByKind(steps)) {
      text += line(sum.min_us, sum.bound_us, absl::StrCat("all ", sum.steps, " steps of kind ", kind));
    }
  }
  std::vector<const ProfiledStep*> order;
  for (const ProfiledStep& step : steps) order.push_back(&step);
  const size_t worst = has_bounds ? std::min(kWorst, order.size()) : 0;
  std::stable_sort(order.begin(), order.end(), [](const ProfiledStep* a, const ProfiledStep* b) {
    return a->min_us - a->bound_us > b->min_us - b->bound_us;
  });
  std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(worst), order.end(),
                   [](const ProfiledStep* a, const ProfiledStep* b) { return a->min_us > b->min_us; });
  for (size_t i = 0; i < std::min(rows, order.size()); ++i) {
    if (i == 0 && worst > 0) absl::StrAppend(&text, "farthest above their bounds:\n");
    if (i == worst && worst > 0) absl::StrAppend(&text, "others, by time:\n");
    text += line(order[i]->min_us, order[i]->bound_us, order[i]->name);
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
