// SPDX-License-Identifier: Apache-2.0

// Ends a training run when the score on held-out data no longer improves.
#ifndef COTAN_RUNTIME_TRAINING_EARLY_STOPPING_H_
#define COTAN_RUNTIME_TRAINING_EARLY_STOPPING_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace cotan::training {

struct EarlyStoppingOptions {
  // Evaluations in a row without an improvement after which training stops; 0: it never stops.
  int64_t patience = 0;
  // An improvement is larger than this.
  double min_delta = 0;
  // True for an accuracy, false for a loss or an error.
  bool larger_is_better = true;
};

// Keeps the best score. Copyable; not thread-safe.
class EarlyStopping {
 public:
  // The part of a checkpoint.
  struct State {
    double best = 0;           // meaningless if best_step is negative
    int64_t best_step = -1;    // of the evaluation with the best score; -1: there was none
    int64_t not_improved = 0;  // evaluations since then
    friend bool operator==(const State&, const State&) = default;
  };

  // InvalidArgument: patience or min_delta is negative or not finite.
  static absl::StatusOr<EarlyStopping> Create(const EarlyStoppingOptions& options);

  // Adds the score after step `step`. Returns true if it is the first or an improvement of the best one. NaN is none.
  bool Add(double score, int64_t step);
  bool should_stop() const { return options_.patience > 0 && state_.not_improved >= options_.patience; }

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  explicit EarlyStopping(const EarlyStoppingOptions& options) : options_(options) {}

  EarlyStoppingOptions options_;
  State state_;
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_EARLY_STOPPING_H_
