// SPDX-License-Identifier: Apache-2.0

// Measures calls with frozen states that are mapped from the file beside calls with copies of them. Links no LibTorch.
// See --help.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "examples/common/paths.h"
#include "testing/bench/loaded_step.h"
#include "testing/bench/measure.h"

ABSL_FLAG(std::string, method, "eval", "which method to call");
ABSL_FLAG(int, threads, 1, "threads of a call");
ABSL_FLAG(double, seconds, 4, "time for each of the two");

namespace cotan::testing {
namespace {

// Returns the bytes of this process's memory without a file that are in large pages; 0 if the system does not say.
int64_t BytesInLargePages() {
  std::ifstream file("/proc/self/smaps_rollup");
  int64_t kibibytes = 0;
  for (std::string word; file >> word;) {
    if (word == "AnonHugePages:") file >> kibibytes;
  }
  return kibibytes * 1024;
}

absl::StatusOr<std::unique_ptr<LoadedStep>> Started(const std::string& artifact, StateMemory states) {
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<LoadedStep> step,
                         LoadedStep::Load(artifact, absl::GetFlag(FLAGS_method), states));
  COTAN_RETURN_IF_ERROR(step->Start(absl::GetFlag(FLAGS_threads)));
  COTAN_RETURN_IF_ERROR(step->Run());
  return step;
}

// Prints the line of an artifact.
absl::Status Measure(const std::string& artifact) {
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedStep> mapped, Started(artifact, StateMemory::kMapped));
  const int64_t before = BytesInLargePages();
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedStep> copied, Started(artifact, StateMemory::kCopied));
  const int64_t large_pages = BytesInLargePages() - before;
  if (mapped->ResultBits() != copied->ResultBits()) {
    return absl::InternalError(absl::StrCat(artifact, " has other results with copied states"));
  }
  const MeasureOptions options = {.seconds = absl::GetFlag(FLAGS_seconds)};
  COTAN_ASSIGN_OR_RETURN(const auto timings,
                         MeasureInTurns(
                             options, [&] { return mapped->Run(); }, [&] { return copied->Run(); }));
  const auto& [of_mapped, of_copied] = timings;
  absl::PrintF("| %s | %.2f | %.2f | %.3f | %.2f | %.2f | %.3f | %.0f |\n", artifact.substr(artifact.rfind('/') + 1),
               of_mapped.median_us / 1e3, of_copied.median_us / 1e3, of_mapped.median_us / of_copied.median_us,
               of_mapped.min_us / 1e3, of_copied.min_us / 1e3, of_mapped.min_us / of_copied.min_us, large_pages / 1e6);
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::Status Run(const std::vector<char*>& artifacts) {
  if (artifacts.empty()) return absl::InvalidArgumentError("name an artifact; see --help");
  if (!(absl::GetFlag(FLAGS_seconds) > 0)) return absl::InvalidArgumentError("--seconds must be above 0");
  absl::PrintF(
      "| program | mapped: median ms | copied | ratio | mapped: least ms | copied | ratio | MB of large pages |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const char* artifact : artifacts) COTAN_RETURN_IF_ERROR(Measure(examples::UserPath(artifact)));
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Calls a method with frozen states mapped from the artifact and with copies of them, in turns in one process:\n"
      "times, their ratios (above 1 mapped states are slower), and the memory of the second session in large pages,\n"
      "which mapped states have not. Fails if results differ in a bit. Example:\n"
      "  mapped --method=train_step gpt2_f32.cotan");
  std::vector<char*> artifacts = absl::ParseCommandLine(argc, argv);
  artifacts.erase(artifacts.begin());
  const absl::Status status = cotan::testing::Run(artifacts);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "mapped: %s\n", status.ToString());
  return 1;
}
