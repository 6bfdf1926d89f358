// SPDX-License-Identifier: Apache-2.0

// Runs any registered op through the compiler, in a separate process. For all arguments the
// compiler has to compile the op or to return a status that names it.
#ifndef COTAN_TESTING_OPS_OP_TRIAL_H_
#define COTAN_TESTING_OPS_OP_TRIAL_H_

#include <string>
#include <vector>

#include "testing/ops/function_runner.h"

namespace cotan::testing {

struct OpTrial {
  enum class Verdict : uint8_t {
    kAgrees,             // results, and gradients where there are any, are LibTorch's
    kRefused,            // by a status that names an op
    kRefusedByLibTorch,  // none of the guessed arguments make sense; compiling them is refused too
    kCrashedInLibTorch,  // before the compiler was called
    kDiffers,            // compiled, with other results than LibTorch's, or not running
    kNoName,             // a status that names no op
    kThrew,              // an exception left the compiler
    kCrashed,            // a signal, or no end within the time limit
  };
  Verdict verdict = Verdict::kCrashed;
  std::string message;
};

// Returns the text of a verdict: "agrees", "refused", ...
const char* VerdictName(OpTrial::Verdict verdict);

// Returns whether the verdict is not a failure of the compiler.
bool IsAllowed(OpTrial::Verdict verdict);

// Returns the ops of ATen that take tensors: "aten.add.Tensor", sorted.
std::vector<std::string> OpsOfTensors();

// Returns why an op is not tried; "" if it is. Reasons: guessed arguments do not fit each other, or
// LibTorch's results are undefined.
std::string WhyNotTried(const std::string& op);

// Compiles and runs `op`, forward and backward, on the first guess that LibTorch accepts (plausible_arguments.h),
// on the first guess if it accepts none. Forks: the process must have run nothing of LibTorch's thread pool before.
OpTrial TryOp(const std::string& op, uint64_t seed, int limit_seconds);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_OP_TRIAL_H_
