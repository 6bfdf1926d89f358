// SPDX-License-Identifier: Apache-2.0

// Runs a table of conformance cases; see --help.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "testing/conformance/harness/record_runs.h"
#include "testing/conformance/harness/runner.h"
#include "testing/cuda/open_backend.h"

ABSL_FLAG(std::string, golden, "", "golden file with the facts about the cases");
ABSL_FLAG(std::string, mode, "all", "metadata, eager, grad, refusals or all of these; or dynamic");
ABSL_FLAG(std::vector<std::string>, case, {}, "names of the cases to run; all if there are none");
ABSL_FLAG(std::string, known_failures, "",
          "file with the refusals to expect: MODE CASE CODE | part of the message | reason in each line");
ABSL_FLAG(std::string, partition_differences, "",
          "file with accepted differences of what is saved: MODE CASE | difference | reason in each line; "
          "without it, this is not compared");
ABSL_FLAG(std::string, device, "cpu", "where the compiled functions run: cpu, cuda (the first GPU) or cuda_sim");
ABSL_FLAG(bool, partial_golden, false, "compare cases that the golden file lacks with eager alone; else they fail");
ABSL_FLAG(std::string, record, "", "instead of running the cases, write artifacts for cotan verify to this folder");
ABSL_FLAG(bool, all_differences, false, "print all differences of a case, not only the first");

namespace cotan::conformance {
namespace {

// Returns the number in an environment variable, or `absent` without it.
int EnvironmentNumber(const char* name, int absent) {
  const char* text = std::getenv(name);
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : absent;
}

// Signals to Bazel that the test runs only the cases of its shard, if it is one of several.
void AcknowledgeSharding() {
  const char* path = std::getenv("TEST_SHARD_STATUS_FILE");
  if (path != nullptr) std::ofstream(path).put('\n');
}

absl::StatusOr<int> Run() {
  if (const std::string folder = absl::GetFlag(FLAGS_record); !folder.empty()) {
    COTAN_RETURN_IF_ERROR(RecordRuns(build_table(), folder));
    return 0;
  }
  AcknowledgeSharding();
  COTAN_ASSIGN_OR_RETURN(const testing::Backend backend, testing::OpenBackend(absl::GetFlag(FLAGS_device)));
  return RunConformance({.golden = absl::GetFlag(FLAGS_golden),
                         .mode = absl::GetFlag(FLAGS_mode),
                         .cases = absl::GetFlag(FLAGS_case),
                         .known_failures = absl::GetFlag(FLAGS_known_failures),
                         .partition_differences = absl::GetFlag(FLAGS_partition_differences),
                         .all_differences = absl::GetFlag(FLAGS_all_differences),
                         .partial_golden = absl::GetFlag(FLAGS_partial_golden),
                         .session = {.kernels = backend.kernels, .device = backend.device, .threads = 1},
                         .shard = EnvironmentNumber("TEST_SHARD_INDEX", 0),
                         .num_shards = EnvironmentNumber("TEST_TOTAL_SHARDS", 1)},
                        build_table());
}

}  // namespace
}  // namespace cotan::conformance

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("compares compiled functions with LibTorch eager and with AOTAutograd's metadata");
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<int> exit_code = cotan::conformance::Run();
  if (!exit_code.ok()) {
    std::fprintf(stderr, "%s\n", exit_code.status().ToString().c_str());
    return 2;
  }
  return *exit_code;
}
