// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/status_macros.h"

namespace cotan::testing {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// One implementation and its times so far.
struct Runner {
  absl::FunctionRef<absl::Status()> call;
  std::vector<double> microseconds;
  double seconds = 0;  // the timed calls together

  absl::Status RunBlock(const MeasureOptions& options) {
    COTAN_RETURN_IF_ERROR(call());
    const Clock::time_point block_start = Clock::now();
    do {
      const Clock::time_point start = Clock::now();
      COTAN_RETURN_IF_ERROR(call());
      const double elapsed = Seconds(Clock::now() - start);
      microseconds.push_back(elapsed * 1e6);
      seconds += elapsed;
    } while (Seconds(Clock::now() - block_start) < options.block_seconds);
    return absl::OkStatus();
  }

  bool Done(const MeasureOptions& options) const {
    return seconds >= options.seconds && microseconds.size() >= static_cast<size_t>(options.min_calls);
  }
};

}  // namespace

Timing Summarize(absl::Span<const double> microseconds) {
  std::vector<double> sorted(microseconds.begin(), microseconds.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  return {median, sorted.front()};
}

absl::StatusOr<std::pair<Timing, Timing>> MeasureInTurns(const MeasureOptions& options,
                                                         absl::FunctionRef<absl::Status()> a,
                                                         absl::FunctionRef<absl::Status()> b) {
  Runner first{a, {}}, second{b, {}};
  while (!first.Done(options) || !second.Done(options)) {
    COTAN_RETURN_IF_ERROR(first.RunBlock(options));
    COTAN_RETURN_IF_ERROR(second.RunBlock(options));
  }
  return std::make_pair(Summarize(first.microseconds), Summarize(second.microseconds));
}

}  // namespace cotan::testing
