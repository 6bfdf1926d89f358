// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/early_stopping.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cotan::training {

absl::StatusOr<EarlyStopping> EarlyStopping::Create(const EarlyStoppingOptions& options) {
  if (options.patience < 0) {
    return absl::InvalidArgumentError(absl::StrCat("early stopping: patience = ", options.patience, " is negative"));
  }
  if (!(options.min_delta >= 0) || !std::isfinite(options.min_delta)) {
    return absl::InvalidArgumentError(
        absl::StrCat("early stopping: min_delta = ", options.min_delta, "; expected a number of at least 0"));
  }
  return EarlyStopping(options);
}

bool EarlyStopping::Add(double score, int64_t step) {
  const double gain = options_.larger_is_better ? score - state_.best : state_.best - score;
  const bool improved = state_.best_step < 0 ? !std::isnan(score) : gain > options_.min_delta;
  if (improved) {
    state_ = {score, step, 0};
  } else {
    ++state_.not_improved;
  }
  return improved;
}

}  // namespace cotan::training
