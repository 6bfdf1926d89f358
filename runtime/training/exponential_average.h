// SPDX-License-Identifier: Apache-2.0

// Exponential moving averages of the parameters (EMA), which often score better than the parameters themselves.
#ifndef COTAN_RUNTIME_TRAINING_EXPONENTIAL_AVERAGE_H_
#define COTAN_RUNTIME_TRAINING_EXPONENTIAL_AVERAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"

namespace cotan::training {

// Averages of the trained parameters of a session, which outlives this object. Buffers such as running statistics are
// not averaged. Movable; not thread-safe, and used like a call of the session.
class ExponentialAverage {
 public:
  // Starts with the current values.
  // InvalidArgument: `decay` is not in (0, 1), or the program trains no parameter.
  // Unimplemented: a parameter is neither f32 nor f64; the message names it.
  // Errors of Session::State().
  static absl::StatusOr<ExponentialAverage> Create(Session* session, double decay);

  // Moves each average to decay * average + (1 - decay) * parameter, in f64. Call it after each step.
  absl::Status Update();

  // Exchanges parameters and averages; a second call restores both. Errors of Session::State() and SetState().
  absl::Status Swap();

  // Returns the averages by the name of the parameter, in the order of the program's states.
  absl::Span<const std::pair<std::string, Tensor>> averages() const { return averages_; }
  // Replaces the averages, in the order of averages().
  // InvalidArgument: there are more or fewer, or one has another name, dtype or other sizes.
  absl::Status Set(absl::Span<const std::pair<std::string, Tensor>> averages);

 private:
  ExponentialAverage(Session* session, double decay) : session_(session), decay_(decay) {}

  Session* session_;
  double decay_;
  std::vector<std::pair<std::string, Tensor>> averages_;  // row-major on the host
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_EXPONENTIAL_AVERAGE_H_
