// SPDX-License-Identifier: Apache-2.0

// The commands of the cotan binary.
#ifndef COTAN_RUNTIME_TOOLS_COMMANDS_H_
#define COTAN_RUNTIME_TOOLS_COMMANDS_H_

#include <ostream>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/device.h"
#include "kernels/api/registry.h"

namespace cotan::tools {

// Returns the text that `cotan --help` prints.
absl::string_view Usage();

// The kernels and the device of a command.
struct Backend {
  const KernelRegistry* kernels = nullptr;
  Device* device = nullptr;  // null: the host
};

// Returns the backend for a value of --device: "cpu", or another one that the binary has. Both pointers outlive the
// command.
// InvalidArgument: there is no such backend. Unavailable: the machine has no such device.
using OpenBackend = absl::FunctionRef<absl::StatusOr<Backend>(absl::string_view device)>;

// Returns true if RunCommand() knows the command.
bool IsCommand(absl::string_view name);

// Runs the command named by the first argument (argv without the program's name) on the backend that --device names
// and writes its output to `out`.
// InvalidArgument: there is no such command, or the options are invalid.
// Aborted: `verify` or `diff` found differences.
// FailedPrecondition: `verify` or `bench` of an artifact that records no runs.
// Errors of `open_backend`, Program and Session.
absl::Status RunCommand(absl::Span<const char* const> arguments, OpenBackend open_backend, std::ostream& out);

// Returns the exit status of the process: 0 after success, else 1; as diff(1), `diff` has 1 for artifacts that differ
// and 2 for errors.
int ExitStatus(absl::Span<const char* const> arguments, const absl::Status& status);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_COMMANDS_H_
