// SPDX-License-Identifier: Apache-2.0

// `cotan reduce`: shrinks a program while a property holds.
#ifndef COTAN_RUNTIME_TOOLS_REDUCE_H_
#define COTAN_RUNTIME_TOOLS_REDUCE_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/execution/program.h"

namespace cotan::tools {

struct Reduction {
  std::string bytes;   // of the smallest file that still fails
  int num_ops = 0;     // of its method
  int candidates = 0;  // files that `fails` was asked about
};

// Returns whether the file with these bytes still fails. An error ends the reduction.
using StillFails = absl::FunctionRef<absl::StatusOr<bool>(absl::string_view bytes)>;

// Removes all methods but `method`, then its updates, results and ops, halving the groups that are removed at once
// (delta debugging), until no single one can be removed. Results of a removed op that others read become zeros:
// constants, or the results of an op without inputs where sizes are dynamic. States that nothing needs are removed.
// Metadata, signature and backward are dropped; recorded runs keep their arguments and the results that remain, with
// the values of the whole program. Every candidate has passed VerifyArtifact() and has a plan. `program` was loaded
// with recorded runs. NotFound: there is no such method. Unimplemented: its sizes depend on data. FailedPrecondition:
// the program with this method alone does not fail. Errors of `fails` and of Program::RecordedSegment().
absl::StatusOr<Reduction> Reduce(const Program& program, absl::string_view method, StillFails fails);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_REDUCE_H_
