// SPDX-License-Identifier: Apache-2.0

// The commands of the cotan binary.
#ifndef COTAN_RUNTIME_TOOLS_COMMANDS_H_
#define COTAN_RUNTIME_TOOLS_COMMANDS_H_

#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/registry.h"

namespace cotan::tools {

// Returns the text that `cotan --help` prints.
absl::string_view Usage();

// Runs the command named by the first argument (argv without the program's name) with the given kernels and
// writes its output to `out`.
// InvalidArgument: there is no such command, or the options are invalid.
// Aborted: `verify` found differences.
// Errors of Program and Session.
absl::Status RunCommand(absl::Span<const char* const> arguments, const KernelRegistry& kernels, std::ostream& out);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_COMMANDS_H_
