// SPDX-License-Identifier: Apache-2.0

// Checks compiled models against PyTorch's recorded values, without LibTorch; see --help.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "testing/models/check_program.h"
#include "testing/models/golden.h"

ABSL_FLAG(std::string, golden, "", "folder with NAME.safetensors and NAME.json");
ABSL_FLAG(std::string, device, "cpu", "cpu, cuda, or cuda_sim for a simulated GPU");
ABSL_FLAG(int, threads, 1, "threads of a step");

namespace cotan::testing {
namespace {

absl::Status Check(const std::string& artifact, ModelReport& report) {
  COTAN_ASSIGN_OR_RETURN(const Golden golden,
                         LoadGoldenOf(absl::StrCat(absl::GetFlag(FLAGS_golden), "/", report.name)));
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(artifact));
  return CheckProgram(std::move(program), golden,
                      {.threads = absl::GetFlag(FLAGS_threads), .device = absl::GetFlag(FLAGS_device)}, report);
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  using cotan::testing::ModelReport;
  absl::SetProgramUsageMessage(
      "Trains compiled models (NAME.cotan) and compares with PyTorch's values.\n"
      "  check_compiled --golden=DIR [--device=cpu|cuda|cuda_sim] [--threads=N] NAME.cotan...");
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  if (arguments.size() < 2) {
    std::fprintf(stderr, "error: no model to check; see --help\n");
    return 2;
  }
  bool all_passed = true;
  for (size_t i = 1; i < arguments.size(); ++i) {
    ModelReport report;
    report.name = std::filesystem::path(arguments[i]).stem().string();
    report.status = cotan::testing::Check(arguments[i], report);
    all_passed = all_passed && report.status.ok();
    std::printf("%s\n", cotan::testing::ToLine(report).c_str());
    std::fflush(stdout);
  }
  return all_passed ? 0 : 1;
}
