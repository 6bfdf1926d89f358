// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/source/device_library.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace cotan::cuda {
namespace {

class Expander {
 public:
  absl::Status Append(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) COTAN_RETURN_IF_ERROR(AppendLine(line));
    return absl::OkStatus();
  }
  std::string Take() { return std::move(result_); }

 private:
  absl::Status AppendLine(absl::string_view line) {
    if (line == "#pragma once") return absl::OkStatus();
    if (!absl::StartsWith(line, "#include")) {
      absl::StrAppend(&result_, line, "\n");
      return absl::OkStatus();
    }
    absl::string_view name = line;
    if (!absl::ConsumePrefix(&name, "#include \"cotan/") || !absl::ConsumeSuffix(&name, "\"")) {
      return absl::InvalidArgumentError(absl::StrCat("'", line, "' is not a header of the device library"));
    }
    const absl::string_view header = DeviceHeader(name);
    if (header.empty()) return absl::InvalidArgumentError(absl::StrCat("the device library has no '", name, "'"));
    if (!included_.insert(std::string(name)).second) return absl::OkStatus();
    return Append(header);
  }

  std::string result_;
  absl::flat_hash_set<std::string> included_;
};

}  // namespace

absl::StatusOr<std::string> ExpandIncludes(absl::string_view text) {
  Expander expander;
  COTAN_RETURN_IF_ERROR(expander.Append(text));
  return expander.Take();
}

}  // namespace cotan::cuda
