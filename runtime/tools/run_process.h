// SPDX-License-Identifier: Apache-2.0

// Runs another program.
#ifndef COTAN_RUNTIME_TOOLS_RUN_PROCESS_H_
#define COTAN_RUNTIME_TOOLS_RUN_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cotan::tools {

// Descriptors of open files; -1: what the program writes is dropped.
struct ProcessFiles {
  int output = -1;
  int errors = -1;
};

// Runs words[0], found in PATH, with the other words as arguments, without input, and waits for its end.
// Returns its exit status, or 128 plus the number of the signal that ended it.
// NotFound: there is no such program. Unavailable: no process can be made. `words` is not empty.
absl::StatusOr<int> RunProcess(const std::vector<std::string>& words, const ProcessFiles& files = {});

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_RUN_PROCESS_H_
