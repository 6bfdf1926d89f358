// SPDX-License-Identifier: Apache-2.0

// Measures the time from opening an artifact to the end of its first training step, each time in a new process. Links
// no LibTorch. See --help.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
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

ABSL_FLAG(std::vector<std::string>, models, (std::vector<std::string>{"mlp", "cnn", "gpt", "resnet", "lstm", "gru"}),
          "which models to measure");
ABSL_FLAG(std::string, artifact, "", "measure this file's train_step instead");
ABSL_FLAG(int, threads, 1, "threads of a step");
ABSL_FLAG(int, processes, 5, "processes of each model; the table has the medians");
ABSL_FLAG(int, warm_steps, 5, "steps after the first one; the table has the fastest");

namespace cotan::testing {
namespace {

using Clock = std::chrono::steady_clock;

// What a process sends its parent, in milliseconds.
struct Start {
  double open = 0;
  double session = 0;
  double first_call = 0;  // plans, and runs the first step
  double warm_step = 0;
  double page_faults = 0;  // of all before the second step

  double total() const { return open + session + first_call; }
  double overhead() const { return total() - warm_step; }
};

double MillisecondsSince(Clock::time_point& start) {
  const Clock::time_point now = Clock::now();
  const double passed = std::chrono::duration<double, std::milli>(now - start).count();
  start = now;
  return passed;
}

double PageFaults() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_minflt + usage.ru_majflt);
}

absl::StatusOr<Start> MeasureHere(const std::string& artifact) {
  Start result;
  const double faults = PageFaults();
  Clock::time_point start = Clock::now();
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedStep> step, LoadedStep::Load(artifact));
  result.open = MillisecondsSince(start);
  COTAN_RETURN_IF_ERROR(step->Start(absl::GetFlag(FLAGS_threads)));
  result.session = MillisecondsSince(start);
  COTAN_RETURN_IF_ERROR(step->Run());
  result.first_call = MillisecondsSince(start);
  result.page_faults = PageFaults() - faults;
  for (int i = 0; i < absl::GetFlag(FLAGS_warm_steps); ++i) {
    start = Clock::now();
    COTAN_RETURN_IF_ERROR(step->Run());
    const double passed = MillisecondsSince(start);
    result.warm_step = i == 0 ? passed : std::min(result.warm_step, passed);
  }
  return result;
}

// Runs MeasureHere() in a child and sends its result through a pipe.
[[noreturn]] void Child(const std::string& artifact, int pipe) {
  const absl::StatusOr<Start> result = MeasureHere(artifact);
  if (!result.ok()) absl::FPrintF(stderr, "start: %s\n", result.status().ToString());
  const bool sent = result.ok() && ::write(pipe, &*result, sizeof(Start)) == sizeof(Start);
  ::_exit(sent ? 0 : 1);
}

// Returns the start of a new process: libraries keep kernels that they made, so that only the first one counts.
absl::StatusOr<Start> MeasureInProcess(const std::string& artifact) {
  int ends[2];
  if (::pipe(ends) != 0) return absl::InternalError("cannot make a pipe");
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) return absl::InternalError("cannot fork");
  if (child == 0) Child(artifact, ends[1]);
  ::close(ends[1]);
  Start result;
  const bool received = ::read(ends[0], &result, sizeof(Start)) == sizeof(Start);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (!received) return absl::InternalError(absl::StrCat("no start of '", artifact, "' was measured"));
  return result;
}

double Median(const std::vector<Start>& starts, double (*of)(const Start&)) {
  std::vector<double> values;
  for (const Start& start : starts) values.push_back(of(start));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Measure(const std::string& name, const std::string& artifact) {
  std::vector<Start> starts;
  for (int i = 0; i < absl::GetFlag(FLAGS_processes); ++i) {
    COTAN_ASSIGN_OR_RETURN(starts.emplace_back(), MeasureInProcess(artifact));
  }
  absl::PrintF("| %-6s | %7.2f | %7.2f | %10.2f | %9.2f | %10.2f | %8.2f | %6.0f |\n", name,
               Median(starts, [](const Start& s) { return s.open; }),
               Median(starts, [](const Start& s) { return s.session; }),
               Median(starts, [](const Start& s) { return s.first_call; }),
               Median(starts, [](const Start& s) { return s.warm_step; }),
               Median(starts, [](const Start& s) { return s.total(); }),
               Median(starts, [](const Start& s) { return s.overhead(); }),
               Median(starts, [](const Start& s) { return s.page_faults; }));
  return absl::OkStatus();
}

absl::Status Run(const char* argv0) {
  if (absl::GetFlag(FLAGS_processes) < 1 || absl::GetFlag(FLAGS_warm_steps) < 1 || absl::GetFlag(FLAGS_threads) < 1) {
    return absl::InvalidArgumentError("--processes, --warm_steps and --threads are at least 1");
  }
  absl::PrintF("| model  | open ms | session | first call | warm step | first step | start    | faults |\n");
  absl::PrintF("|---|---|---|---|---|---|---|---|\n");
  if (!absl::GetFlag(FLAGS_artifact).empty()) {
    return Measure("", examples::UserPath(absl::GetFlag(FLAGS_artifact)));
  }
  for (const std::string& name : absl::GetFlag(FLAGS_models)) {
    COTAN_ASSIGN_OR_RETURN(const std::string artifact,
                           examples::FindDataFile(argv0, absl::StrCat("testing/bench/", name, ".cotan")));
    COTAN_RETURN_IF_ERROR(Measure(name, artifact));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures the start of a training program, in a new process each time: opening the artifact, creating the\n"
      "session, the first call (which plans) and a warm step. 'first step' is from opening the file to the end of the\n"
      "first step, 'start' what it takes longer than a warm step, both in milliseconds. Examples:\n"
      "  start --models=mlp,gpt\n"
      "  start --artifact=model.cotan --processes=3");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "start: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::testing::Run(argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "start: %s\n", status.ToString());
  return 1;
}
