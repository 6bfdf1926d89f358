// SPDX-License-Identifier: Apache-2.0

#include "examples/common/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan::examples {

absl::StatusOr<std::string> FindDataFile(absl::string_view argv0, absl::string_view path) {
  constexpr absl::string_view kWorkspace = "cotan";
  std::vector<std::string> places;
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr) places.push_back(absl::StrCat(folder, "/", kWorkspace, "/", path));
  }
  places.push_back(absl::StrCat(argv0, ".runfiles/", kWorkspace, "/", path));
  places.emplace_back(path);
  for (const std::string& place : places) {
    if (access(place.c_str(), R_OK) == 0) return place;
  }
  return absl::NotFoundError(absl::StrCat("cannot find ", path, "; looked at ", absl::StrJoin(places, ", "),
                                          ". Start the program with `./bazelw run`"));
}

std::string UserPath(absl::string_view path) {
  const char* folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (path.empty() || absl::StartsWith(path, "/") || folder == nullptr) return std::string(path);
  return absl::StrCat(folder, "/", path);
}

}  // namespace cotan::examples
