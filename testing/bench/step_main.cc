// SPDX-License-Identifier: Apache-2.0

// Measures Cotan's training step, on the CPU or a GPU, against LibTorch's on the CPU, in turns in one process. See
// --help.
#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "examples/common/paths.h"
#include "runtime/session.h"
#include "runtime/tools/machine_rates.h"
#include "testing/bench/cotan_step.h"
#include "testing/bench/eager_step.h"
#include "testing/bench/measure.h"
#include "testing/bench/report.h"
#include "testing/cuda/open_backend.h"

ABSL_FLAG(std::vector<std::string>, models, (std::vector<std::string>{"mlp", "cnn", "gpt", "resnet", "lstm", "gru"}),
          "which models to measure");
ABSL_FLAG(std::vector<std::string>, threads, (std::vector<std::string>{"1"}),
          "numbers of threads, the same for both sides: 1,2");
ABSL_FLAG(std::string, device, "cpu",
          "where Cotan's side runs: cpu, cuda (the first GPU) or cuda_sim (a simulated GPU: times mean nothing). "
          "The batch is on the device, and each step is waited for; LibTorch's side stays on the CPU");
ABSL_FLAG(std::string, autocast, "", "bf16: both sides run under autocast to bf16; empty: in f32");
ABSL_FLAG(bool, once, false, "run one step of each side, and report its time");
ABSL_FLAG(double, seconds, 4, "time to spend on each side of each measurement");
ABSL_FLAG(int, min_calls, 5, "timed steps of each side, at least");
ABSL_FLAG(bool, json, false, "print one JSON object per model and number of threads instead");
ABSL_FLAG(int, profile, 0, "also print the steps of Cotan's plan with their bounds; minimum over this many calls");

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 1;

using Clock = std::chrono::steady_clock;

bool IsUnderAutocast() { return absl::GetFlag(FLAGS_autocast) == "bf16"; }

// Returns what follows the name of a model in those of its artifact and its result.
absl::string_view ArtifactSuffix() { return IsUnderAutocast() ? "_bf16" : ""; }

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Returns the time of one step.
Timing TimingSince(Clock::time_point start) {
  const double microseconds = MillisecondsSince(start) * 1000;
  return {microseconds, microseconds};
}

// Measures both sides in turns.
absl::Status MeasureSteps(CotanStep& cotan, EagerStep& eager, StepResult& result) {
  MeasureOptions options;
  options.seconds = absl::GetFlag(FLAGS_seconds);
  options.block_seconds = std::min(options.block_seconds, options.seconds / 4);
  options.min_calls = absl::GetFlag(FLAGS_min_calls);
  COTAN_ASSIGN_OR_RETURN(const auto timings, MeasureInTurns(
                                                 options, [&] { return cotan.Run(); },
                                                 [&] {
                                                   eager.Run();
                                                   return absl::OkStatus();
                                                 }));
  std::tie(result.cotan, result.eager) = timings;
  return absl::OkStatus();
}

// Adds the work of the step and its bound at the rates of this machine, and prints the profile that is asked for.
// `rates` is null for a device.
absl::Status AddBound(const tools::MachineRates* rates, CotanStep& cotan, StepResult& result) {
  if (rates != nullptr) {
    COTAN_ASSIGN_OR_RETURN(const StepBound bound, cotan.Bound(*rates));
    result.flops = bound.flops;
    result.bytes = bound.bytes;
    result.bound_us = bound.us;
  }
  const int calls = absl::GetFlag(FLAGS_profile);
  if (calls == 0) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const std::string profile, cotan.ProfileText(calls, rates));
  absl::PrintF("%s\n%s\n", result.model, profile);
  return absl::OkStatus();
}

absl::StatusOr<StepResult> Measure(const ModelCase& model, const std::string& artifact, const Backend& backend,
                                   const tools::MachineRates* rates, int threads) {
  at::set_num_threads(threads);
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator), label = model.make_label(generator);

  const bool autocasts = IsUnderAutocast();
  StepResult result;
  result.model = absl::StrCat(model.name, ArtifactSuffix());
  result.threads = threads;
  const SessionOptions options = {.kernels = backend.kernels, .device = backend.device, .threads = threads};
  const Clock::time_point start = Clock::now();
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<CotanStep> cotan, CotanStep::Create(artifact, options, input, label));
  const Clock::time_point first_step = Clock::now();
  COTAN_RETURN_IF_ERROR(cotan->Run());
  result.first_step_ms = MillisecondsSince(start);
  result.cotan = TimingSince(first_step);
  EagerStep eager(model, kSeed, autocasts);
  if (absl::GetFlag(FLAGS_once)) {
    const Clock::time_point eager_start = Clock::now();
    eager.Run();
    result.eager = TimingSince(eager_start);
  } else {
    COTAN_RETURN_IF_ERROR(MeasureSteps(*cotan, eager, result));
  }
  COTAN_RETURN_IF_ERROR(AddBound(rates, *cotan, result));
  result.cotan_peak_bytes = cotan->PeakBytes();
  result.eager_peak_bytes = EagerPeakBytes(model, kSeed, autocasts);
  return result;
}

