// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/command_line.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace cotan::tools {

absl::StatusOr<CommandLine> CommandLine::Parse(absl::Span<const char* const> arguments,
                                               absl::Span<const absl::string_view> known) {
  CommandLine line;
  for (absl::string_view argument : arguments) {
    if (!absl::ConsumePrefix(&argument, "--")) {
      line.words_.emplace_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const absl::string_view name = argument.substr(0, equals);
    const absl::string_view value = equals == absl::string_view::npos ? "" : argument.substr(equals + 1);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown option --", name,
          "; there are: ", known.empty() ? std::string("none") : absl::StrCat("--", absl::StrJoin(known, ", --"))));
    }
    if (!line.options_.emplace(name, value).second) {
      return absl::InvalidArgumentError(absl::StrCat("option --", name, " is given twice"));
    }
  }
  return line;
}

std::string CommandLine::Text(absl::string_view option, absl::string_view fallback) const {
  const auto found = options_.find(option);
  return found == options_.end() ? std::string(fallback) : found->second;
}

absl::StatusOr<int> CommandLine::Number(absl::string_view option, int fallback, int least) const {
  const auto found = options_.find(option);
  if (found == options_.end()) return fallback;
  int number = 0;
  if (absl::SimpleAtoi(found->second, &number) && number >= least) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, "=", found->second, ": expected an integer of at least ", least));
}

absl::StatusOr<std::optional<double>> CommandLine::Real(absl::string_view option, double least, double most) const {
  const auto found = options_.find(option);
  if (found == options_.end()) return std::optional<double>();
  double number = 0;
  if (absl::SimpleAtod(found->second, &number) && number >= least && number <= most) {
    return std::optional<double>(number);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, "=", found->second, ": expected a number from ", least, " to ", most));
}

}  // namespace cotan::tools
