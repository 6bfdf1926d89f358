// SPDX-License-Identifier: Apache-2.0

// `cotan verify`: compares the results of this device with those that LibTorch computed.
#ifndef COTAN_RUNTIME_TOOLS_VERIFY_H_
#define COTAN_RUNTIME_TOOLS_VERIFY_H_

#include <memory>
#include <ostream>

#include "absl/status/statusor.h"
#include "runtime/execution/program.h"
#include "runtime/session/session.h"

namespace cotan::tools {

struct VerifyResult {
  int passed = 0;
  int failed = 0;
  int not_checked = 0;  // methods and states
};

// Replays the artifact's recorded runs and writes a line for each result and each state after the run, with
// its error and tolerance. Then writes a line for each method without a recorded run, and one for the states that a
// replayed method updates and whose new contents are not recorded: those of optimizers and generators, and with
// saved-tensor hooks the trained parameters.
// FailedPrecondition: the artifact has no recorded runs.
// Errors of Session.
absl::StatusOr<VerifyResult> Verify(std::shared_ptr<const Program> program, const SessionOptions& options,
                                    std::ostream& out);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_VERIFY_H_