absl::StatusOr<std::vector<int>> ThreadCounts() {
  std::vector<int> counts;
  for (const std::string& text : absl::GetFlag(FLAGS_threads)) {
    int count = 0;
    if (!absl::SimpleAtoi(text, &count) || count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("--threads: '", text, "' is not a number of threads"));
    }
    counts.push_back(count);
  }
  return counts;
}

int64_t FileBytes(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

// Code that has to be on the device: a training program of Cotan, or LibTorch's library.
absl::Status PrintBinarySizes(const char* argv0) {
  COTAN_ASSIGN_OR_RETURN(const std::string train, examples::FindDataFile(argv0, "examples/digits/train"));
  Dl_info libtorch = {};
  dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &libtorch);
  absl::PrintF("examples/digits/train: %.1f MiB; %s: %.1f MiB\n", static_cast<double>(FileBytes(train)) / (1 << 20),
               libtorch.dli_fname, static_cast<double>(FileBytes(libtorch.dli_fname)) / (1 << 20));
  return absl::OkStatus();
}

// Returns the rates of the machine by number of threads; none for a device.
absl::StatusOr<std::map<int, tools::MachineRates>> MeasureRates(const Backend& backend,
                                                                absl::Span<const int> thread_counts) {
  std::map<int, tools::MachineRates> rates;
  if (backend.device != nullptr) return rates;
  std::vector<DType> dtypes = {DType::kFloat32};
  if (IsUnderAutocast()) dtypes.push_back(DType::kBFloat16);
  for (const int threads : thread_counts) {
    COTAN_ASSIGN_OR_RETURN(rates[threads], tools::MachineRates::Measure(*backend.kernels, threads, dtypes));
    if (!absl::GetFlag(FLAGS_json)) {
      absl::PrintF("rates of this machine, threads = %d: %s\n", threads, rates[threads].ToString());
    }
  }
  return rates;
}

absl::Status Run(const char* argv0) {
  const std::string autocast = absl::GetFlag(FLAGS_autocast);
  if (!autocast.empty() && autocast != "bf16") {
    return absl::InvalidArgumentError(absl::StrCat("--autocast: '", autocast, "' is neither bf16 nor empty"));
  }
  const std::string device = absl::GetFlag(FLAGS_device);
  COTAN_ASSIGN_OR_RETURN(const Backend backend, OpenBackend(device));
  COTAN_ASSIGN_OR_RETURN(const std::vector<int> thread_counts, ThreadCounts());
  COTAN_ASSIGN_OR_RETURN(const auto rates, MeasureRates(backend, thread_counts));
  std::vector<StepResult> results;
  for (const std::string& name : absl::GetFlag(FLAGS_models)) {
    const ModelCase* model = FindModel(name);
    if (model == nullptr) return absl::NotFoundError(absl::StrCat("no model '", name, "'"));
    COTAN_ASSIGN_OR_RETURN(
        const std::string artifact,
        examples::FindDataFile(argv0, absl::StrCat("testing/bench/", name, ArtifactSuffix(), ".cotan")));
    for (int threads : thread_counts) {
      const auto found = rates.find(threads);
      COTAN_ASSIGN_OR_RETURN(results.emplace_back(), Measure(*model, artifact, backend,
                                                             found == rates.end() ? nullptr : &found->second, threads));
      if (absl::GetFlag(FLAGS_json)) absl::PrintF("%s\n", FormatJson(device, results.back()));
      std::fflush(stdout);
    }
  }
  if (absl::GetFlag(FLAGS_json)) return absl::OkStatus();
  absl::PrintF("%s\n", FormatTable(device, results));
  return PrintBinarySizes(argv0);
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures a training step (forward, cross entropy, backward, SGD with momentum) of Cotan\n"
      "against LibTorch eager on the CPU. Examples:\n"
      "  step --models=mlp,gpt --threads=1,2 --json\n"
      "  step --device=cuda");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "step: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::testing::Run(argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "step: %s\n", status.ToString());
  return 1;
}
