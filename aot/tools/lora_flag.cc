// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/lora_flag.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("lora '", text, "': ", why, ". The form is '*.q_proj,*.v_proj:r=8,alpha=16'"));
}

absl::Status SetSetting(absl::string_view text, absl::string_view setting, LoraOptions& options, bool& has_alpha) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(setting, absl::MaxSplits('=', 1));
  const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
  if (name == "r") {
    if (absl::SimpleAtoi(parts.second, &options.rank) && options.rank > 0) return absl::OkStatus();
    return Malformed(text, absl::StrCat("'", parts.second, "' is not a rank"));
  }
  if (name == "alpha") {
    has_alpha = true;
    if (absl::SimpleAtod(parts.second, &options.alpha) && options.alpha > 0) return absl::OkStatus();
    return Malformed(text, absl::StrCat("'", parts.second, "' is not a positive number"));
  }
  return Malformed(text, absl::StrCat("'", name, "' is unknown"));
}

}  // namespace

absl::StatusOr<LoraOptions> ParseLora(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  LoraOptions options;
  for (absl::string_view pattern : absl::StrSplit(parts.first, ',')) {
    options.modules.emplace_back(absl::StripAsciiWhitespace(pattern));
    if (options.modules.back().empty()) return Malformed(text, "a pattern is empty");
  }
  bool has_alpha = false;
  for (absl::string_view setting : absl::StrSplit(parts.second, ',', absl::SkipWhitespace())) {
    COTAN_RETURN_IF_ERROR(SetSetting(text, setting, options, has_alpha));
  }
  if (!has_alpha) options.alpha = 2 * static_cast<double>(options.rank);
  return options;
}

}  // namespace cotan::aot
