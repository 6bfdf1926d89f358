// SPDX-License-Identifier: Apache-2.0

// Output of the step benchmark.
#ifndef COTAN_TESTING_BENCH_REPORT_H_
#define COTAN_TESTING_BENCH_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "testing/bench/measure.h"

namespace cotan::testing {

// One model at one number of threads.
struct StepResult {
  std::string model;
  int threads = 1;
  Timing cotan, eager;
  int64_t cotan_peak_bytes = 0;
  int64_t eager_peak_bytes = 0;
  // Time from the call that loads the artifact to the end of its first step.
  double first_step_ms = 0;
  // Work of Cotan's step and the time that it takes at least (CotanStep::Bound()); 0 if not known.
  int64_t flops = 0;
  int64_t bytes = 0;
  double bound_us = 0;

  // Returns the ratio of the medians; above 1 Cotan is faster.
  double ratio() const { return eager.median_us / cotan.median_us; }
};

// Returns one line of JSON with the keys model, device, threads, cotan_us, eager_us, ratio,
// cotan_peak_bytes, eager_peak_bytes, first_step_ms, flops, bytes, bound_us; times are medians. `device` is that of
// Cotan's side; LibTorch's is always the CPU.
std::string FormatJson(absl::string_view device, const StepResult& result);

// Returns a Markdown table with a row for each result, and one of the work of each step if it is known. The columns of
// times name their devices if `device`, that of Cotan's side, is not "cpu".
std::string FormatTable(absl::string_view device, absl::Span<const StepResult> results);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_REPORT_H_
