// `cotan verify`: does this device compute what LibTorch computed?
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
};

// Replays the artifact's recorded runs and writes a line for each result and
// each state after it: whether it is within its tolerance and by how much.
// FailedPrecondition: nothing is recorded. Errors of Session.
absl::StatusOr<VerifyResult> Verify(std::shared_ptr<const Program> program, const SessionOptions& options,
                                    std::ostream& out);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_VERIFY_H_
