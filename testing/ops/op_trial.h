// Any registered op through the compiler, in a process of its own: whatever an op
// is given, the compiler compiles it or returns a status that names it.
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

// For output: "agrees", "refused", ...
const char* VerdictName(OpTrial::Verdict verdict);

// Whether the compiler did what it may do.
bool IsAllowed(OpTrial::Verdict verdict);

// The ops of ATen that take tensors: "aten.add.Tensor", sorted.
std::vector<std::string> OpsOfTensors();

// Why an op's results cannot be compared; "" for nearly all. Guessed arguments do
// not fit each other, or LibTorch's results are not defined.
std::string WhyNotTried(const std::string& op);

// Compiles and runs `op`, forward and backward, on the first guess that LibTorch accepts (plausible_arguments.h),
// on the first guess if it accepts none. Forks: the process must have run nothing of LibTorch's thread pool before.
OpTrial TryOp(const std::string& op, uint64_t seed, int limit_seconds);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_OP_TRIAL_H_
