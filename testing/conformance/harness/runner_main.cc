// SPDX-License-Identifier: Apache-2.0

// Runs a table of conformance cases; see --help.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "testing/conformance/harness/runner.h"

ABSL_FLAG(std::string, golden, "", "golden file with the facts about the cases");
ABSL_FLAG(std::string, mode, "all", "metadata, eager, grad, refusals or all of these; or dynamic");
ABSL_FLAG(std::vector<std::string>, case, {}, "names of the cases to run; all if there are none");
ABSL_FLAG(std::string, known_failures, "",
          "file with the refusals to expect: MODE CASE CODE | part of the message | reason in each line");
ABSL_FLAG(std::string, partition_differences, "",
          "file with accepted differences of what is saved: MODE CASE | difference | reason in each line; "
          "without it, this is not compared");

ABSL_FLAG(bool, partial_golden, false, "compare cases that the golden file lacks with eager alone; else they fail");
ABSL_FLAG(bool, all_differences, false, "print all differences of a case, not only the first");

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("compares compiled functions with LibTorch eager and with AOTAutograd's metadata");
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<int> exit_code =
      cotan::conformance::RunConformance({.golden = absl::GetFlag(FLAGS_golden),
                                          .mode = absl::GetFlag(FLAGS_mode),
                                          .cases = absl::GetFlag(FLAGS_case),
                                          .known_failures = absl::GetFlag(FLAGS_known_failures),
                                          .partition_differences = absl::GetFlag(FLAGS_partition_differences),
                                          .all_differences = absl::GetFlag(FLAGS_all_differences),
                                          .partial_golden = absl::GetFlag(FLAGS_partial_golden)},
                                         build_table());
  if (!exit_code.ok()) {
    std::fprintf(stderr, "%s\n", exit_code.status().ToString().c_str());
    return 2;
  }
  return *exit_code;
}
