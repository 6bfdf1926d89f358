// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace cotan::training {
namespace {

constexpr double kPi = 3.14159265358979323846;

// An option of a schedule that the text form can set: one of the two members.
struct TextOption {
  ScheduleKind kind;
  absl::string_view name;
  int64_t ScheduleOptions::*integer;
  double ScheduleOptions::*number;
};

constexpr TextOption kTextOptions[] = {
    {ScheduleKind::kStep, "epochs", &ScheduleOptions::step_epochs, nullptr},
    {ScheduleKind::kStep, "steps", &ScheduleOptions::step_size, nullptr},
    {ScheduleKind::kStep, "gamma", nullptr, &ScheduleOptions::gamma},
    {ScheduleKind::kCosine, "minimum", nullptr, &ScheduleOptions::minimum},
    {ScheduleKind::kOneCycle, "pct_start", nullptr, &ScheduleOptions::pct_start},
    {ScheduleKind::kOneCycle, "div_factor", nullptr, &ScheduleOptions::div_factor},
    {ScheduleKind::kOneCycle, "final_div_factor", nullptr, &ScheduleOptions::final_div_factor},
};

struct KindName {
  ScheduleKind kind;
  absl::string_view name;
};

constexpr KindName kKindNames[] = {{ScheduleKind::kConstant, "constant"},
                                   {ScheduleKind::kStep, "step"},
                                   {ScheduleKind::kCosine, "cosine"},
                                   {ScheduleKind::kOneCycle, "one_cycle"}};

absl::Status SetOption(absl::string_view name, absl::string_view value, ScheduleOptions& options) {
  std::string known;
  for (const TextOption& option : kTextOptions) {
    if (option.kind != options.kind) continue;
    absl::StrAppend(&known, known.empty() ? "" : ", ", option.name);
    if (option.name != name) continue;
    const bool parsed = option.integer != nullptr ? absl::SimpleAtoi(value, &(options.*option.integer))
                                                  : absl::SimpleAtod(value, &(options.*option.number));
    if (parsed) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("'", value, "' is not a value for ", name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no option '", name, "'; there are: ", known.empty() ? "none" : known));
}

// Returns an error unless `holds`.
absl::Status Require(bool holds, absl::string_view option, double value, absl::string_view range) {
  if (holds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("schedule: ", option, " = ", value, "; expected ", range));
}

absl::Status CheckOptions(const ScheduleOptions& o, int64_t total_steps) {
  COTAN_RETURN_IF_ERROR(Require(o.warmup_steps >= 0 && o.warmup_steps < total_steps, "warmup_steps",
                                static_cast<double>(o.warmup_steps),
                                absl::StrCat("0 to ", total_steps - 1, ", fewer than the ", total_steps, " steps")));
  COTAN_RETURN_IF_ERROR(
      Require(o.warmup_start > 0 && o.warmup_start <= 1, "warmup_start", o.warmup_start, "a number in (0, 1]"));
  switch (o.kind) {
    case ScheduleKind::kConstant:
      return absl::OkStatus();
    case ScheduleKind::kStep:
      COTAN_RETURN_IF_ERROR(
          Require(o.step_size >= 0 && o.step_epochs >= 0 && (o.step_size == 0) != (o.step_epochs == 0), "steps",
                  static_cast<double>(o.step_size), "either steps or epochs, at least 1"));
      return Require(o.gamma > 0 && std::isfinite(o.gamma), "gamma", o.gamma, "a number above 0");
    case ScheduleKind::kCosine:
      return Require(o.minimum >= 0 && std::isfinite(o.minimum), "minimum", o.minimum, "a number of at least 0");
    case ScheduleKind::kOneCycle:
      COTAN_RETURN_IF_ERROR(
          Require(o.pct_start > 0 && o.pct_start < 1, "pct_start", o.pct_start, "a number in (0, 1)"));
      COTAN_RETURN_IF_ERROR(
          Require(o.div_factor > 0 && std::isfinite(o.div_factor), "div_factor", o.div_factor, "a number above 0"));
      return Require(o.final_div_factor > 0 && std::isfinite(o.final_div_factor), "final_div_factor",
                     o.final_div_factor, "a number above 0");
  }
  return absl::OkStatus();
}

// Moves from `from` to `to` along half a cosine as `progress` goes from 0 to 1.
double Anneal(double from, double to, double progress) { return to + (from - to) / 2 * (1 + std::cos(kPi * progress)); }

}  // namespace

absl::StatusOr<ScheduleOptions> ParseSchedule(absl::string_view text) {
  ScheduleOptions options;
  const size_t parenthesis = text.find('(');
  const absl::string_view name = text.substr(0, parenthesis);
  const auto* const found =
      std::find_if(std::begin(kKindNames), std::end(kKindNames), [&](const KindName& k) { return k.name == name; });
  if (found == std::end(kKindNames)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no schedule '", name, "'; there are: constant, step, cosine, one_cycle"));
  }
  options.kind = found->kind;
  if (parenthesis == absl::string_view::npos) return options;
  absl::string_view rest = text.substr(parenthesis + 1);
  if (!absl::ConsumeSuffix(&rest, ")")) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' does not end with ')'"));
  }
  for (absl::string_view entry : absl::StrSplit(rest, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    COTAN_RETURN_IF_ERROR(SetOption(parts.first, parts.second, options));
  }
  return options;
}

absl::StatusOr<Schedule> Schedule::Create(const ScheduleOptions& options, int64_t total_steps,
                                          int64_t steps_per_epoch) {
  COTAN_RETURN_IF_ERROR(Require(total_steps >= 1, "total_steps", static_cast<double>(total_steps), "at least 1"));
  COTAN_RETURN_IF_ERROR(
      Require(steps_per_epoch >= 1, "steps_per_epoch", static_cast<double>(steps_per_epoch), "at least 1"));
  COTAN_RETURN_IF_ERROR(CheckOptions(options, total_steps));
  Schedule schedule(options, total_steps - options.warmup_steps);
  if (options.step_epochs != 0 &&
      __builtin_mul_overflow(options.step_epochs, steps_per_epoch, &schedule.options_.step_size)) {
    return absl::InvalidArgumentError(absl::StrCat("schedule: epochs = ", options.step_epochs, " of ", steps_per_epoch,
                                                   " steps each are more steps than 64 bits count; give fewer"));
  }
  return schedule;
}

double Schedule::CosineRate(double base, int64_t step) const {
  const double progress = static_cast<double>(std::min(step, total_steps_)) / static_cast<double>(total_steps_);
  return Anneal(base, options_.minimum, progress);
}

// The phases end at steps that need not be whole numbers, as in torch.
double Schedule::OneCycleRate(double base, int64_t step) const {
  const double first = base / options_.div_factor;
  const double last = first / options_.final_div_factor;
  const double end = static_cast<double>(total_steps_ - 1);
  const double at = std::min(static_cast<double>(step), end);
  const double top = options_.pct_start * static_cast<double>(total_steps_) - 1;
  if (at <= top) return Anneal(first, base, top > 0 ? at / top : 1);
  return Anneal(base, last, end > top ? (at - top) / (end - top) : 1);
}

double Schedule::MainRate(double base, int64_t step) const {
  switch (options_.kind) {
    case ScheduleKind::kConstant:
      break;
    case ScheduleKind::kStep:
      return base * std::pow(options_.gamma, static_cast<double>(step / options_.step_size));
    case ScheduleKind::kCosine:
      return CosineRate(base, step);
    case ScheduleKind::kOneCycle:
      return OneCycleRate(base, step);
  }
  return base;
}

double Schedule::Rate(double base, int64_t step) const {
  if (step >= options_.warmup_steps) return MainRate(base, step - options_.warmup_steps);
  const double progress = static_cast<double>(step) / static_cast<double>(options_.warmup_steps);
  return MainRate(base, 0) * (options_.warmup_start + (1 - options_.warmup_start) * progress);
}

std::string Schedule::ToString() const {
  const ScheduleOptions& o = options_;
  std::string text;
  switch (o.kind) {
    case ScheduleKind::kConstant:
      text = "constant";
      break;
    case ScheduleKind::kStep:
      text = absl::StrFormat("step(steps=%d,gamma=%.17g)", o.step_size, o.gamma);
      break;
    case ScheduleKind::kCosine:
      text = absl::StrFormat("cosine(minimum=%.17g) of %d steps", o.minimum, total_steps_);
      break;
    case ScheduleKind::kOneCycle:
      text = absl::StrFormat("one_cycle(pct_start=%.17g,div_factor=%.17g,final_div_factor=%.17g) of %d steps",
                             o.pct_start, o.div_factor, o.final_div_factor, total_steps_);
      break;
  }
  if (o.warmup_steps == 0) return text;
  return absl::StrFormat("%s after %d steps from %.17g", text, o.warmup_steps, o.warmup_start);
}

}  // namespace cotan::training
