// SPDX-License-Identifier: Apache-2.0

// Checks the options of a session against its program.
#ifndef COTAN_RUNTIME_SESSION_OPTIONS_CHECK_H_
#define COTAN_RUNTIME_SESSION_OPTIONS_CHECK_H_

#include "absl/status/status.h"
#include "kernels/api/device.h"
#include "runtime/execution/program.h"
#include "runtime/session/session.h"

namespace cotan {

// Returns OK if a session of `program` can have these options on `device`, their device or the host. Errors are those
// of Session::Create() that are about options.
absl::Status CheckOptions(const Program& program, const SessionOptions& options, const Device& device);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_OPTIONS_CHECK_H_
