// Finding files whether a program is started by Bazel or by hand.
#ifndef COTAN_EXAMPLES_COMMON_PATHS_H_
#define COTAN_EXAMPLES_COMMON_PATHS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::examples {

// Where the file lies that BUILD names as data of this program; `path` is its
// path in the workspace, `argv0` what main() was given.
// NotFound: the message lists the places where it was looked for.
absl::StatusOr<std::string> FindDataFile(absl::string_view argv0, absl::string_view path);

// `path` as the user meant it: `bazel run` starts programs in a folder other
// than the one where it was called.
std::string UserPath(absl::string_view path);

}  // namespace cotan::examples

#endif  // COTAN_EXAMPLES_COMMON_PATHS_H_
