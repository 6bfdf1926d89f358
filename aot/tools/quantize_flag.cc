// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/quantize_flag.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace cotan::aot {
namespace {

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("quantize '", text, "': ", why, ". The form is '*.weight:int8' or '*.weight:int4,group=32'"));
}

}  // namespace

absl::StatusOr<QuantizeOptions> ParseQuantize(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  QuantizeOptions options;
  for (const absl::string_view pattern : absl::StrSplit(parts.first, ',')) {
    options.parameters.emplace_back(absl::StripAsciiWhitespace(pattern));
    if (options.parameters.back().empty()) return Malformed(text, "a pattern is empty");
  }
  const std::vector<std::string> settings = absl::StrSplit(std::string(parts.second), ',');
  if (settings[0] != "int8" && settings[0] != "int4") {
    return Malformed(text, absl::StrCat("'", settings[0], "' is not a type"));
  }
  options.bits = settings[0] == "int8" ? 8 : 4;
  for (size_t i = 1; i < settings.size(); ++i) {
    absl::string_view group = settings[i];
    if (!absl::ConsumePrefix(&group, "group=")) return Malformed(text, absl::StrCat("'", settings[i], "' is unknown"));
    if (absl::SimpleAtoi(group, &options.group) && options.group > 0) continue;
    return Malformed(text, absl::StrCat("'", group, "' is not a size of a group"));
  }
  return options;
}

}  // namespace cotan::aot
