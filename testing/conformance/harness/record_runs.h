// SPDX-License-Identifier: Apache-2.0

// Writes cases as artifacts with the recorded runs of LibTorch, for devices of machines without LibTorch.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_RECORD_RUNS_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_RECORD_RUNS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Writes NAME.cotan to `folder`, which exists, for each case whose recorded runs the CPU repeats (tools::Verify()), and
// prints a line for each other one. `cotan verify` compares results, written inputs and gradients with those of eager,
// but neither aliasing nor metadata. Errors of WriteFileAtomically().
absl::Status RecordRuns(const std::vector<ConfCase>& table, const std::string& folder);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_RECORD_RUNS_H_
