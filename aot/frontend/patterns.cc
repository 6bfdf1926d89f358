// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/patterns.h"

#include <fnmatch.h>

#include "absl/algorithm/container.h"

namespace cotan::aot {

bool Matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool Matches(const std::string& pattern, const ModuleState& state) {
  const auto matches = [&](const std::string& name) { return Matches(pattern, name); };
  return matches(state.name) || absl::c_any_of(state.aliases, matches);
}

}  // namespace cotan::aot
