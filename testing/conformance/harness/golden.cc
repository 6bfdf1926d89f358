// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/golden.h"

#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cotan::conformance {

absl::StatusOr<Golden> Golden::Load(const std::string& path) {
  std::ifstream stream(path);
  if (!stream.is_open()) return absl::NotFoundError(absl::StrCat("cannot read '", path, "'"));
  Json file = Json::parse(stream, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded() || !file.contains("cases") || !file.contains("errors")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is not a golden file: expected a JSON object with cases and errors"));
  }
  return Golden(std::move(file));
}

const Json* Golden::Find(const std::string& case_name) const {
  const Json& cases = file_["cases"];
  const auto found = cases.find(case_name);
  return found == cases.end() ? nullptr : &*found;
}

}  // namespace cotan::conformance
