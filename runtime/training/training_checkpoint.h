// SPDX-License-Identifier: Apache-2.0

// Checkpoints of a training run: those of a session (runtime/session/checkpoint.h) with what the training loop needs to
// continue with the same bits, as tensors and metadata whose names begin with "cotan.training.". A session loads them
// as well.
#ifndef COTAN_RUNTIME_TRAINING_TRAINING_CHECKPOINT_H_
#define COTAN_RUNTIME_TRAINING_TRAINING_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"
#include "runtime/training/early_stopping.h"
#include "runtime/training/loss_curve.h"

namespace cotan::training {

// The state of a training loop beside that of its session.
struct TrainingCheckpoint {
  int64_t step = 0;                // steps done; epoch and batch follow from it
  std::vector<double> base_rates;  // learning rate of each parameter group before the schedule
  EarlyStopping::State early_stopping;
  CurvePoints losses;
  CurvePoints scores;
  std::vector<std::pair<std::string, Tensor>> averages;  // by parameter; empty: none
  // Options that a resumed run must share: names and values.
  std::vector<std::pair<std::string, std::string>> options;
};

// Writes the states of `session` and `checkpoint`; the file is replaced atomically. Equal states give equal bytes.
// Errors of SaveCheckpoint() (runtime/session/checkpoint.h).
absl::Status SaveTrainingCheckpoint(const Session& session, const TrainingCheckpoint& checkpoint,
                                    const std::string& path);

// Reads what SaveTrainingCheckpoint() wrote, without the states, which Session::LoadCheckpoint() reads; it also checks
// the checksum of the whole file. Untrusted input is safe.
// NotFound, PermissionDenied, Unavailable: the file cannot be read. DataLoss: it is truncated.
// InvalidArgument: it is not a safetensors file, or was not written by a training run. The message has the path.
absl::StatusOr<TrainingCheckpoint> ReadTrainingCheckpoint(const std::string& path);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_TRAINING_CHECKPOINT_H_
