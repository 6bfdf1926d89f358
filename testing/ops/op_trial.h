// SPDX-License-Identifier: Apache-2.0

// Runs any registered op through the compiler in a separate process. For all arguments the compiler must
// compile the op or return a status that names it.
#ifndef COTAN_TESTING_OPS_OP_TRIAL_H_
#define COTAN_TESTING_OPS_OP_TRIAL_H_

#include <string>
#include <vector>

#include "testing/ops/function_runner.h"

namespace cotan::testing {

struct OpTrial {
  enum class Verdict : uint8_t {
    kAgrees,             // results and, if any, gradients are equal to LibTorch's
    kRefused,            // rejected with a status that names an op
    kRefusedByLibTorch,  // LibTorch rejects all guesses, and so does the compiler
    kCrashedInLibTorch,  // before the compiler was called
    kDiffers,            // compiled, but the results differ or the runtime fails
    kNoName,             // rejected with a status that names no op
    kThrew,              // the compiler threw an exception
    kCrashed,            // a signal, or the time limit was exceeded
  };
  Verdict verdict = Verdict::kCrashed;
  std::string message;
};

// Returns the text of a verdict: "agrees", "refused", ...
const char* VerdictName(OpTrial::Verdict verdict);

// Returns whether the compiler handled the op correctly.
bool IsAllowed(OpTrial::Verdict verdict);

// Returns the ops of ATen that take tensors: "aten.add.Tensor", sorted.
std::vector<std::string> OpsOfTensors();

// Returns why an op is not tried, or "" if it is tried. Reasons: the guessed arguments are inconsistent,
// or LibTorch's results are undefined.
std::string WhyNotTried(const std::string& op);

// Compiles and runs `op`, forward and backward, on the first guess that LibTorch accepts (plausible_arguments.h),
// or on the first guess if it accepts none. Forks: call before anything starts the thread pool of LibTorch.
OpTrial TryOp(const std::string& op, uint64_t seed, int limit_seconds);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_OP_TRIAL_H_
