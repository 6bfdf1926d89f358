// SPDX-License-Identifier: Apache-2.0

// Runs one aten op twice and compares the results: by LibTorch, and lowered, emitted, loaded and run by a
// session.
#ifndef COTAN_TESTING_OPS_OP_RUNNER_H_
#define COTAN_TESTING_OPS_OP_RUNNER_H_

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/registry.h"

namespace cotan::testing {

using OpArguments = std::vector<c10::IValue>;

struct OpOutcome {
  enum class Kind : uint8_t {
    kCompared,
    kRefusedByLibTorch,  // LibTorch rejects the arguments; `message` is its error
    kUnsupported,        // lowering or the kernel registry returns Unimplemented or NotFound
    kFailed,             // another status, or results of another number, dtype or sizes
  };
  Kind kind = Kind::kFailed;
  std::string message;
  // Error of the worst output: max|a - e| / (eps(dtype) * max|e|), infinite where NaN, infinities,
  // integers or bools differ.
  double error = 0;
};

// Runs "aten.add.Tensor" on `arguments`, one per argument of its schema.
OpOutcome RunOpBothWays(const std::string& op, const OpArguments& arguments, const KernelRegistry& kernels);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_OP_RUNNER_H_
