// SPDX-License-Identifier: Apache-2.0

// Finds files for programs that are started by Bazel or by hand.
#ifndef COTAN_EXAMPLES_COMMON_PATHS_H_
#define COTAN_EXAMPLES_COMMON_PATHS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::examples {

// Returns the path of a file that BUILD names as data of this program. `path` is its path in the
// workspace, `argv0` the first argument of main(). NotFound: the message lists the places that were
// searched.
absl::StatusOr<std::string> FindDataFile(absl::string_view argv0, absl::string_view path);

// Returns `path` relative to the user's working directory: `./bazelw run` starts programs in
// another folder than the one where it was called.
std::string UserPath(absl::string_view path);

}  // namespace cotan::examples

#endif  // COTAN_EXAMPLES_COMMON_PATHS_H_
