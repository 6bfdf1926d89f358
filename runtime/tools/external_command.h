// SPDX-License-Identifier: Apache-2.0

// Commands that are programs of their own, as those of git(1).
#ifndef COTAN_RUNTIME_TOOLS_EXTERNAL_COMMAND_H_
#define COTAN_RUNTIME_TOOLS_EXTERNAL_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan::tools {

// Returns the path of the program "cotan-NAME" in the folder of this process's program, or only its name, for PATH, if
// it is not there.
std::string ExternalProgram(absl::string_view name);

// Replaces this process by the program "cotan-NAME", where NAME is the first argument, with the other ones. The program
// is in the folder of this process's program, or else in PATH. Returns only errors.
// NotFound: there is no such program, or NAME has other characters than letters, digits, '-' and '_'.
// Unavailable: it cannot be executed.
absl::Status RunExternalCommand(absl::Span<const char* const> arguments);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_EXTERNAL_COMMAND_H_
