// SPDX-License-Identifier: Apache-2.0

// Measures training steps with several numbers of threads, alone and beside a busy process, and compares their bits.
// Links no LibTorch. See --help.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
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
#include "base/status_macros.h"
#include "examples/common/paths.h"
#include "testing/bench/loaded_step.h"
#include "testing/bench/measure.h"

ABSL_FLAG(std::vector<std::string>, models, (std::vector<std::string>{"mlp", "cnn", "gpt", "resnet", "lstm", "gru"}),
          "which models to measure");
ABSL_FLAG(std::vector<std::string>, threads, (std::vector<std::string>{"2"}),
          "numbers of threads, each compared with one thread: 2,4");
ABSL_FLAG(double, seconds, 1, "time to spend on each side of each measurement");
ABSL_FLAG(bool, neighbor, true, "measure also while a process of equal priority keeps the last processor busy");
ABSL_FLAG(double, max_ratio, 0,
          "fail if more threads take more than this times as long as one, without neighbor; 0: never");
ABSL_FLAG(double, max_neighbor_ratio, 0, "the same, beside the neighbor; 0: never");

namespace cotan::testing {
namespace {

constexpr int kComparedSteps = 3;

// A process that computes forever on the last processor that this one may use.
class Neighbor {
 public:
  Neighbor() : process_(::fork()) {
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    StayOnLastProcessor();
    volatile unsigned counter = 0;
    for (;;) counter = counter + 1;
  }
  ~Neighbor() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Neighbor(const Neighbor&) = delete;
  Neighbor& operator=(const Neighbor&) = delete;

  bool runs() const { return process_ > 0; }

 private:
  static void StayOnLastProcessor() {
    cpu_set_t usable, last;
    if (::sched_getaffinity(0, sizeof(usable), &usable) != 0) return;
    CPU_ZERO(&last);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&last) == 0; --cpu) {
      if (CPU_ISSET(cpu, &usable)) CPU_SET(cpu, &last);
    }
    ::sched_setaffinity(0, sizeof(last), &last);
  }

  const pid_t process_;
};

struct Ratio {
  Timing one;
  Timing more;
  double value() const { return more.median_us / one.median_us; }
};

absl::StatusOr<Ratio> MeasureRatio(LoadedStep& one, LoadedStep& more) {
  MeasureOptions options;
  options.seconds = absl::GetFlag(FLAGS_seconds);
  options.block_seconds = std::min(options.block_seconds, options.seconds / 4);
  COTAN_ASSIGN_OR_RETURN(const auto timings, MeasureInTurns(
                                                 options, [&] { return one.Run(); }, [&] { return more.Run(); }));
  return Ratio{timings.first, timings.second};
}

absl::StatusOr<std::unique_ptr<LoadedStep>> Started(const std::string& artifact, int threads) {
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<LoadedStep> step, LoadedStep::Load(artifact));
  COTAN_RETURN_IF_ERROR(step->Start(threads));
  for (int i = 0; i < kComparedSteps; ++i) COTAN_RETURN_IF_ERROR(step->Run());
  return step;
}

absl::Status Check(const std::string& model, const char* when, double ratio, double limit) {
  if (limit == 0 || ratio <= limit) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat("%s%s takes %.2f times as long as with one thread; the limit is %.2f",
                                             model, when, ratio, limit));
}

// Prints the line of a model and a number of threads. Returns an error if bits differ or a ratio is above its limit.
absl::Status Measure(const std::string& model, const std::string& artifact, int threads) {
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedStep> one, Started(artifact, 1));
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedStep> more, Started(artifact, threads));
  COTAN_ASSIGN_OR_RETURN(const std::string expected, one->Bits());
  COTAN_ASSIGN_OR_RETURN(const std::string bits, more->Bits());
  if (bits != expected) {
    return absl::InternalError(absl::StrCat(model, " has other results with ", threads, " threads than with one"));
  }
  COTAN_ASSIGN_OR_RETURN(const Ratio alone, MeasureRatio(*one, *more));
  absl::PrintF("| %-6s | %7d | %10.1f | %10.1f | %5.2f |", model, threads, alone.one.median_us, alone.more.median_us,
               alone.value());
  if (!absl::GetFlag(FLAGS_neighbor)) {
    absl::PrintF("\n");
    return Check(model, "", alone.value(), absl::GetFlag(FLAGS_max_ratio));
  }
  std::fflush(stdout);
  const Neighbor neighbor;
  if (!neighbor.runs()) return absl::InternalError("cannot start the neighbor");
  COTAN_ASSIGN_OR_RETURN(const Ratio beside, MeasureRatio(*one, *more));
  absl::PrintF(" %10.1f | %10.1f | %5.2f |\n", beside.one.median_us, beside.more.median_us, beside.value());
  COTAN_RETURN_IF_ERROR(Check(model, "", alone.value(), absl::GetFlag(FLAGS_max_ratio)));
  return Check(model, " beside the neighbor", beside.value(), absl::GetFlag(FLAGS_max_neighbor_ratio));
}

absl::Status Run(const char* argv0) {
  absl::PrintF("| model  | threads | 1 thread us | more us    | ratio |%s\n",
               absl::GetFlag(FLAGS_neighbor) ? " 1, beside  | more       | ratio |" : "");
  for (const std::string& name : absl::GetFlag(FLAGS_models)) {
    COTAN_ASSIGN_OR_RETURN(const std::string artifact,
                           examples::FindDataFile(argv0, absl::StrCat("testing/bench/", name, ".cotan")));
    for (const std::string& text : absl::GetFlag(FLAGS_threads)) {
      int threads = 0;
      if (!absl::SimpleAtoi(text, &threads) || threads < 2) {
        return absl::InvalidArgumentError(absl::StrCat("--threads: '", text, "' is not a number of at least 2"));
      }
      COTAN_RETURN_IF_ERROR(Measure(name, artifact, threads));
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Compares training steps with several threads and with one, in turns in one process: medians in microseconds,\n"
      "their ratio (below 1 more threads are faster), and the same while another process keeps one processor busy.\n"
      "Fails if results or states after three steps differ in a bit. Examples:\n"
      "  threads --threads=2,4\n"
      "  threads --models=gpt --max_ratio=1.0 --max_neighbor_ratio=1.3");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "threads: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::testing::Run(argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "threads: %s\n", status.ToString());
  return 1;
}
