// The commands of the cotan binary.
#ifndef COTAN_RUNTIME_TOOLS_COMMANDS_H_
#define COTAN_RUNTIME_TOOLS_COMMANDS_H_

#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/registry.h"

namespace cotan::tools {

// What `cotan --help` prints.
absl::string_view Usage();

// Runs the command named by the first argument (argv without the program's
// name) with the given backend; writes its findings to `out`.
// InvalidArgument: no such command, or wrong options. Aborted: `verify` found
// differences. Errors of Program and Session.
absl::Status RunCommand(absl::Span<const char* const> arguments, const KernelRegistry& kernels, std::ostream& out);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_COMMANDS_H_
