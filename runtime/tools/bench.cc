// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "runtime/tools/one_rank.h"
#include "runtime/tools/planned_method.h"
#include "runtime/tools/references.h"

namespace cotan::tools {
namespace {

using Clock = std::chrono::steady_clock;
using serialization::Method;
using serialization::Reference;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Times the steps of `calls` calls.
absl::StatusOr<TracedMethod> Trace(Session& session, MethodHandle method, absl::Span<const Tensor> arguments,
                                   absl::Span<Tensor> results, int calls) {
  const auto nanoseconds_since = [](Clock::time_point start) {
    return static_cast<int64_t>(std::chrono::nanoseconds(Clock::now() - start).count());
  };
  TracedMethod traced;
  COTAN_ASSIGN_OR_RETURN(traced.names, session.StepNames(method));
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) {
    TracedCall call = {.start_ns = nanoseconds_since(start)};
    COTAN_RETURN_IF_ERROR(session.RunTimed(method, arguments, results, call.step_ns));
    call.duration_ns = nanoseconds_since(start) - call.start_ns;
    traced.calls.push_back(std::move(call));
  }
  return traced;
}

}  // namespace

absl::StatusOr<BenchResult> Bench(const std::string& path, const std::string& method, const BenchOptions& bench_options,
                                  const SessionOptions& options) {
  const int steps = bench_options.steps;
  const Clock::time_point start = Clock::now();
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(path, RecordedRuns::kMap));
  SingleRank rank;
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, WithOneRank(*program, options, rank)));
  COTAN_ASSIGN_OR_RETURN(const Reference* const reference, FindReference(*program, method));
  Device& device = options.device == nullptr ? HostDevice() : *options.device;
  COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> arguments, LoadArguments(*program, *reference, device));
  COTAN_ASSIGN_OR_RETURN(const MethodHandle handle, session.FindMethod(method));
  std::vector<Tensor> results(static_cast<size_t>(session.NumResults(handle)));
  COTAN_RETURN_IF_ERROR(session.Run(handle, arguments, absl::MakeSpan(results)));
  COTAN_RETURN_IF_ERROR(device.Synchronize());

  BenchResult result;
  result.method = method;
  result.steps = steps;
  result.first_step_ms = MicrosecondsSince(start) / 1000;
  std::vector<double> times;
  for (int i = -steps / 10; i < steps; ++i) {
    const Clock::time_point begin = Clock::now();
    COTAN_RETURN_IF_ERROR(session.Run(handle, arguments, absl::MakeSpan(results)));
    COTAN_RETURN_IF_ERROR(device.Synchronize());
    if (i >= 0) times.push_back(MicrosecondsSince(begin));
  }
  std::sort(times.begin(), times.end());
  result.median_us = times[times.size() / 2];
  result.min_us = times.front();
  COTAN_ASSIGN_OR_RETURN(result.plan, session.Summary(handle));
  result.state_bytes = session.state_bytes();
  if (bench_options.profile) {
    COTAN_ASSIGN_OR_RETURN(result.profile, Profile(session, handle, arguments, absl::MakeSpan(results), steps));
    if (bench_options.rates != nullptr) {
      COTAN_ASSIGN_OR_RETURN(const int index, program->FindMethod(method));
      COTAN_ASSIGN_OR_RETURN(const PlannedMethod planned,
                             PlanMethod(program->artifact(), program->method(index), options.kernels));
      AddBounds(planned, *bench_options.rates, absl::MakeSpan(result.profile));
    }
  }
  if (bench_options.traced_calls > 0) {
    COTAN_ASSIGN_OR_RETURN(result.trace,
                           Trace(session, handle, arguments, absl::MakeSpan(results), bench_options.traced_calls));
    result.trace.method = method;
  }
  return result;
}

std::vector<std::string> BenchMethods(const Program& program) {
  std::vector<std::string> names;
  for (const Reference& reference : program.artifact().references()) {
    bool backward = false;
    for (const Method& method : program.artifact().methods()) {
      backward = backward || method.backward_method() == reference.method();
    }
    if (!backward && std::find(names.begin(), names.end(), reference.method()) == names.end()) {
      names.push_back(reference.method());
    }
  }
  return names;
}

std::string BenchText(const BenchResult& result) {
  return absl::StrFormat(
      "%s: median %.1f us, min %.1f us over %d steps of %d kernels; first step %.1f ms after opening the file; "
      "arena %d bytes (%d alive at once), states %d bytes (%d updated in place, %d copied)",
      result.method, result.median_us, result.min_us, result.steps, result.plan.num_steps, result.first_step_ms,
      result.plan.arena_bytes, result.plan.peak_bytes, result.state_bytes, result.plan.stats.updates_in_place,
      result.plan.stats.update_copies);
}

std::string ResidentText() {
  struct rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return "";
  return absl::StrFormat("resident memory: %.1f MiB at most\n", static_cast<double>(usage.ru_maxrss) / 1024);
}

}  // namespace cotan::tools
