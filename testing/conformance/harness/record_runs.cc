// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/record_runs.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <memory>
#include <sstream>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "runtime/tools/verify.h"
#include "testing/conformance/harness/compiled_case.h"
#include "testing/conformance/harness/compiled_run.h"

namespace cotan::conformance {
namespace {

// Returns the artifact of a case. FailedPrecondition: the CPU does not repeat its recorded runs. Errors of the compiler
// and of tools::Verify().
absl::StatusOr<std::string> RecordCase(const ConfCase& c) {
  COTAN_ASSIGN_OR_RETURN(std::string artifact, CompileRecorded(c));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::LoadBytes(artifact, c.name));
  std::ostringstream lines;
  COTAN_ASSIGN_OR_RETURN(const tools::VerifyResult result, tools::Verify(program, OnHost(), lines));
  if (result.failed > 0) return absl::FailedPreconditionError(lines.str());
  if (result.passed == 0) return absl::FailedPreconditionError("it has no results");
  return artifact;
}

}  // namespace

absl::Status RecordRuns(const std::vector<ConfCase>& table, const std::string& folder) {
  at::set_num_threads(1);
  for (const ConfCase& c : table) {
    const absl::StatusOr<std::string> artifact = RecordCase(c);
    if (!artifact.ok()) {
      std::printf("not recorded: %s: %s\n", c.name, artifact.status().ToString().c_str());
      continue;
    }
    COTAN_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", c.name, ".cotan"), {*artifact}));
  }
  return absl::OkStatus();
}

}  // namespace cotan::conformance
