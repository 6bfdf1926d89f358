// SPDX-License-Identifier: Apache-2.0

// Checks exported models against PyTorch's recorded values; see --help.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "testing/models/check.h"

ABSL_FLAG(std::string, dir, "", "folder with NAME.pt2, NAME.safetensors and NAME.json");
ABSL_FLAG(std::string, only, "", "check only models whose name contains this");
ABSL_FLAG(bool, json, false, "print one JSON object instead of lines");
ABSL_FLAG(int, threads, 1, "threads of a step");
ABSL_FLAG(std::string, device, "cpu", "cpu, cuda, or cuda_sim for a simulated GPU");
ABSL_FLAG(std::string, scratch, "/tmp", "folder for artifacts, which are deleted");

int main(int argc, char** argv) {
  using cotan::testing::ModelReport;
  absl::SetProgramUsageMessage(
      "Compiles exported models, trains them in the runtime, and compares with PyTorch's values.\n"
      "  check --dir=DIR [--only=TEXT] [--json] [--threads=N] [--device=cpu|cuda|cuda_sim]");
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<std::vector<std::string>> models = cotan::testing::FindModels(absl::GetFlag(FLAGS_dir));
  if (!models.ok()) {
    std::fprintf(stderr, "error: %s\n", std::string(models.status().message()).c_str());
    return 2;
  }
  const bool json = absl::GetFlag(FLAGS_json);
  std::vector<ModelReport> reports;
  int failed = 0;
  for (const std::string& path : *models) {
    if (!absl::StrContains(path.substr(path.rfind('/') + 1), absl::GetFlag(FLAGS_only))) continue;
    const ModelReport report = cotan::testing::CheckModel(path, {.scratch_folder = absl::GetFlag(FLAGS_scratch),
                                                                 .threads = absl::GetFlag(FLAGS_threads),
                                                                 .device = absl::GetFlag(FLAGS_device)});
    if (!report.status.ok()) ++failed;
    if (!json) {
      std::printf("%s\n", cotan::testing::ToLine(report).c_str());
      std::fflush(stdout);
    }
    reports.push_back(report);
  }
  if (json) {
    std::printf("%s\n", cotan::testing::ToJson(reports).c_str());
  } else {
    std::printf("%d passed, %d failed\n", static_cast<int>(reports.size()) - failed, failed);
  }
  return failed == 0 ? 0 : 1;
}
