// SPDX-License-Identifier: Apache-2.0

// `cotan bench`: measures the time of an artifact's methods.
#ifndef COTAN_RUNTIME_TOOLS_BENCH_H_
#define COTAN_RUNTIME_TOOLS_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/execution/program.h"
#include "runtime/session/session.h"
#include "runtime/tools/machine_rates.h"
#include "runtime/tools/profile.h"
#include "runtime/tools/trace.h"

namespace cotan::tools {

struct BenchResult {
  std::string method;
  int steps = 0;
  double median_us = 0;
  double min_us = 0;
  double first_step_ms = 0;  // from opening the file to the end of the first call
  int64_t state_bytes = 0;
  PlanSummary plan;
  std::vector<ProfiledStep> profile;  // empty unless requested
  TracedMethod trace;                 // no calls unless requested
};

struct BenchOptions {
  int steps = 100;
  bool profile = false;
  const MachineRates* rates = nullptr;  // borrowed; adds bounds to the profile
  int traced_calls = 0;
};

// Runs `method` of the file at `path` with its recorded arguments `steps` times, after steps / 10 warm-up
// runs. Result tensors are reused (Session::Run(MethodHandle, ...)). With `profile`, runs it `steps` times
// more to time each step of the plan, with bounds if there are `rates`; then `traced_calls` times more for the trace.
// NotFound: the file does not exist, or the method has no recorded run.
// Errors of Program and Session.
absl::StatusOr<BenchResult> Bench(const std::string& path, const std::string& method, const BenchOptions& bench_options,
                                  const SessionOptions& options);

// Returns the names of the methods that have recorded arguments, except backwards.
std::vector<std::string> BenchMethods(const Program& program);

// Returns a text such as "train_step: median 12.3 us, min 11.9 us over 100 steps; ...".
std::string BenchText(const BenchResult& result);

// Returns a line with the most memory that this process had resident so far; "" if the system does not say.
std::string ResidentText();

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_BENCH_H_
