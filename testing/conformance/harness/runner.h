// SPDX-License-Identifier: Apache-2.0

// Runs the cases of a table in one or all modes.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_RUNNER_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_RUNNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/session.h"
#include "testing/conformance/harness/compiled_run.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

struct RunnerOptions {
  std::string golden;              // path
  std::string mode = "all";        // "metadata", "eager", "grad", "refusals", "all"
  std::vector<std::string> cases;  // names; empty = all
  std::string known_failures;      // path, see Report::ReadKnownRefusals(); "" = no case is to be refused
  // Path, see Report::ReadPartitionDifferences(); "": facts that the partition decides are not
  // compared.
  std::string partition_differences;
  bool all_differences = false;  // of a case; else the first
  // If true, cases that the golden file lacks are compared with eager alone; otherwise they fail.
  bool partial_golden = false;
  // Options of the sessions that run the cases.
  SessionOptions session = OnHost();
  // Case i of the table, and refusal i, run if i % num_shards is `shard`.
  int shard = 0;
  int num_shards = 1;
};

// Runs the cases, prints to stdout and returns the exit code. InvalidArgument: no such mode.
// NotFound: a file cannot be read.
absl::StatusOr<int> RunConformance(const RunnerOptions& options, const std::vector<ConfCase>& table);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_RUNNER_H_
