// SPDX-License-Identifier: Apache-2.0

// Prints what the forwards of exported models save for their backwards; see --help.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "testing/models/check.h"
#include "testing/models/saved.h"

ABSL_FLAG(std::string, dir, "testing/models/data", "folder with NAME.pt2");
ABSL_FLAG(std::string, references, "testing/models/data/saved_bytes.json", "file of record_saved_bytes.py");
ABSL_FLAG(std::string, only, "", "only models whose name contains this");
ABSL_FLAG(bool, check, false,
          "only default options; fail if a model saves more than PyTorch's min-cut partitioner, or that is unknown");

namespace cotan::testing {
namespace {

std::string Text(const std::optional<int64_t>& bytes) { return bytes.has_value() ? absl::StrCat(*bytes) : "-"; }

// Prints "SAVED/PEAK" in KiB.
void PrintCell(const absl::StatusOr<PairBytes>& bytes) {
  const std::string text = bytes.ok() ? absl::StrCat(bytes->saved, "/", bytes->peak) : "error";
  std::printf(" %20s", text.c_str());
  std::fflush(stdout);
}

// Prints the columns of a model.
void PrintColumns(const std::string& path) {
  PrintCell(MeasurePair(path, {.partitioner = aot::Partitioner::kDefault}));
  for (const double budget : {1.0, 0.75, 0.5, 0.25, 0.0}) {
    PrintCell(MeasurePair(path, {.activation_memory_budget = budget}));
  }
}

// Prints the column of the default options. Returns whether the model saves at most what PyTorch saves, and prints why
// it does not.
bool CheckColumn(const std::string& path, const absl::StatusOr<ReferenceBytes>& reference) {
  const absl::StatusOr<PairBytes> bytes = MeasurePair(path, {});
  PrintCell(bytes);
  if (!bytes.ok() || !reference.ok()) {
    const absl::Status& status = bytes.ok() ? reference.status() : bytes.status();
    std::printf("  %s", std::string(status.message()).c_str());
    return false;
  }
  if (bytes->saved <= *reference->min_cut) return true;
  std::printf("  more than PyTorch");
  return false;
}

int Run() {
  const auto references = ReadReferenceBytes(absl::GetFlag(FLAGS_references));
  const auto models = FindModels(absl::GetFlag(FLAGS_dir));
  if (!references.ok() || !models.ok()) {
    const absl::Status& status = references.ok() ? models.status() : references.status();
    std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  const bool checks = absl::GetFlag(FLAGS_check);
  std::printf("bytes saved / peak of forward and backward; PyTorch's: saved\n%-24s %12s %12s", "model", "torch default",
              "min-cut");
  const std::vector<const char*> all = {"default", "min_cut", "budget 0.75", "0.5", "0.25", "0"};
  for (const char* column : checks ? std::vector<const char*>{"min_cut"} : all) std::printf(" %20s", column);
  std::printf("\n");
  int failures = 0;
  for (const std::string& path : *models) {
    const std::string file = path.substr(path.rfind('/') + 1);
    const std::string name = file.substr(0, file.rfind('.'));
    if (!absl::StrContains(name, absl::GetFlag(FLAGS_only))) continue;
    const absl::StatusOr<ReferenceBytes> reference = ReferenceOf(*references, name);
    const ReferenceBytes counts = reference.ok() ? *reference : ReferenceBytes();
    std::printf("%-24s %12s %12s", name.c_str(), Text(counts.default_partition).c_str(), Text(counts.min_cut).c_str());
    if (!checks) {
      PrintColumns(path);
    } else if (!CheckColumn(path, reference)) {
      ++failures;
    }
    std::printf("\n");
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Prints the bytes that compiled forwards save for their backwards, beside PyTorch's.\n"
      "  saved [--dir=DIR] [--references=FILE] [--only=TEXT] [--check]");
  absl::ParseCommandLine(argc, argv);
  return cotan::testing::Run();
}
