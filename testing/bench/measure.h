// SPDX-License-Identifier: Apache-2.0

// Measures two implementations of the same work in turns.
#ifndef COTAN_TESTING_BENCH_MEASURE_H_
#define COTAN_TESTING_BENCH_MEASURE_H_

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cotan::testing {

// Times of single calls, in microseconds.
struct Timing {
  double median_us = 0;
  double min_us = 0;
};

// Returns median and minimum. `microseconds` is not empty.
Timing Summarize(absl::Span<const double> microseconds);

struct MeasureOptions {
  double seconds = 4;          // spent on each of the two
  double block_seconds = 0.1;  // before the other one's turn
  int min_calls = 5;           // timed calls of each, at least
};

// Calls `a` and `b` in turns, a block of calls each, so that both see the same state of the
// machine. The first call of a block is not counted: the caches still have the other
// implementation's data, and its worker threads may still be spinning. Stops at the first error.
absl::StatusOr<std::pair<Timing, Timing>> MeasureInTurns(const MeasureOptions& options,
                                                         absl::FunctionRef<absl::Status()> a,
                                                         absl::FunctionRef<absl::Status()> b);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_MEASURE_H_
