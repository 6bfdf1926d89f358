// SPDX-License-Identifier: Apache-2.0

// Measures the cost of a memory limit: training steps with and without a limit, in turns in one
// process; and the memory of training with the optimizer in the backward. See --help.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "aot/memory/fit_memory.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "examples/common/paths.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"
#include "serialization/container/container.h"
#include "testing/bench/backward_updates.h"
#include "testing/bench/cotan_step.h"
#include "testing/bench/measure.h"
#include "testing/models/models.h"

ABSL_FLAG(std::vector<std::string>, models, (std::vector<std::string>{"cnn", "gpt", "resnet"}),
          "which models to measure");
ABSL_FLAG(std::vector<std::string>, limits, (std::vector<std::string>{"0.75", "0.5"}),
          "limits of the step's arena, as shares of what it needs without one");
ABSL_FLAG(double, seconds, 4, "time to spend on each side of each measurement");
ABSL_FLAG(int, min_calls, 5, "timed steps of each side, at least");
ABSL_FLAG(int64_t, updated_width, 1024, "width of the layers whose optimizer runs in the backward");

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 1;

double MebiBytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Returns the artifact with only the step: the limit holds for each method separately.
absl::StatusOr<std::string> StepAlone(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Open(path, RecordedRuns::kMap));
  serialization::Artifact artifact = file.artifact();
  ArtifactWriter writer;
  COTAN_RETURN_IF_ERROR(writer.AddSegmentsOf(file));
  artifact.clear_segments();
  artifact.clear_references();
  auto& methods = *artifact.mutable_methods();
  for (int i = methods.size(); i-- > 0;) {
    if (methods[i].name() != "train_step") methods.DeleteSubrange(i, 1);
  }
  return std::move(writer).Serialize(std::move(artifact));
}

absl::Status MeasureModel(const ModelCase& model, const std::string& path) {
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator), label = model.make_label(generator);
  const SessionOptions on_cpu = {.kernels = &CpuKernels(), .threads = 1};
  COTAN_ASSIGN_OR_RETURN(const std::string whole, StepAlone(path));
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<CotanStep> plain, CotanStep::FromBytes(whole, on_cpu, input, label));
  COTAN_RETURN_IF_ERROR(plain->Run());
  for (const std::string& text : absl::GetFlag(FLAGS_limits)) {
    double share = 0;
    if (!absl::SimpleAtod(text, &share) || share <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("--limits: '", text, "' is not a fraction between 0 and 1"));
    }
    std::string file = whole;
    const auto limit = static_cast<int64_t>(share * static_cast<double>(plain->ArenaBytes()));
    const auto start = std::chrono::steady_clock::now();
    const auto fitted =
        aot::FitFileIntoMemory(limit, {.kernels = &CpuKernels(), .threads = 1}, /*repeat_cheap_ops=*/false, file);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!fitted.ok()) {
      absl::PrintF("| %-6s | %5s | %s\n", model.name, text, fitted.status().message());
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<CotanStep> limited,
                           CotanStep::FromBytes(std::move(file), on_cpu, input, label));
    COTAN_RETURN_IF_ERROR(limited->Run());
    MeasureOptions options;
    options.seconds = absl::GetFlag(FLAGS_seconds);
    options.block_seconds = std::min(options.block_seconds, options.seconds / 4);
    options.min_calls = absl::GetFlag(FLAGS_min_calls);
    COTAN_ASSIGN_OR_RETURN(const auto timings,
                           MeasureInTurns(
                               options, [&] { return limited->Run(); }, [&] { return plain->Run(); }));
    const auto& [with, without] = timings;
    absl::PrintF("| %-6s | %5s | %9.2f | %9.2f | %8d | %9.1f (%9.1f) | %9.1f (%9.1f) | %5.2f (%5.2f) | %11.1f |\n",
                 model.name, text, MebiBytes(plain->ArenaBytes()), MebiBytes(limited->ArenaBytes()),
                 (*fitted)[0].repeated_ops, without.median_us, without.min_us, with.median_us, with.min_us,
                 with.median_us / without.median_us, with.min_us / without.min_us, seconds.count());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Run(const char* argv0) {
  absl::PrintF(
      "| model  | limit | arena MiB | limited   | repeated | µs (min)              | limited (min)         | "
      "ratio (min)   | fit seconds |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& name : absl::GetFlag(FLAGS_models)) {
    const ModelCase* model = FindModel(name);
    if (model == nullptr) return absl::NotFoundError(absl::StrCat("no model '", name, "'"));
    COTAN_ASSIGN_OR_RETURN(const std::string path,
                           examples::FindDataFile(argv0, absl::StrCat("testing/bench/", name, ".cotan")));
    COTAN_RETURN_IF_ERROR(MeasureModel(*model, path));
  }
  return PrintUpdatesInBackward({.width = absl::GetFlag(FLAGS_updated_width)});
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures training steps of Cotan whose arena is limited against the same without a limit, and the\n"
      "memory of training with the optimizer in the backward against that with updates after it.\n"
      "Example: memory --models=gpt --limits=0.75,0.5,0.3");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "memory: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  at::set_num_threads(1);
  const absl::Status status = cotan::testing::Run(argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "memory: %s\n", status.ToString());
  return 1;
}
